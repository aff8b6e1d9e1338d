"""What code reads though it does not name it: what Python's own functions, operators and classes look at for it."""

from __future__ import annotations

import abc
import argparse
import array
import builtins
import collections
import contextlib
import copy
import dataclasses
import functools
import io
import math
import operator
import sys
import threading
import types
import typing
import unittest.mock
import warnings
import weakref

import numpy as np

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, case
from tests.soundness.tools import network


def numbers(n=3):
    return torch.arange(float(n)) + 0.5


# -- attributes that instructions do not name --------------------------------------------------------------------------


@case
def attributes_in_patterns(jit):
    @dataclasses.dataclass
    class Step:
        scale: float
        kind: str = "times"

    steps = [Step(2.0), Step(3.0, "plus")]

    def f(x):
        for step in steps:
            match step:
                case Step(scale, kind="times"):
                    x = x * scale
                case Step(scale=scale):
                    x = x + scale
        return x

    f = jit(f)
    yield f(numbers())
    steps[0].scale = 5.0
    yield f(numbers())
    steps[1].kind = "times"
    yield f(numbers())
    for steps[1].scale in (7, 0.5, 0.25):
        yield f(numbers())


@case
def what_super_finds(jit):
    class Base:
        scale = 2.0

        def go(self, x):
            return x * 2

    class Middle(Base):
        pass

    class Derived(Middle):
        scale = 100.0

        def go(self, x):
            return super().go(x) * super().scale

    f = jit(Derived().go)
    yield f(numbers())
    Base.scale = 3.0
    yield f(numbers())
    Base.go = lambda self, x: x + 100
    yield f(numbers())
    Middle.go = lambda self, x: x - 1
    yield f(numbers())
    Middle.scale = 0.5
    yield f(numbers())


@case(versions=1)
def a_counter_of_the_base_class(jit):
    class Base:
        count = 0

    class Derived(Base):
        def go(self, x):
            Base.count += 1
            return x * super().count

    f = jit(Derived().go)
    for _ in range(3):
        yield f(numbers()), Base.count
    Base.count = 10
    yield f(numbers()), Base.count


@case
def special_methods_replaced(jit):
    class Scale:
        def __init__(self, by=1.0):
            self.by = by

        def __mul__(self, other):
            return other * self.by

        def __len__(self):
            return 2

        def __lt__(self, other):
            return self.by < other.by

        def __enter__(self):
            return self.by

        def __exit__(self, *error):
            pass

        def __iter__(self):
            return iter([self.by])

    scale, other = Scale(2.0), Scale(3.0)

    def f(x):
        with scale as by:
            x = scale * x + len(scale) + by
        return x + min(scale, other).by + sum(other) + Scale().by

    f = jit(f)
    yield f(numbers())
    Scale.__init__.__defaults__ = (5.0,)
    yield f(numbers())
    for name, method in (
        ("__mul__", lambda self, other: other - self.by),
        ("__len__", lambda self: 50),
        ("__lt__", lambda self, other: self.by > other.by),
        ("__enter__", lambda self: 0.5),
        ("__iter__", lambda self: iter([7.0, 8.0])),
        ("__init__", lambda self, by=2.0: setattr(self, "by", 10 * by)),
        ("__new__", lambda kind: types.SimpleNamespace(by=77.0)),
    ):
        setattr(Scale, name, staticmethod(method) if name == "__new__" else method)
        yield f(numbers())


@case
def methods_that_a_class_gets_later(jit):
    class Base:
        def go(self, x):
            return x * 2

        def __len__(self):
            return 2

    class Derived(Base):
        pass

    thing = Derived()
    f = jit(lambda x: thing.go(x) + len(thing))
    yield f(numbers())
    Derived.go = lambda self, x: x * 3
    yield f(numbers())
    Derived.__len__ = lambda self: 5
    yield f(numbers())
    del Derived.go
    yield f(numbers())


@case
def the_class_of_an_object_replaced(jit):
    class First:
        def go(self, x):
            return x * 2

    class Second:
        def go(self, x):
            return x * 3

    thing = First()
    f = jit(lambda x: thing.go(x))
    g = jit(lambda x: x * 2 if isinstance(thing, First) else x * 3)
    h = jit(lambda x: x * 5 if type(thing) is First else x * 7)
    for thing.__class__ in (First, Second, First):
        yield f(numbers()), g(numbers()), h(numbers())


