"""What Python programs are full of: dictionaries with attributes, imports inside, tables of functions, wrappers."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import ctypes
import decimal
import gc
import sys
import types
import warnings
import weakref

import numpy as np

import eagerjit as torch
from eagerjit.nn import functional
from tests.soundness.framework import FELL_BACK, attempt, case


def ones(*shape):
    return torch.ones(*shape)


# -- dictionaries with attributes --------------------------------------------------------------------------------------


class Settings(dict):
    """A dictionary whose items are its attributes, by methods of the dictionary's own."""

    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


@case(versions=4)
def settings_are_read(jit):
    settings = Settings(scale=1.0)
    f = jit(lambda x: x * settings.scale if settings.flag is None else x - settings.scale)
    f(ones(2))
    settings.scale = 2.0
    f(ones(2))
    settings.flag = 1
    f(ones(2))
    settings.scale = 9.0
    f(ones(2))
    del settings.flag
    yield f(ones(2))


@case(versions=6)
def settings_are_written(jit):
    settings = Settings(history=[])

    @jit
    def f(x):
        settings.step = (settings.step or 0) + 1
        settings.last = x * 2
        settings.history.append(settings.step)
        return x * settings.step

    for i in range(4):
        yield f(ones(2) * i), settings
    settings.step = 100
    yield f(ones(2)), settings


@case
def settings_are_deleted(jit):
    settings = Settings(scale=2.0)

    @jit
    def f(x):
        y = x * settings.scale
        del settings.scale
        settings.scale = 5.0
        return y

    for _ in range(3):
        yield f(ones(2)), settings


@case(versions=2)
def attributes_kept_in_a_table_of_ones_own(jit):
    class Store:
        def __init__(self):
            object.__setattr__(self, "_held", {"a": 1.0})

        def __getattr__(self, name):
            return self._held[name]

        def __setattr__(self, name, value):
            self._held[name] = value

    store = Store()

    @jit
    def f(x):
        store.a = store.a * 2
        return x * store.a

    for _ in range(3):
        yield f(ones(2)), store._held
    store.a = 1.0
    yield f(ones(2)), store._held


@case
def lists_and_dictionaries_of_python_code(jit):
    class Lowered(collections.UserDict):
        def __setitem__(self, key, value):
            super().__setitem__(key.lower(), value)

    table, row = Lowered(A=1.0), collections.UserList([1.0])

    @jit
    def f(x):
        table["N"] = table.get("n", 0) + 1
        row.append(3.0)
        return x * table["n"] + table["a"] + sum(row) + len(row)

    for _ in range(3):
        yield f(ones(2)), table.data, row.data
    table["A"] = 5.0
    row.clear()
    yield f(ones(2)), table.data, row.data


# -- what is looked up -------------------------------------------------------------------------------------------------


@case
def modules_imported_inside(jit):
    module = sys.modules["a_module_of_the_program"] = types.ModuleType("a_module_of_the_program")
    module.scale, module.shift = 2.0, lambda x: x + module.scale

    @jit
    def f(x):
        import a_module_of_the_program
        from a_module_of_the_program import scale

        return a_module_of_the_program.shift(x) * scale

    f(ones(2))
    module.scale = 3.0
    f(ones(2))
    module.shift = lambda x: x - 1
    f(ones(2))
    other = types.ModuleType("a_module_of_the_program")
    other.scale, other.shift = 50.0, lambda x: x
    sys.modules["a_module_of_the_program"] = other
    yield f(ones(2))
    del sys.modules["a_module_of_the_program"]


@case
def methods_by_their_names(jit):
    class Operations:
        scale = 2.0

        def op_add(self, x):
            return x + self.scale

        def op_mul(self, x):
            return x * self.scale

    operations, names = Operations(), ["add", "mul"]

    @jit
    def f(x):
        for name in names:
            x = getattr(operations, f"op_{name}")(x)
        return x

    f(ones(2))
    names.reverse()
    f(ones(2))
    operations.scale = 3.0
    f(ones(2))
    Operations.op_mul = lambda self, x: x
    f(ones(2))
    operations.op_add = lambda x: x * 100
    f(ones(2))
    names.append("missing")
    yield attempt(f, ones(2))


@case
def functions_of_one_code(jit):
    functions = [lambda x, k=k: x * k for k in (1.0, 2.0, 3.0)]
    f = jit(lambda x: [g(x) for g in functions])
    f(ones(2))
    functions[0].__defaults__ = (10.0,)
    f(ones(2))
    functions[2].__defaults__ = (20.0,)
    yield f(ones(2))


@case
def a_table_by_shapes(jit):
    table = {}

    @jit
    def f(x):
        key = tuple(x.shape)
        if key not in table:
            table[key] = torch.zeros(key) + len(table)
        return x + table[key]

    for n in (2, 3, 2, 4, 3):
        yield f(ones(n)), table
    table.clear()
    yield f(ones(2)), table


