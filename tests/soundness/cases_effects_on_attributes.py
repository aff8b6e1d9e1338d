"""What a function does to attributes, items and variables besides computing."""

from __future__ import annotations

import types

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import case

COUNTER = 0


def ones(*shape):
    return torch.ones(*shape)


@case(versions=1)
def a_counter_in_an_attribute(jit):
    class Model:
        calls = 0

        def __call__(self, x):
            self.calls += 1
            return x * self.calls

    model = Model()
    f = jit(model)
    for _ in range(5):
        f(ones(1))
    model.calls = 100
    f(ones(1))
    yield model.calls


@case
def a_counter_in_a_module(jit):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.steps = 0

        def forward(self, x):
            self.steps += 1
            return self.layer(x) / self.steps

    torch.manual_seed(0)
    model = Model()
    f = jit(model)
    for _ in range(4):
        yield f(ones(1, 2)), model.steps


@case
def a_float_attribute_that_decays(jit):
    state = types.SimpleNamespace(rate=1.0)

    def f(x):
        state.rate *= 0.5
        return x * state.rate

    f = jit(f)
    for _ in range(4):
        f(ones(1))
    yield state.rate


@case(versions=1)
def a_global_counter(jit):
    global COUNTER
    COUNTER = 0

    def f(x):
        global COUNTER
        COUNTER += 1
        return x + COUNTER

    f = jit(f)
    for _ in range(5):
        f(ones(1))
    yield COUNTER


@case
def a_nonlocal_counter(jit):
    count = 0

    def f(x):
        nonlocal count
        count += 2
        return x + count

    f = jit(f)
    for _ in range(5):
        yield f(ones(1)), count


@case
def a_counter_in_a_dictionary(jit):
    stats = {"calls": 0}

    def f(x):
        stats["calls"] += 1
        return x * 2

    f = jit(f)
    for _ in range(5):
        yield f(ones(1)), stats


@case
def a_counter_in_a_list(jit):
    stats = [0, 10]

    def f(x):
        stats[1] -= 1
        return x * stats[1]

    f = jit(f)
    for _ in range(4):
        yield f(ones(1)), stats


@case
def a_counter_that_is_looked_at(jit):
    state = types.SimpleNamespace(step=0)

    def f(x):
        state.step += 1
        if state.step % 3 == 0:
            return x * 100
        return x

    f = jit(f)
    for _ in range(7):
        f(ones(1))
    yield state


@case
def an_attribute_assigned_a_constant(jit):
    state = types.SimpleNamespace(done=False)

    def f(x):
        state.done = True
        return x + 1

    f = jit(f)
    for _ in range(3):
        f(ones(1))
        yield state
        state.done = False


@case
def an_attribute_assigned_a_size(jit):
    state = types.SimpleNamespace(last=None)

    def f(x):
        state.last = tuple(x.shape)
        return x + 1

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n, 2))
        yield state


@case(versions=1)
def an_attribute_assigned_an_argument(jit):
    state = types.SimpleNamespace(last=None, rate=None)

    def f(x, rate):
        state.last, state.rate = x, rate
        return x * rate

    f = jit(f)
    for n in (2, 3, 4):
        x = ones(n)
        f(x, n / 4)
        yield state, state.last is x


@case
def a_tensor_kept_in_an_attribute(jit):
    class Model(nn.Module):
        def forward(self, x):
            self.hidden = x * 2
            return self.hidden + 1

    model = Model()
    f = jit(model)
    for value in (1.0, 2.0, 3.0):
        out = f(torch.full((2,), value))
        yield out, model.hidden
    kept = model.hidden
    f(ones(2))
    yield kept, model.hidden, kept is model.hidden


@case
def a_tensor_kept_in_a_dictionary(jit):
    kept = {}

    def f(x):
        kept["y"] = x * 2
        return x + 1

    f = jit(f)
    for value in (1.0, 2.0, 3.0):
        f(torch.full((1,), value))
        yield kept


@case
def a_tensor_kept_and_differentiated(jit):
    kept = []
    w = torch.ones(2, requires_grad=True)

    def f(x):
        kept.append((w * x).sum())
        return x + 1

    f = jit(f)
    for n in (1.0, 2.0, 3.0):
        f(torch.full((2,), n))
    sum(kept).backward()
    yield w.grad, kept


@case(versions=1)
def a_moving_average_as_an_attribute(jit):
    class Average:
        def __init__(self):
            self.value = torch.zeros(2)

        def __call__(self, x):
            self.value = self.value * 0.5 + x * 0.5
            return self.value

    average = Average()
    f = jit(average)
    for n in (1.0, 2.0, 3.0, 4.0):
        f(torch.full((2,), n))
    yield average


@case
def a_recurrent_state_is_replaced(jit):
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = None

        def forward(self, x):
            self.hidden = x if self.hidden is None else torch.tanh(self.hidden + x)
            return self.hidden.sum()

    cell = Cell()
    f = jit(cell)
    for n in range(4):
        yield f(torch.full((2,), float(n))), cell.hidden
    cell.hidden = None
    yield f(ones(2))


@case
def an_attribute_deleted(jit):
    state = types.SimpleNamespace(temporary=1)

    def f(x):
        if hasattr(state, "temporary"):
            del state.temporary
            return x
        return x * 2

    f = jit(f)
    yield f(ones(1)), f(ones(1)), state
    state.temporary = 5
    yield f(ones(1)), f(ones(1)), state


@case
def setattr_with_a_computed_name(jit):
    state = types.SimpleNamespace()

    def f(x, name):
        setattr(state, name, x.shape[0])
        return x * getattr(state, name)

    f = jit(f)
    for n, name in ((1, "a"), (2, "b"), (3, "a")):
        yield f(ones(n), name), state


@case
def swapped_attributes(jit):
    state = types.SimpleNamespace(a=torch.zeros(1), b=torch.ones(1))

    def f(x):
        state.a, state.b = state.b, state.a
        return x + state.a

    f = jit(f)
    for _ in range(4):
        yield f(torch.zeros(1))


@case
def an_object_with_slots_assigned(jit):
    class Meter:
        __slots__ = ("count", "total")

        def __init__(self):
            self.total, self.count = 0.0, 0

    meter = Meter()

    def f(x):
        meter.total += x.sum().item()
        meter.count += x.shape[0]
        return x

    f = jit(f)
    for n in (2, 3, 4):
        f(ones(n))
        yield meter


@case
def an_attribute_of_an_argument_assigned(jit):
    def f(x, state):
        state.count += 1
        return x * state.count

    f = jit(f)
    a, b = types.SimpleNamespace(count=0), types.SimpleNamespace(count=10)
    for state in (a, b, a):
        yield f(ones(1), state), state


@case
def a_class_attribute_assigned(jit):
    class Model:
        made = 0

        def __call__(self, x):
            Model.made += 1
            return x * 2

    f = jit(Model())
    for _ in range(3):
        f(ones(1))
        yield Model.made