@case
def an_abstract_class_gets_a_member(jit):
    class Kind(abc.ABC):  # noqa: B024
        pass

    class Thing:
        pass

    thing = Thing()
    f = jit(lambda x: x * 2 if isinstance(thing, Kind) else x * 3)
    yield f(numbers())
    Kind.register(Thing)
    yield f(numbers())


@case
def another_subclass(jit):
    class Base:
        pass

    class First(Base):
        @staticmethod
        def go(x):
            return x * 2

    def f(x):
        for kind in Base.__subclasses__():
            x = kind.go(x)
        return x

    f = jit(f)
    yield f(numbers())

    class Second(Base):
        @staticmethod
        def go(x):
            return x + 5

    assert Second in Base.__subclasses__()
    yield f(numbers())


@case
def a_generic_function_for_another_class(jit):
    class First:
        pass

    class Second(First):
        pass

    @functools.singledispatch
    def go(thing, x):
        return x

    go.register(First, lambda thing, x: x * 2)
    thing = Second()
    f = jit(lambda x: go(thing, x))
    yield f(numbers())
    go.register(Second, lambda thing, x: x * 5)
    yield f(numbers())

    class Holder:
        @functools.singledispatchmethod
        def go(self, thing, x):
            return x

    holder = Holder()
    g = jit(lambda x: holder.go(thing, x))
    yield g(numbers())
    vars(Holder)["go"].register(First, lambda self, thing, x: x * 7)
    yield g(numbers())


@case
def the_names_of_an_object(jit):
    class Thing:
        scale_a = 2.0

    thing = Thing()

    def f(x):
        for name in dir(thing):
            if name.startswith("scale"):
                x = x * getattr(thing, name)
        return x

    f = jit(f)
    yield f(numbers())
    thing.scale_b = 3.0
    yield f(numbers())
    Thing.scale_c = 5.0
    yield f(numbers())


@case
def a_text_with_attributes(jit):
    class Name(str):
        pass

    first, second = Name("same"), Name("same")
    first.scale, second.scale = 2.0, 3.0
    holder = types.SimpleNamespace(name=first, names=[first])
    f = jit(lambda x: x * holder.name.scale)
    g = jit(lambda x: x * holder.names[0].scale)
    yield f(numbers()), g(numbers())
    holder.name = holder.names[0] = second
    yield f(numbers()), g(numbers())
    second.scale = 9.0
    yield f(numbers()), g(numbers())


# -- what functions and operators of Python's own look at --------------------------------------------------------------


@case
def attributes_got_by_functions_of_python(jit):
    class Task:
        __slots__ = ("order", "weight")
        unit = 1.0

        def __init__(self, order, weight):
            self.order, self.weight = order, weight

    tasks = [Task(2, 1.5), Task(1, 2.5), Task(3, 0.5)]
    unit = operator.attrgetter("unit")

    def f(x):
        for task in sorted(tasks, key=operator.attrgetter("order")):
            x = x * 2 + task.weight
        best = max(tasks, key=operator.attrgetter("weight"))
        return x * sum(map(operator.attrgetter("weight"), tasks)) + unit(best)

    f = jit(f)
    yield f(numbers())
    tasks[0].order = 9
    yield f(numbers())
    tasks[2].weight = 8.0
    yield f(numbers())
    Task.unit = 3.0
    yield f(numbers())


@case
def objects_with_slots_copied(jit):
    @dataclasses.dataclass(slots=True)
    class Options:
        scale: float = 1.0
        offsets: list = dataclasses.field(default_factory=lambda: [2.0])

    options = Options()

    def f(x):
        for value in dataclasses.asdict(options).values():
            x = x * (value if isinstance(value, float) else value[0])
        return x + copy.copy(options).scale + copy.deepcopy(options).offsets[0]

    f = jit(f)
    yield f(numbers())
    options.scale = 5.0
    yield f(numbers())
    options.offsets[0] = 7.0
    yield f(numbers())


@case
def numbers_copied_from_a_dataclass(jit):
    @dataclasses.dataclass
    class Options:
        scale: float = 1.0
        count: int = 2

    options = Options()

    def f(x):
        changed = dataclasses.replace(options, scale=options.scale * 2, count=options.count + 1)
        scale, count = dataclasses.astuple(changed)
        return x * scale + count

    f = jit(f)
    for options.scale, options.count in ((1.0, 2), (5.0, 3), (6.0, 4), (7.5, 5)):
        yield f(numbers())


