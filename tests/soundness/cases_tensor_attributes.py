"""Attributes that programs give to tensors: read, assigned and handed on in every way."""

from __future__ import annotations

import copy
import operator

import eagerjit as torch
from tests.soundness.cases_tensor_classes import plain_class, rows
from tests.soundness.framework import FELL_BACK, attempt, case


def with_attributes(names, value):
    x = rows(2)
    for name in names.split():
        setattr(x, name, value)
    return x


@case(versions=2)
def attributes_of_what_it_makes(jit):
    @jit
    def f(x, name):
        y = x * 2
        y.name_of_it, y.parts = name, [x.sum(), y]
        z = y + 1
        z.origin = y
        return z, y, {"again": z}

    for i in range(5):
        f(rows(3, i), "a name")


@case
def attributes_of_what_it_keeps(jit):
    kept = []

    @jit
    def f(x):
        y = x * 2
        y.weight = len(x)
        del y.weight
        y.weight = 3 * len(x)
        kept.append(y)
        y.other = x.mean()
        return y.weight

    for n in (3, 4, 5):
        f(rows(n))
        yield kept


@case(outcome=FELL_BACK)
def attributes_given_to_arguments(jit):
    @jit
    def f(x):
        x.seen = True
        return x * 2

    for i in range(3):
        x = rows(3, i)
        yield f(x), x.seen


@case(versions=3)
def attributes_that_equal_those_before(jit):
    @jit
    def f(x):
        return x * x.sizes[0] + len(x.sizes), (*x.sizes, 1)

    for sizes in ([2, 3], [2, 3], [2, 4], [2, 3], [2.0, 3]):
        x = rows(3)
        x.sizes = tuple(sizes)
        f(x)


@case
def the_dictionary_of_a_tensor(jit):
    functions = (
        lambda x: x * x.__dict__["scale"],
        lambda x: x * len(x.__dict__),
        lambda x: x * x.__dict__.get("other", 7) + len(dict(x.__dict__)),
        lambda x: x * (3 if "other" in x.__dict__ else 4),
        lambda x: x * 2 + list(x.__dict__).index("scale"),
    )
    jitted = [jit(function) for function in functions]
    for names in ("scale", "scale other", "other scale", "scale"):
        for i in range(2):
            for function in jitted:
                function(with_attributes(names, i + 2))


@case
def the_dictionary_of_a_tensor_handed_on(jit):
    @jit
    def copied(x):
        y = x * 2
        y.__dict__ = x.__dict__.copy()
        return y

    @jit
    def updated(x):
        y = x * 2
        y.__dict__.update(x.__dict__)
        return y, y.detach()

    @jit
    def one_by_one(x):
        y = x * 2
        for name, value in x.__dict__.items():
            setattr(y, name, value)
        return y

    for i in range(4):
        x = rows(2, i)
        x.scale = i % 2
        if i == 3:
            x.other = "more"
        yield copied(x), updated(x), one_by_one(x), one_by_one(rows(2))


@case(outcome=FELL_BACK)
def the_dictionary_or_class_of_a_tensor_replaced(jit):
    kind = plain_class()

    @jit
    def f(x):
        x.__dict__ = {"seen": 1}
        return x * 2

    @jit
    def g(x):
        x.__class__ = kind
        return x * 2

    @jit
    def h(x):
        x.__dict__["seen"] = 1
        return x * 2

    @jit
    def k(x):
        x.__dict__.pop("scale")
        return x * 2

    for i in range(3):
        x = rows(2, i)
        x.scale = i
        yield f(x), x
        yield g(x), x
        x = rows(2, i)
        x.scale = 1
        yield h(x), x
        yield k(x), x


@case
def attributes_of_tensors_got_in_other_ways(jit):
    def matched(x):
        match x:
            case torch.Tensor(scale=value):
                return x * value
        return x

    functions = (
        lambda x: x * operator.attrgetter("scale")(x),
        lambda x: x * object.__getattribute__(x, "scale"),
        lambda x: x * torch.Tensor.__getattribute__(x, "scale"),
        lambda x: x * x.__getattribute__("__dict__")["scale"],
        lambda x: x * operator.attrgetter("__dict__")(x)["scale"],
        lambda x: x * (3 if "other" in dir(x) else 4),
        lambda x: copy.copy(x) * copy.copy(x).scale,
        matched,
    )
    jitted = [jit(function) for function in functions]
    for names in ("scale", "scale other", "", "scale"):
        for i in range(2):
            for function in jitted:
                attempt(function, with_attributes(names, i + 2))


@case(outcome=FELL_BACK)
def a_tensor_with_attributes_copied_deeply(jit):
    @jit
    def f(x):
        return getattr(copy.deepcopy(x), "scale", 5) * x

    for i in range(4):
        x = rows(2, i)
        f(x)
        x.scale = [i]
        f(x[0])
        attempt(f, x)
        x.scale = i
        f(x)


@case(outcome=FELL_BACK)
def told_apart_by_number(jit):
    kept, other = torch.ones(2), torch.ones(2)
    f = jit(lambda x: x * 2 if x._cdata == kept._cdata else x + 5)
    for x in (kept, other, kept):
        yield f(x)


@case(versions=2)
def sizes_gone_through_as_nested_data(jit):
    from eagerjit.utils import _pytree

    f = jit(lambda x: x.new_zeros(_pytree.tree_map(lambda size: size + 1, x.shape)) + x.sum())
    for i in range(1, 5):
        yield f(torch.ones(i, 2 * i))
