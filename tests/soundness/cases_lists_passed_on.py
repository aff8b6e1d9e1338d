"""Lists that grow, passed to functions of the program that add to them, look at their ends or read all of them."""

from __future__ import annotations

from contextlib import contextmanager

import eagerjit as torch
from tests.soundness.framework import case


def add(history, value, *, twice=False):
    history.append(value)
    if twice:
        history.extend([value, value])


def last(history):
    history.append(float(len(history)))
    return history[-1] if len(history) > 2 else 0.0


@contextmanager
def noted(history, name):
    history.append("begin " + name)
    try:
        yield
    finally:
        history.append("end " + name)


class Notes:
    def __init__(self):
        self.items = []

    def note(self, history, value):
        add(value=value, history=history)


@case(versions=3)
def a_list_that_functions_add_to(jit):
    losses, notes = [], Notes()

    @jit
    def f(x):
        add(losses, x.sum().item())
        add(losses, 2, twice=True)
        notes.note(notes.items, x.shape[0])
        return x * 2

    for i in range(8):
        yield f(torch.ones(2 + i)), list(losses), list(notes.items)
    losses.clear()
    yield f(torch.ones(3)), list(losses)


@case(versions=3)
def a_list_that_a_context_adds_to(jit):
    history = []

    @jit
    def f(x):
        with noted(history, "step"):
            return x * 2

    for i in range(8):
        yield f(torch.ones(2 + i)), list(history)


@case(versions=2)
def a_given_list_that_is_passed_on(jit):
    @jit
    def f(x, history):
        with noted(history, "step"):
            add(history, x.sum().item())
        return x * 2

    history = []
    for i in range(8):
        yield f(torch.ones(2 + i), history), list(history)


@case(versions=5)
def a_list_whose_end_a_function_reads(jit):
    history = []

    @jit
    def f(x):
        return x * last(history)

    for i in range(8):
        yield f(torch.ones(2 + i)), list(history)
    history[-1] = -3.0
    yield f(torch.ones(2)), list(history)
    del history[1:]
    yield f(torch.ones(2)), list(history)


@case
def lists_that_functions_read_whole(jit):
    """However the function reads it: inside of another list, by its own name, later, as the rest of the arguments."""
    readers = (
        lambda history: str([history]),
        lambda history: [h for h in history],
        lambda history: (lambda: sum(history[1:]))(),
        lambda *rest: str(rest),
        lambda history: repr(Kept(history).items),
        lambda history: max((history, [0.0])),
    )
    for read in readers:
        history = []

        def f(x, read=read, history=history):
            add(history, 1.0)
            return x * 2, read(history)

        step = jit(f)
        for i in range(12):
            if i == 6:
                history[2] = 5.0
            yield step(torch.ones(2)), list(history)


class Kept(Notes):
    def __init__(self, history):
        self.items = history