@case
def attributes_in_formats(jit):
    class Options:
        pass

    options = Options()
    options.mode, options.n = "a", 1
    table = {"a:1": 2.0, "b:1": 3.0, "b:2": 4.0}
    f = jit(lambda x: x * table[f"{options.mode}:{options.n}"])
    plain = types.SimpleNamespace(k=1)
    g = jit(lambda x: x * len(repr(plain)))
    yield f(numbers()), g(numbers())
    options.mode, plain.k = "b", 10
    yield f(numbers()), g(numbers())
    options.n, plain.another = 2, 3
    yield f(numbers()), g(numbers())


@case
def objects_of_python_compared(jit):
    first, second = types.SimpleNamespace(k=1), types.SimpleNamespace(k=1)
    given, wanted = argparse.Namespace(k=1), argparse.Namespace(k=1)
    f = jit(lambda x: x * 2 if first == second else x * 3)
    g = jit(lambda x: x * 2 if given == wanted else x * 3)
    h = jit(lambda x: x * 2 if [first] == [second] and "more" not in given else x * 3)
    yield f(numbers()), g(numbers()), h(numbers())
    second.k = wanted.k = 2
    yield f(numbers()), g(numbers()), h(numbers())
    first.k = given.k = 2
    yield f(numbers()), g(numbers()), h(numbers())
    given.more = 1
    yield f(numbers()), g(numbers()), h(numbers())


@case
def operators_of_wrapped_containers(jit):
    values, names = collections.UserList([1.0]), collections.UserDict()
    def f(x):
        x = x * 2 if names else x * 3
        for value in values + [3.0]:  # noqa: RUF005
            x = x * value
        return x if values else -x

    f = jit(f)
    yield f(numbers())
    values[0] = 5.0
    yield f(numbers())
    names["a"] = 1
    yield f(numbers())
    values.clear()
    yield f(numbers())


@case
def sets_in_another_order(jit):
    kept = {0, 8, 16}
    holder = types.SimpleNamespace(kept=kept)

    def f(x):
        for value in holder.kept:
            x = x * 1.5 + value
        return x

    f = jit(f)
    for order in ((0, 8, 16), (16, 8, 0), (8, 16, 0)):
        kept.clear()
        for value in order:
            kept.add(value)
        yield list(kept), f(numbers())


@case
def an_array_of_the_standard_library(jit):
    weights = array.array("d", [1.0, 2.0])
    f = jit(lambda x: x * weights[0] + len(weights))
    yield f(numbers())
    weights[0] = 5.0
    yield f(numbers())
    weights.append(1.0)
    yield f(numbers())


@case(versions=3)
def proxies_and_variables_of_threads(jit):
    class Thing:
        pass

    thing, local = Thing(), threading.local()
    proxy = weakref.proxy(thing)
    f = jit(lambda x: x * proxy.scale + local.offset)
    for thing.scale, local.offset in ((1.0, 0.5), (2.0, 0.25), (3.0, 0.125), (4.0, 1.5)):
        yield f(numbers())


@case
def functions_that_python_calls_change_objects(jit):
    log, table, thing = [], {"a": 1.0, "b": 2.0}, types.SimpleNamespace(count=0)

    def f(x):
        any(map(log.append, (1, 2)))
        list(map(setattr, [thing, thing], ["count", "last"], [thing.count + 1, len(log)]))
        return x * functools.reduce(operator.add, map(table.__getitem__, "ab")) + len(log)

    f = jit(f)
    for _ in range(3):
        yield f(numbers()), log, thing
    table["b"] = 5.0
    yield f(numbers()), log, thing


@case(outcome=FELL_BACK)
def a_mock_is_called(jit):
    callback = unittest.mock.Mock(return_value=2.0)
    f = jit(lambda x: x * callback(3))
    for callback.return_value in (2.0, 2.0, 5.0):
        yield f(numbers()), callback.call_count


@case
def a_frozen_dataclass_refuses(jit):
    @dataclasses.dataclass(frozen=True)
    class Options:
        scale: float = 2.0

    options = Options()

    def f(x):
        try:
            options.scale = 3.0
        except dataclasses.FrozenInstanceError:
            x = x + 1
        return x * options.scale

    def g(x):
        object.__setattr__(options, "scale", options.scale + 1)
        return x * options.scale

    f, g = jit(f), jit(g)
    for _ in range(3):
        yield f(numbers()), g(numbers()), options
    object.__setattr__(options, "scale", 10.0)
    yield f(numbers()), g(numbers()), options


