"""Where effects stand: behind conditions, in loops, setters, operators, hooks, gradients; and where they are none."""

from __future__ import annotations

import contextlib

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, case


def ones(*shape):
    return torch.ones(*shape)


@case
def a_helper_with_an_effect(jit):
    log = []

    def helper(x):
        log.append(len(log))
        return x * 2

    f = jit(lambda x: helper(x) + helper(x + 1))
    for _ in range(3):
        f(ones(1))
    yield log


@case
def an_effect_behind_a_flag(jit):
    seen = []

    def f(x, flag):
        if flag:
            seen.append(1)
        return x + 1

    f = jit(f)
    for flag in (False, False, True, True, False):
        f(ones(2), flag)
        yield seen


@case
def an_effect_behind_a_value(jit):
    seen = []

    def f(x):
        if x.sum() > 2:
            seen.append(x.sum().item())
        return x + 1

    f = jit(f)
    for value in (1.0, 5.0, 1.0, 6.0, 7.0):
        f(torch.full((2,), value))
        yield seen


@case
def an_effect_in_a_loop(jit):
    seen = []

    def f(x, n):
        for i in range(n):
            x = x * 2
            seen.append((i, x.sum().item()))
        return x

    f = jit(f)
    for n in (2, 3, 2):
        f(ones(2), n)
        yield seen


@case
def an_effect_before_an_exception(jit):
    seen = []

    def f(x):
        seen.append("start")
        if x.shape[0] > 2:
            raise ValueError("too long")
        seen.append("end")
        return x

    f = jit(f)
    for n in (2, 3, 2, 4):
        with contextlib.suppress(ValueError):
            f(ones(n))
        yield seen


@case
def an_effect_in_a_setter(jit):
    class Model:
        def __init__(self):
            self.log = []
            self._scale = 1.0

        @property
        def scale(self):
            return self._scale

        @scale.setter
        def scale(self, value):
            self.log.append(value)
            self._scale = value

        def __call__(self, x):
            self.scale = x.shape[0] / 2
            return x * self.scale

    model = Model()
    f = jit(model)
    for n in (2, 3, 4):
        yield f(ones(n)), model


@case
def an_effect_in_an_operator(jit):
    class Tracker:
        def __init__(self):
            self.uses = 0

        def __mul__(self, x):
            self.uses += 1
            return x * 3

    tracker = Tracker()
    f = jit(lambda x: tracker * x)
    for _ in range(3):
        yield f(ones(1)), tracker


@case
def effects_in_a_forward_hook(jit):
    model, shapes = nn.Linear(2, 3), []
    torch.manual_seed(0)
    model.register_forward_hook(lambda module, inputs, output: shapes.append(tuple(output.shape)))
    f = jit(model)
    for n in (2, 3, 4):
        f(ones(n, 2))
        yield shapes


@case
def activations_saved_by_a_hook(jit):
    torch.manual_seed(0)
    model, saved = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), {}

    def keep(module, inputs, output):
        saved["hidden"] = output.detach()

    model[0].register_forward_hook(keep)
    f = jit(model)
    for n in (1, 2, 3):
        yield f(torch.full((2, 2), float(n))), saved


@case
def effects_in_a_gradient_hook(jit):
    norms = []
    w = torch.ones(2, requires_grad=True)
    w.register_hook(lambda g: norms.append(g.sum().item()))

    def f(x):
        (w * x).sum().backward()

    f = jit(f)
    for n in (1.0, 2.0, 3.0):
        f(torch.full((2,), n))
    yield norms, w.grad


@case
def effects_in_a_backward_of_ones_own(jit):
    calls = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append("backward")
            return g * 2

    w = torch.ones(2, requires_grad=True)

    def f(x):
        Double.apply(w * x).sum().backward()

    f = jit(f)
    for n in (1.0, 2.0, 3.0):
        f(torch.full((2,), n))
    yield calls, w.grad


@case(outcome=FELL_BACK)
def effects_in_a_backward_run_outside(jit):
    calls = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            calls.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append("backward")
            return g * 2

    w = torch.ones(2, requires_grad=True)
    f = jit(lambda x: Double.apply(w * x).sum())
    for n in (1.0, 2.0, 3.0):
        f(torch.full((2,), n)).backward()
    yield calls, w.grad


@case
def local_lists_are_no_effect(jit):
    @jit
    def f(x):
        parts = []
        for i in range(3):
            parts.append(x * i)
        table = {}
        table["sum"] = torch.stack(parts).sum()
        return table["sum"]

    for n in (2, 3):
        yield f(ones(n))


@case
def local_objects_are_no_effect(jit):
    class Builder:
        def __init__(self):
            self.parts, self.count = [], 0

        def add(self, part):
            self.parts.append(part)
            self.count += 1
            return self

    @jit
    def f(x):
        builder = Builder().add(x).add(x * 2)
        builder.add(x * builder.count)
        return torch.cat(builder.parts)

    for n in (2, 3):
        yield f(ones(n))


@case
def closures_that_count_inside(jit):
    @jit
    def f(x):
        count = 0

        def step(y):
            nonlocal count
            count += 1
            return y * count

        return step(step(step(x)))

    for n in (2, 3):
        yield f(ones(n))


@case
def a_gradient_assigned_and_accumulated(jit):
    w = torch.ones(2, requires_grad=True)

    def step(x):
        (w * x).sum().backward()

    step = jit(step)
    for value in (1.0, 2.0, 3.0):
        step(torch.full((2,), value))
        yield w.grad
    w.grad = None
    step(ones(2))
    yield w.grad


@case
def an_object_registered_inside(jit):
    registry = []

    class Event:
        def __init__(self, size):
            self.size = size
            registry.append(self)

    def f(x):
        Event(x.shape[0])
        return x + 1

    f = jit(f)
    for n in (2, 3, 2):
        f(ones(n))
    yield [e.size for e in registry], len(set(map(id, registry)))


@case(versions=2)
def functions_without_variables(jit):
    globals()["_counted"] = 0

    def bump():
        global _counted
        _counted += 1

    def now():
        return _counted

    @jit
    def f(x):
        bump()
        return x * now()

    @jit
    def g():
        global _counted
        _counted += 1
        return _counted

    for _ in range(4):
        yield f(ones(2)), _counted
    yield g(), g(), g()
