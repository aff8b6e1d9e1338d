"""Programs as people write them: attributes in unusual places."""

from __future__ import annotations

import functools

import eagerjit as torch
import eagerjit.nn as nn
import eagerjit.nn.functional as F
from tests.soundness.framework import FELL_BACK, case
from tests.soundness.tools import error_of


def ones(*sizes):
    return torch.ones(*sizes)


def ramp(*sizes):
    n = torch.Size(sizes).numel()
    return (torch.arange(float(n)) / n - 0.3).reshape(*sizes)


@case
def attributes_of_arguments(jit):
    f = jit(lambda x: x * x.tag)
    x, y = ramp(3), ramp(3)
    for x.tag in (5.0, 6.0):
        yield f(x).tolist()
    y.tag = 7.0
    yield f(y).tolist(), error_of(lambda: f(ramp(3)))


@case
def attributes_that_arguments_lack(jit):
    f = jit(lambda x: x * 2 if getattr(x, "doubled", False) else x)
    x = ramp(3)
    yield f(x).tolist()
    x.doubled = True
    yield f(x).tolist(), f(ramp(3)).tolist()


@case
def attributes_of_parameters(jit):
    weight = nn.Parameter(ramp(3))
    f = jit(lambda x: x * weight * getattr(weight, "scale", 1.0))
    yield f(ones(3))
    for weight.scale in (2.0, 3.0):
        yield f(ones(3))
    del weight.scale
    yield f(ones(3))


@case
def attributes_given_to_parameters(jit):
    weight = nn.Parameter(ramp(3))

    @jit
    def f(x):
        weight.calls = getattr(weight, "calls", 0) + 1
        weight.last = x.detach() * 2
        return x * weight * weight.calls

    for _ in range(3):
        yield f(ones(3)), weight.calls, weight.last


@case
def a_counter_of_a_decorator(jit):
    def counted(function):
        @functools.wraps(function)
        def call(*args):
            call.calls += 1
            return function(*args)

        call.calls = 0
        return call

    g = counted(lambda x: x * 2)
    f = jit(lambda x: g(x) + g(x))
    for _ in range(3):
        yield f(ones(2)), g.calls


@case
def settings_of_a_function(jit):
    def g(x):
        return x * g.scale if getattr(g, "on", True) else x

    f = jit(lambda x: g(x))
    for g.scale in (2.0, 3.0):
        yield f(ones(2))
    g.on = False
    yield f(ones(2))


@case
def lists_and_dictionaries_of_a_module(jit):
    class Model(nn.Module):
        table = [1.0, 2.0]  # noqa: RUF012

        def __init__(self):
            super().__init__()
            self.scales, self.names, self.deep = [1.0, 2.0], {"a": 1.0}, [[1.0], {"k": [2.0]}]
            self.on, self.functions = {1, 2}, [torch.relu, torch.tanh]

        def forward(self, x):
            for function in self.functions:
                x = function(x)
            x = x * self.scales[0] * self.names["a"] * (2.0 if 1 in self.on else 1.0)
            return x * self.deep[1]["k"][0] * self.table[0]

    model = Model()
    f = jit(model)
    yield f(ones(2))
    model.scales[0] = 3.0
    yield f(ones(2))
    model.names["a"] = 5.0
    yield f(ones(2))
    model.on.discard(1)
    yield f(ones(2))
    model.deep[1]["k"][0] = 7.0
    yield f(ones(2))
    model.functions.reverse()
    yield f(ones(2))
    Model.table[0] = 9.0
    yield f(ones(2))


@case
def a_module_counts_what_it_has_seen(jit):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = []

        def forward(self, x):
            self.seen.append(x.sum())
            return x * len(self.seen)

    model = Model()
    f = jit(model)
    for i in range(4):
        yield f(ones(2) * i), model.seen


@case
def the_forward_of_a_class_replaced(jit):
    class Layer(nn.Linear):
        pass

    class Model(nn.Module):
        def forward(self, x):
            return x * 2

    models = Model(), nn.Sequential(Layer(2, 2))
    f = [jit(lambda x, m=m: m(x)) for m in models]
    yield [g(ones(2)) for g in f]
    Model.forward = lambda self, x: x * 3
    Layer.forward = lambda self, x: F.linear(x, self.weight * 2)
    yield [g(ones(2)) for g in f]