class Scaled:
    """An object whose methods are kept elsewhere."""

    def __init__(self, by):
        self.by = by

    def times(self, x):
        return x * self.by

    def plus(self, x):
        return x + self.by


@case
def methods_kept_and_replaced(jit):
    first, second = Scaled(2.0), Scaled(3.0)
    kept, table = types.SimpleNamespace(call=first.times), {"k": 1.0}
    variable, kept.get = first.times, table.get
    f, g = jit(lambda x: kept.call(x)), jit(lambda x: variable(x) * kept.get("k", 5.0))
    yield f(numbers()), g(numbers())
    kept.call = variable = second.times
    yield f(numbers()), g(numbers())
    kept.call = variable = second.plus
    yield f(numbers()), g(numbers())
    second.by = table["k"] = 7.0
    yield f(numbers()), g(numbers())
    table.clear()
    yield f(numbers()), g(numbers())
    kept.get = {"k": 9.0}.get
    yield f(numbers()), g(numbers())


@case(versions=2)
def methods_and_tuples_renewed(jit):
    """What is equal and made anew for every call compiles nothing, unless the code asks which object it is."""
    thing, kept = Scaled(2.0), types.SimpleNamespace()
    f = jit(lambda x, function: function(x).reshape(kept.shape) * kept.parts[1][0])
    for _ in range(4):
        kept.shape, kept.parts = tuple([3, 1]), (None, tuple([2.0, "a"]))
        yield f(numbers(), thing.times)
    kept.parts = None, (2, "a")
    yield f(numbers(), thing.times)


@case
def tuples_told_apart(jit):
    default = (1, 2)
    kept = types.SimpleNamespace(value=default)
    f = jit(lambda x: x * 2 if kept.value is default else x * 3)
    for kept.value in (default, tuple([1, 2]), default):
        yield f(numbers())


@case(versions=3)
def a_machine_whose_state_is_a_method(jit):
    class Machine:
        def __init__(self):
            self.state, self.log = self.idle, []

        def idle(self, x):
            self.state = self.busy
            return x

        def busy(self, x):
            self.log.append("busy")
            self.state = self.done
            return x * 2

        def done(self, x):
            self.state = self.idle
            return x * 3

    machine = Machine()
    f = jit(lambda x: machine.state(x))
    for _ in range(7):
        yield f(numbers()), machine.log, machine.state.__name__


# -- names, settings and output ----------------------------------------------------------------------------------------


@case
def builtins_shadowed_and_replaced(jit):
    names = {"__builtins__": builtins}
    exec("def g(x): return x * abs(-2.0) + sum([1, 2]) + round(2.6)", names)
    f, before = jit(names["g"]), builtins.round
    yield f(numbers())
    names["abs"] = lambda value: 7.0
    yield f(numbers())
    builtins.round = lambda value: 50
    try:
        yield f(numbers())
    finally:
        builtins.round = before
    yield f(numbers())
    del names["abs"]
    yield f(numbers())


@case
def names_defined_later(jit):
    names = {}
    exec("def g(x):\n try: return x * scale\n except NameError: return x", names)

    def inside(x):
        try:
            return x * flag
        except NameError:
            return x

    f, g = jit(names["g"]), jit(inside)
    yield f(numbers()), g(numbers())
    names["scale"] = flag = 3.0
    yield f(numbers()), g(numbers())
    names["scale"] = flag = 4.0
    yield f(numbers()), g(numbers())
    del names["scale"], flag
    yield f(numbers()), g(numbers())


@case
def constants_of_libraries_replaced(jit):
    before, pi = sys.argv, math.pi
    f = jit(lambda x: x * math.pi + (2 if "--fast" in sys.argv else 3))
    sys.argv = ["program"]
    try:
        yield f(numbers())
        sys.argv.append("--fast")
        yield f(numbers())
        sys.argv = []
        yield f(numbers())
        math.pi = 3.0
        yield f(numbers())
    finally:
        sys.argv, math.pi = before, pi
    yield f(numbers())