@case
def special_methods_that_a_class_gets(jit):
    class Plain:
        pass

    a, b = Plain(), Plain()
    f = jit(lambda x: (x * 2 if a else x * 3, x if a == b else -x))
    f(ones(2))
    Plain.__bool__ = lambda self: False
    f(ones(2))
    del Plain.__bool__
    f(ones(2))
    Plain.__len__ = lambda self: 0
    f(ones(2))
    Plain.__eq__ = lambda self, other: True
    yield f(ones(2))


@case
def a_method_of_tensors_replaced(jit):
    f = jit(lambda x: x.relu() + 1)
    f(-ones(2))
    before = torch.Tensor.relu
    torch.Tensor.relu = lambda self: self * 10
    try:
        f(-ones(2))
    finally:
        torch.Tensor.relu = before
    yield f(-ones(2))


# -- what cannot be compared -------------------------------------------------------------------------------------------


@case(outcome=FELL_BACK)
def memory_of_ctypes(jit):
    numbers = (ctypes.c_float * 3)(1, 2, 3)
    f = jit(lambda x: x * numbers[0])
    f(ones(2))
    numbers[0] = 7
    yield f(ones(2))


@case(outcome=FELL_BACK)
def objects_known_weakly_are_let_go(jit):
    class Thing:
        weight = 2.0

    thing = Thing()
    table = weakref.WeakValueDictionary(thing=thing)
    f = jit(lambda x: x * table["thing"].weight if "thing" in table else x)
    f(ones(2))
    del thing
    gc.collect()
    yield len(table), f(ones(2))


@case(outcome=FELL_BACK)
def the_frame_of_the_caller(jit):
    f = jit(lambda x: (x * 2, sys._getframe().f_code.co_name))
    for _ in range(2):
        f(ones(2))
    yield None


@case
def the_precision_of_decimals(jit):
    f = jit(lambda x: x * float(decimal.Decimal(1) / decimal.Decimal(3)))
    with decimal.localcontext() as context:
        yield f(ones(2))
        context.prec = 3
        yield f(ones(2))


# -- warnings ----------------------------------------------------------------------------------------------------------