@case
def functions_of_the_library_replaced(jit):
    f = jit(lambda x: F.softmax(torch.relu(x), -1))
    yield f(ramp(3))
    for owner, name in ((torch, "relu"), (F, "softmax")):
        before = getattr(owner, name)
        setattr(owner, name, lambda x, *_: x * 100)
        yield f(ramp(3))
        setattr(owner, name, before)
    yield f(ramp(3))


@case
def classes_of_the_library_replaced(jit):
    model = nn.Sequential(nn.Linear(3, 3))
    f, g = jit(lambda x: nn.GELU()(x)), jit(lambda x: model(x))
    before = nn.GELU, nn.Linear.forward
    yield f(ramp(3)), g(ramp(3))
    nn.GELU, nn.Linear.forward = nn.Tanh, lambda self, x: x * 2
    yield f(ramp(3)), g(ramp(3))
    nn.GELU, nn.Linear.forward = before
    yield f(ramp(3)), g(ramp(3))


@case
def attributes_assigned_by_a_method_of_ones_own(jit):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.log, self.scale = [], 1.0

        def __setattr__(self, name, value):
            if name == "scale" and "log" in self.__dict__:
                self.log.append(name)
            super().__setattr__(name, value)

        def forward(self, x):
            self.scale = self.scale * 2
            return x * self.scale

    model = Model()
    f = jit(model)
    for _ in range(3):
        yield f(ramp(2)), model.scale, model.log


@case
def methods_of_classes_replaced(jit):
    class Base:
        scale = 2.0

        @classmethod
        def times(cls, x):
            return x * cls.scale

    class Derived(Base):
        scale = 3.0

    f = jit(lambda x: Base.times(x) + Derived.times(x))
    yield f(ones(1))
    Base.scale = 5.0
    yield f(ones(1))
    Base.times = classmethod(lambda cls, x: x * 100 * cls.scale)
    yield f(ones(1))


@case
def an_empty_dictionary_of_an_object(jit):
    class Rows:
        def __init__(self):
            self.hits, self.known = 0, {}

        def __call__(self, x, n):
            if n in self.known:
                self.hits += 1
            else:
                self.known[n] = torch.arange(float(n))
            return x + self.known[n].sum()

    rows = Rows()
    f = jit(lambda x, n: rows(x, n))
    for n in (2, 3, 2, 2):
        yield f(ones(1), n), rows.hits, rows.known


@case(outcome=FELL_BACK)
def items_of_the_attributes_of_an_object(jit):
    class Box:
        def __init__(self):
            self.scale = 1.0

    box = Box()

    @jit
    def f(x):
        box.__dict__["scale"] = box.scale + 1
        return x * box.scale

    for _ in range(3):
        yield f(ones(1)), box.scale


@case
def bases_of_a_class_replaced(jit):
    class Doubling:
        factor = 2.0

        def forward(self, x):
            return x * 2

        @classmethod
        def name(cls):
            return "doubling"

    class Tripling(Doubling):
        factor = 3.0

        def forward(self, x):
            return x * 3

        @classmethod
        def name(cls):
            return "tripling it"

    class Model(Doubling):
        def forward(self, x):
            return super().forward(x) + super().factor

        @classmethod
        def name(cls):
            return super().name()

    model = Model()
    f = jit(lambda x: model.forward(x) + len(Model.name()))
    yield f(ones(2)), f(ones(2))
    for Model.__bases__ in ((Tripling,), (Doubling,), (Tripling, Doubling)):
        yield f(ones(2)), f(ones(2))


@case
def methods_of_the_librarys_classes_replaced(jit):
    class ByBase(nn.Linear):
        def forward(self, x):
            return super().forward(x) + 1

    class ByName(nn.Linear):
        def forward(self, x):
            return nn.Linear.forward(self, x) + 1

    models = [kind(3, 3) for kind in (ByBase, ByName, nn.Linear)]
    functions = [jit(lambda x, model=model: model(x)) for model in models]

    def calls():
        return [f(ramp(3)).detach() for f in functions for _ in range(2)]

    yield calls()
    for kind, name in ((nn.Linear, "forward"), (nn.Module, "__call__")):
        own, kept = name in vars(kind), getattr(kind, name)
        setattr(kind, name, lambda self, x: x * 100)
        try:
            yield calls()
        finally:
            setattr(kind, name, kept) if own else delattr(kind, name)
        yield calls()