@case
def settings_asked_for(jit):
    def f(x):
        count = sys.getrecursionlimit() + len(torch.get_float32_matmul_precision())
        if torch.are_deterministic_algorithms_enabled():
            count += 1
        if torch.backends.cudnn.benchmark:
            count += 2
        if np.geterr()["divide"] == "ignore":
            count += 4
        return x * count

    f, limit = jit(f), sys.getrecursionlimit()
    torch.set_float32_matmul_precision("highest")
    yield f(numbers())
    try:
        torch.use_deterministic_algorithms(True)
        yield f(numbers())
        torch.backends.cudnn.benchmark = True
        yield f(numbers())
        torch.set_float32_matmul_precision("high")
        yield f(numbers())
        with np.errstate(divide="ignore"):
            yield f(numbers())
        sys.setrecursionlimit(limit + 10)
        yield f(numbers())
    finally:
        torch.use_deterministic_algorithms(False)
        torch.backends.cudnn.benchmark = False
        torch.set_float32_matmul_precision("highest")
        sys.setrecursionlimit(limit)
    yield f(numbers())


@case(outcome=FELL_BACK)
def what_watches_the_program(jit):
    f = jit(lambda x: x * 2 if sys.gettrace() is None else x * 3)
    yield f(numbers())


@case(outcome=FELL_BACK)
def warnings_caught_inside(jit):
    def f(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("old", DeprecationWarning)  # noqa: B028
        return x * len(caught)

    f = jit(f)
    yield f(numbers())
    yield f(numbers(4))


@case(outcome=FELL_BACK)
def output_redirected_inside(jit):
    def f(x):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            print("rows", x.shape[0])
        return x * len(text.getvalue())

    f = jit(f)
    yield f(numbers())
    yield f(numbers(10))


@case
def output_redirected_outside(jit):
    def f(x):
        print("rows", x.shape[0])
        sys.stdout.write("written\n")
        return x * 2

    f, text = jit(f), io.StringIO()
    yield f(numbers())
    with contextlib.redirect_stdout(text):
        f(numbers())
        f(numbers(4))
    yield text.getvalue(), f(numbers())


@case(outcome=FELL_BACK)
def a_function_to_be_awaited(jit):
    async def f(x):
        return x * 2

    f = jit(f)
    for _ in range(2):
        try:
            f(numbers()).send(None)
        except StopIteration as end:
            yield end.value


@case(outcome=FELL_BACK)
def what_an_error_comes_after(jit):
    """An error of the plain call has no context that the recording left."""
    log = []

    def f(x):
        try:
            raise ValueError("first")
        except ValueError as error:
            log.append(error.__context__)
        return eval("x * 2", {"x": x})

    f = jit(f)
    for _ in range(2):
        yield f(numbers()), log


# -- Modules -----------------------------------------------------------------------------------------------------------


@case(versions=3)
def a_hook_that_removes_itself(jit):
    model, seen = network(), []

    def hook(module, args, result):
        seen.append(result.shape[0])
        handle.remove()
        return result * 2

    handle = model.register_forward_hook(hook)
    f = jit(lambda x: model(x))
    for _ in range(3):
        yield f(numbers(6).reshape(2, 3)), seen, len(model._forward_hooks)
    handle = model[0].register_forward_hook(hook)
    for _ in range(2):
        yield f(numbers(6).reshape(2, 3)), seen, len(model._forward_hooks)


@case
def tables_of_a_module_written(jit):
    model = network()
    f, x = jit(lambda x: model(x)), numbers(6).reshape(2, 3)
    yield f(x)
    model._modules["1"] = nn.ReLU()
    yield f(x)
    model[0]._parameters["bias"] = nn.Parameter(torch.zeros(4))
    yield f(x)
    model[0]._forward_hooks[99] = lambda module, args, result: result * 2
    yield f(x)
    model[0]._forward_hooks.clear()
    yield f(x)
    copied = copy.deepcopy(model)
    g = jit(lambda x: copied(x))
    yield g(x)
    copied._modules.pop("1")
    yield g(x), f(x)


@case
def a_table_of_a_module_written_inside(jit):
    model = network()
    biases = [torch.zeros(4), torch.ones(4)]

    def f(x):
        model[0]._parameters["bias"] = biases[len(model._forward_hooks) % 2]
        return model(x)

    f, g, x = jit(f), jit(lambda x: model(x)), numbers(6).reshape(2, 3)
    yield g(x)
    yield f(x), g(x)
    biases.reverse()
    yield f(x), g(x)


@case
def a_part_of_a_module_deleted_inside(jit):
    model = network()
    model.extra = nn.Tanh()

    def f(x):
        if hasattr(model, "extra"):
            del model.extra
        return model(x)

    f, x = jit(f), numbers(6).reshape(2, 3)
    for _ in range(2):
        yield f(x), hasattr(model, "extra")
    model.extra = nn.ReLU()
    yield f(x), hasattr(model, "extra"), list(model._modules)


class Unequal:
    """Something that may be called, and that nothing may be compared with."""

    def __call__(self, x):
        return x * 2

    def __eq__(self, other):
        raise AssertionError("compared")

    __hash__ = object.__hash__


@case(versions=1)
def a_callable_that_nothing_may_be_compared_with(jit):
    called = Unequal()
    f = jit(lambda x: called(x) + called(x=x))
    for _ in range(3):
        yield f(numbers())


@case(versions=1)
def a_class_made_inside_whose_methods_know_tensors(jit):
    def f(x):
        class Rows:
            def __len__(self):
                return len(x)

            def __getitem__(self, i):
                return x[i] * 2

        rows = Rows()
        return [rows[i] for i in range(len(rows))]

    f = jit(f)
    for _ in range(3):
        yield f(numbers())


@case(versions=7)
def what_partials_keep_is_replaced(jit):
    scaled = functools.partial(lambda x, k=1.0, b=0.0: x * k + b)

    @jit
    def f(x):
        return scaled(x)

    g = jit(functools.partial(scaled, b=1.0))
    for keywords in ({}, {"k": 3.0}, {"k": 3}, {"b": 2.0}):
        scaled.__setstate__((scaled.func, (), keywords, {}))
        yield f(torch.ones(2)), g(torch.ones(2))
    scaled.keywords["b"] = 5.0
    f(torch.ones(2))
    scaled.__setstate__((lambda x, k: x - k, (), {"k": 3.0}, {}))
    f(torch.ones(2))


@case(versions=5)
def what_methods_of_functools_keep_is_replaced(jit):
    class Layer:
        def scaled(self, x, k=1.0):
            return x * k

        twice = functools.partialmethod(scaled, k=2.0)

        @functools.singledispatchmethod
        def rate(self, of):
            return 0.5

        @functools.cached_property
        def bias(self):
            return 1.0

    @jit
    def f(x):
        layer = Layer()
        return layer.twice(x) * layer.rate(2.0) + layer.bias

    kept = vars(Layer)
    for change in (
        lambda: None,
        lambda: kept["twice"].keywords.update(k=3.0),
        lambda: setattr(kept["twice"], "func", lambda self, x, k: x - k),
        lambda: setattr(kept["rate"], "dispatcher", functools.singledispatch(lambda self, of=0.0: 7.0)),
        lambda: setattr(kept["bias"], "func", lambda self: 4.0),
    ):
        change()
        yield f(torch.ones(2)), f(torch.ones(2))


@case(versions=10)
def attributes_got_past_what_a_class_says(jit):
    class Settings:
        rate = 2.0

        def __init__(self):
            self.scale, self.asked = 3.0, 0

        def __getattribute__(self, name):
            if name == "scale":
                object.__setattr__(self, "asked", object.__getattribute__(self, "asked") + 1)
            return super().__getattribute__(name)

    settings, plain = Settings(), types.SimpleNamespace(scale=2.0)

    @jit
    def counted(x):
        return x * settings.scale

    @jit
    def past(x):
        return x * object.__getattribute__(plain, "scale") + type.__getattribute__(Settings, "rate")

    for _ in range(3):
        yield counted(torch.ones(2)), past(torch.ones(2)), settings.asked
    settings.scale = plain.scale = 5.0
    yield counted(torch.ones(2)), past(torch.ones(2)), settings.asked
    Settings.rate = 1.0
    yield past(torch.ones(2))


@case(versions=4)
def an_object_comes_to_follow_a_protocol(jit):
    @typing.runtime_checkable
    class Scales(typing.Protocol):
        def scale(self): ...

    class Layer:
        pass

    layer = Layer()

    @jit
    def f(x):
        return x * 2 if isinstance(layer, Scales) else x * 3

    for change in (
        lambda: None,
        lambda: setattr(Layer, "scale", lambda self: 1.0),
        lambda: delattr(Layer, "scale"),
        lambda: setattr(layer, "scale", len),
        lambda: setattr(layer, "scale", None),
    ):
        change()
        yield f(torch.ones(2)), f(torch.ones(2))