@case(versions=1)
def a_warning_of_the_library(jit):
    f = jit(lambda x: functional.l1_loss(x, torch.ones(2, 1)))
    for _ in range(3):
        f(ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield attempt(f, ones(2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        yield f(ones(2)), len(caught)


@case(outcome=FELL_BACK)
def a_warning_of_numpy(jit):
    f = jit(lambda x: x * float(np.log(np.zeros(1))[0] > 0))
    for _ in range(3):
        f(ones(2))
    yield None


@case
def a_stack_of_contexts(jit):
    log = []

    @contextlib.contextmanager
    def scope(number):
        log.append(("in", number))
        try:
            yield number
        finally:
            log.append(("out", number))

    @jit
    def f(x):
        with contextlib.ExitStack() as stack:
            for number in range(3):
                x = x + stack.enter_context(scope(number))
            stack.callback(log.append, "end")
        return x

    for i in range(3):
        yield f(ones(2) * i), log


# -- nothing in the place of something ---------------------------------------------------------------------------------


@case
def none_is_assigned(jit):
    class Cache:
        kept, table, calls = 1, {"a": 2, "b": None}, 0

    cache, last = Cache(), [3]

    @jit
    def f(x):
        nonlocal counted
        cache.kept = cache.table["a"] = last[0] = counted = None
        cache.calls += 1
        return x * 2

    counted = 1
    for i in range(3):
        yield f(ones(2)), vars(cache), cache.table, last, counted
        cache.kept, cache.table["a"], last[0], counted = i, i, i, i
    del cache.kept
    yield f(ones(2)), vars(cache)


@case
def a_mode_that_is_left(jit):
    class Mode:
        current = None

        def __init__(self, scale):
            self.scale = scale

        def __enter__(self):
            self.before, Mode.current = Mode.current, self
            return self

        def __exit__(self, kind, error, trace):
            Mode.current = self.before
            return kind is ValueError

    def scaled(x):
        return x * (Mode.current.scale if Mode.current else 1.0)

    @jit
    def f(x, n):
        with Mode(2.0):
            x = scaled(x)
            with Mode(3.0):
                x = scaled(x)
                if n == 1:
                    raise ValueError
            x = scaled(x)
        return scaled(x)

    for n in (0, 1, 0):
        yield f(ones(2), n), Mode.current
    with Mode(10.0):
        yield f(ones(2), 0), Mode.current.scale


# -- windows over the last items ---------------------------------------------------------------------------------------


@case(versions=6)
def the_last_losses_in_a_deque(jit):
    class Smoothed:
        def __init__(self):
            self.last, self.total, self.count = collections.deque(maxlen=4), 0.0, 0

        def update(self, value):
            self.last.append(value)
            self.total += value
            self.count += 1

        @property
        def mean(self):
            return sum(self.last) / len(self.last)

    meter = Smoothed()

    @jit
    def f(x):
        meter.update(x.sum().item())
        return x * meter.mean, max(meter.last), meter.last[0]

    for i in range(12):
        yield f(ones(2) * i), meter
    meter.last.clear()
    for i in range(7):
        yield f(ones(2) * i), meter


@case(versions=5)
def the_last_states_in_a_list(jit):
    window, weight = [], ones(2).requires_grad_()

    @jit
    def f(x):
        window.append((weight * x).sum())
        if len(window) > 2:
            window.pop(0)
        return sum(window) * weight.sum()

    for i in range(8):
        result = f(ones(2) * i)
        weight.grad = None
        result.backward(retain_graph=True)
        yield result, weight.grad, window
    window[0] = 3.0
    yield f(ones(2)), window


@case
def a_window_changed_outside(jit):
    window = [ones(2), ones(2) * 2, ones(2) * 3]

    @jit
    def f(x):
        result = sum(window)
        window[:] = window[1:] + [x + window[0]]  # noqa: RUF005
        return result

    for i in range(9):
        yield f(ones(2) * i), window
    window.reverse()
    yield f(ones(2)), window
    window[1] = ones(1)
    yield f(ones(2)), window
    window[1] = window[0]
    yield f(ones(2)), window
    window.append(5.0)
    yield f(ones(2)), window


@case
def a_window_filled_by_another_function(jit):
    window = collections.deque(maxlen=3)

    @jit
    def put(x):
        window.append(x * 2)
        return len(window)

    get = jit(lambda x: x + sum(window))
    for i in range(9):
        yield put(ones(2) * i), get(ones(2)), list(window)


@case(versions=4)
def corrections_of_the_last_steps(jit):
    steps, changes = [], []

    @jit
    def f(x, gradient):
        if len(steps) == 2:
            steps.pop(0), changes.pop(0)
        steps.append(x)
        changes.append(gradient)
        direction = gradient
        for step, change in zip(reversed(steps), reversed(changes), strict=True):
            direction = direction - change * (step * direction).sum() / (step * change).sum()
        return direction

    for i in range(10):
        yield f(ones(2) * (i + 1), torch.arange(2.0) + i), steps, changes


# -- more of Python's library ------------------------------------------------------------------------------------------


@case(versions=1)
def containers_of_the_library_are_returned(jit):
    @jit
    def f(x):
        grouped = collections.defaultdict(list)
        grouped["a"].append(x)
        grouped["b"] += [x * 2, x.sum()]
        return grouped, collections.Counter(a=1, b=2), collections.deque([x + 1, x], maxlen=2)

    for i in range(3):
        grouped, counts, last = f(ones(2) * i)
        last.append(3)
        yield grouped, grouped["missing"], counts.most_common(1), last, last.maxlen


@case
def counts_in_nested_tables(jit):
    table = collections.defaultdict(lambda: collections.defaultdict(int))

    @jit
    def f(x, a, b):
        table[a][b] += 1
        table[a]["all"] += x.shape[0]
        return x * table[a][b]

    for a, b in ("pq", "pq", "pr", "zq", "pq"):
        yield f(ones(2), a, b), table


@case
def modules_that_are_loaded(jit):
    sys.modules["a_package_of_the_program"] = types.ModuleType("a_package_of_the_program")
    f = jit(lambda x: x * 2 if "a_package_of_the_program" in sys.modules else x)
    f(ones(2))
    del sys.modules["a_package_of_the_program"]
    f(ones(2))
    sys.modules["a_package_of_the_program"] = types.ModuleType("a_package_of_the_program")
    yield f(ones(2))
    del sys.modules["a_package_of_the_program"]


@case
def the_call_of_all_modules_replaced(jit):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    f = jit(lambda x: model(x))
    f(ones(1, 2))
    before = torch.nn.Module.__call__
    torch.nn.Module.__call__ = lambda self, *args: before(self, *args) * 2
    try:
        f(ones(1, 2))
    finally:
        torch.nn.Module.__call__ = before
    yield f(ones(1, 2))


@case(outcome=FELL_BACK)
def a_coroutine_is_run(jit):
    async def doubled(x):
        return x * 2

    f = jit(lambda x: asyncio.run(doubled(x)))
    for i in range(2):
        yield f(ones(2) * i)


@case
def functions_in_the_bodies_of_classes(jit):
    class Layer(torch.nn.Module):
        activation, stacked = torch.tanh, torch.stack

        def forward(self, x):
            return self.stacked([self.activation(x), x])

    class Reduction:
        reduced = torch.sum

    layer, reduction = Layer(), Reduction()
    f = jit(lambda x: reduction.reduced(layer(x)))
    f(ones(2))
    Layer.activation = staticmethod(torch.exp)
    f(ones(2))
    Reduction.reduced = staticmethod(torch.mean)
    f(ones(2))
    Layer.stacked = staticmethod(torch.cat)
    yield f(ones(2))
