"""Lists among the arguments that grow from call to call: histories that a function adds to, reads, hands on."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import collections
import dataclasses
import functools
import json

import numpy as np

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, RIGHT, case


def grown(f, times=10, start=()):
    """Calls with one list that grows, then with another."""
    for first in (start, (*start, 0.5)):
        history = list(first)
        for i in range(times):
            yield f(torch.arange(2.0 + i % 3), history), list(history)


@case(versions=2)
def histories(jit):
    yield from grown(jit(lambda x, history: history.append(x.sum().item())))


@case(versions=2)
def histories_of_tensors(jit):
    def f(x, history):
        y = (x * 2).sum()
        history.append(y)
        return y + 1

    yield from grown(jit(f), 6)


@case(versions=2)
def histories_with_gradients(jit):
    weight = torch.ones(1, requires_grad=True)

    def f(x, history):
        loss = (x * weight).sum()
        history.append(loss)
        return loss

    step, history = jit(f), []
    for i in range(5):
        yield step(torch.arange(2.0 + i), history)
    sum(history).backward()
    yield weight.grad, len(history)


@case(versions=2)
def histories_by_name(jit):
    def f(x, log):
        log["loss"].append(x.mean().item())
        log["sizes"] += [len(x)]
        return x * 2

    step = jit(f)
    for _ in range(3):
        log = {"loss": [], "sizes": []}
        for i in range(6):
            yield step(torch.arange(2.0 + i), log=log), log["loss"], log["sizes"]


@dataclasses.dataclass
class State:
    model: nn.Module
    optimizer: object
    history: list
    steps: int = 0


@case(versions=2)
def histories_of_training(jit):
    torch.manual_seed(0)
    model = nn.Linear(3, 1)

    def f(state, x):
        state.optimizer.zero_grad()
        loss = state.model(x).pow(2).mean()
        loss.backward()
        state.optimizer.step()
        state.history.append(loss.detach())
        state.steps += 1
        return loss

    state, step = State(model, torch.optim.SGD(model.parameters(), 0.1), []), jit(f)
    for i in range(8):
        yield step(state, torch.ones(2 + i % 3, 3)), list(state.history), state.steps, model.weight


@case(versions=15)
def histories_that_are_read(jit):
    def last(x, history):
        history.append(x.sum().item())
        return history[-1]

    def best(x, history):
        history.append(x.sum().item())
        return min(history)

    def length(x, history):
        history.append(1.0)
        return x * len(history)

    for body in (last, best, length):
        history, f = [], jit(body)
        for i in range(9):
            yield f(torch.arange(2.0 + i), history), list(history)


READERS = {
    "truth": lambda x, h: x if h else x + 1,
    "order": lambda x, h: sorted(h),
    "copy": lambda x, h: list(h),
    "sum": lambda x, h: [*h, 2.0],
    "product": lambda x, h: len(h * 2),
    "loop": lambda x, h: [v + 1 for v in h],
    "contains": lambda x, h: 1.0 in h,
    "equal": lambda x, h: h == [1.0],
    "text": lambda x, h: f"{h}",
    "json": lambda x, h: json.dumps(h),
    "array": lambda x, h: np.array(h).sum(),
    "reduced": lambda x, h: functools.reduce(lambda a, b: a + b, h, 0.0),
    "star": lambda x, h: max(*h, 0.0, 0.5),
    "stack": lambda x, h: torch.tensor(h).sum(),
    "index": lambda x, h: h.index(1.0) if h else None,
    "slice": lambda x, h: h[:2],
    "id": lambda x, h: h is x,
}


def _read(jit, name):
    read = READERS[name]

    def f(x, history):
        found = read(x, history)
        history.append(1.0)
        return found

    return grown(jit(f), 4)


def _reader(name, outcome):
    def script(jit):
        yield from _read(jit, name)

    script.__name__ = f"histories_read_{name}"
    return case(**({} if outcome is None else {"outcome": outcome}))(script)


for _name in READERS:
    _reader(_name, FELL_BACK if _name in ("json", "array", "reduced") else RIGHT)

CHANGERS = {
    "pop": lambda h: h.pop() if h else None,
    "insert": lambda h: h.insert(0, 2.0),
    "clear": lambda h: h.clear(),
    "item": lambda h: h.__setitem__(slice(0, 0), [3.0]),
    "reverse": lambda h: h.reverse(),
    "extend": lambda h: h.extend(v * 2 for v in [1.0, 2.0]),
    "itself": lambda h: h.extend(h),
    "remove": lambda h: h.remove(1.0) if 1.0 in h else None,
}


def _changer(name):
    def script(jit):
        change = CHANGERS[name]

        def f(x, history):
            history.append(1.0)
            change(history)
            return x * 2

        yield from grown(jit(f), 4)

    script.__name__ = f"histories_changed_{name}"
    return case()(script)


for _name in CHANGERS:
    _changer(_name)


@case()
def histories_given_twice(jit):
    def f(x, first, second):
        first.append(x.sum().item())
        second.append(2.0)
        return x + 1

    step, one, other = jit(f), [], []
    for i in range(5):
        yield step(torch.arange(2.0 + i), one, other), list(one), list(other)
    for i in range(4):
        yield step(torch.arange(2.0 + i), one, one), list(one)


kept: list = []


@case()
def histories_found_elsewhere_too(jit):
    def f(x, history):
        history.append(x.sum().item())
        return x * len(kept)

    step, history = jit(f), []
    for i in range(5):
        yield step(torch.arange(2.0 + i), history), list(history)
    kept.clear()
    for i in range(4):
        yield step(torch.arange(2.0 + i), kept), list(kept)
    kept.clear()


@case()
def histories_returned(jit):
    def f(x, history):
        history.append(x.sum().item())
        return {"loss": history[-1] if False else 0.0, "history": history}

    step, history = jit(f), []
    for i in range(5):
        found = step(torch.arange(2.0 + i), history)
        yield found["history"] is history, list(history)


holder: dict = {}


@case()
def histories_kept(jit):
    def f(x, history):
        history.append(x.sum().item())
        holder["history"] = history
        return x

    step, history = jit(f), []
    for i in range(5):
        yield step(torch.arange(2.0 + i), history), holder["history"] is history, list(history)
    holder.clear()


@case()
def histories_handed_on(jit):
    def note(history, value):
        history.append(value)
        return history

    def f(x, history):
        note(history, x.sum().item()).append(0.0)
        return x

    yield from grown(jit(f), 5)


@case(versions=2)
def batches_as_lists(jit):
    f = jit(lambda parts: sum(p.sum() for p in parts))
    for i in range(5):
        yield f([torch.ones(2 + i), torch.ones(3)])


@case()
def batches_of_growing_lists(jit):
    f, parts = jit(lambda parts: torch.stack(parts).sum()), []
    for i in range(5):
        parts.append(torch.ones(2) * i)
        yield f(parts)
        yield f(list(parts))


@case()
def items_of_iterators_added(jit):
    adders = (
        lambda x, h: h.extend(v * 2 for v in [1.0, 2.0]),
        lambda x, h: h.extend(map(abs, [-1.0, 2.0])),
        lambda x, h: h.extend(t.sum().item() for t in (x, x * 2)),
        lambda x, h: h.extend(v + len(h) for v in [1.0, 2.0]),
        lambda x, h: h.extend(zip("ab", [1, 2], strict=True)),
        lambda x, h: h.extend(iter([3.0])),
    )
    for add in adders:
        yield from grown(jit(add), 3)


@case(outcome=FELL_BACK)
def items_of_iterators_added_by_other_methods(jit):
    adders = (lambda x, h: list.__setitem__(h, slice(0, 0), iter([1.0])), lambda x, h: h.__iadd__(iter([1.0, 2.0])))
    for add in adders:
        yield from grown(jit(add), 3)


@case()
def items_of_iterators_added_to_other_containers(jit):
    makers = (
        (dict, lambda x, h: h.update((k, 1) for k in "ab")),
        (set, lambda x, h: h.update(v for v in [1, 2])),
        (collections.deque, lambda x, h: h.extendleft(v for v in [1, 2])),
        (lambda: {"l": []}, lambda x, h: h["l"].extend(v for v in [1.0])),
    )
    for make, add in makers:
        f, given = jit(add), make()
        for i in range(3):
            yield f(torch.ones(2 + i), given), repr(given)


@case()
def errors_after_additions(jit):
    def f(x, history):
        history.append(x.sum().item())
        return x[5]

    step, history = jit(f), []
    for i in range(6):
        try:
            yield step(torch.arange(3.0 + i), history)
        except IndexError as error:
            yield str(error)
        yield list(history)
