"""Attributes of Modules that change between calls: those that the function reads, by whatever way, and the others."""

from __future__ import annotations

import copy
import functools
import operator

import numpy as np

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import FELL_BACK, case


class Counted(nn.Module):
    """A model that the program keeps things in."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.0))
        self.steps, self.best, self.phase, self.last = 0, 1.0, "warm up", torch.zeros(3)
        self.sizes, self.options, self.table = [1, 2], {"scale": 2.0}, np.ones(2)

    def forward(self, x):
        return self.inner(x)

    @property
    def factor(self):
        return self.steps + 1


X = torch.linspace(-1.0, 1.0, 6).reshape(2, 3)


def calls(f, model, times=8, change=lambda model, i: None):
    """Calls of a function with all that counts changed around them."""
    for i in range(times):
        f(X + i)
        model.steps, model.best, model.phase, model.last = i + 1, 1 / (i + 1), f"phase {i}", torch.full((3,), float(i))
        change(model, i)
        yield model.steps


@case(versions=3)
def counts_kept_in_a_model(jit):
    model = Counted()
    yield from calls(jit(lambda x: model(x)), model)


@case(versions=3)
def counts_whose_names_the_library_uses_for_other_things(jit):
    model = Counted()
    assert nn.MaxPool1d(2).kernel_size + nn.Threshold(1.0, 2.0).threshold == 3  # other layers read these of themselves

    def change(model, i):
        model.kernel_size = model.iter = model.c = i
        model.threshold = f"call {i}"

    change(model, 0)
    yield from calls(jit(lambda x: model(x)), model, change=change)


@case(versions=3)
def counts_kept_in_a_model_that_learns(jit):
    model = Counted()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()

    yield from calls(jit(step), model)
    yield model.state_dict()


@case(versions=5)
def a_count_that_is_read_later(jit):
    model = Counted()

    def f(x):
        return model(x) * model.steps if x.shape[0] > 2 else model(x)

    f = jit(f)
    yield from calls(f, model)
    for _ in range(4):
        f(torch.ones(4, 3))
        model.steps += 1
    f(torch.ones(2, 3))


@case
def counts_read_in_other_ways(jit):
    readers = (
        lambda model, x: x * model.factor,
        lambda model, x: x * getattr(model, "st" + "eps"),
        lambda model, x: x * operator.attrgetter("steps")(model),
        lambda model, x: x * functools.reduce(getattr, ["steps"], model),
        lambda model, x: x * model.__getattribute__("steps"),
        lambda model, x: x if hasattr(model, "extra") else -x,
        lambda model, x: (x, f"{model.phase} {model.best:.3f}"),
        lambda model, x: x + model.last,
        lambda model, x: x * (1.0 if model.last.sum() > 2 else 2.0),
    )
    for reader in readers:
        model = Counted()
        f = jit(lambda x, reader=reader, model=model: reader(model, model(x)))
        yield list(calls(f, model))
        model.extra = 1
        f(X)


@case
def counts_read_by_copies(jit):
    model = Counted()

    def f(x):
        twin = copy.deepcopy(model)
        return twin(x) * twin.steps, twin.phase

    yield from calls(jit(f), model, 5)


@case(outcome=FELL_BACK)
def counts_read_through_the_dictionary(jit):
    model = Counted()
    yield from calls(jit(lambda x: (model(x) * model.__dict__["steps"], vars(model)["phase"])), model, 5)


@case
def a_count_read_by_a_hook(jit):
    model = Counted()
    model.inner.register_forward_hook(lambda module, args, result: result * model.steps)
    yield from calls(jit(lambda x: model(x)), model, 6)


@case
def what_layers_of_the_library_read(jit):
    class Mine(nn.Dropout):
        def __init__(self):
            super().__init__(0.5)
            self.seen = 0

    model = Counted()
    model.inner.append(Mine())
    model.inner.append(nn.BatchNorm1d(3))

    def change(model, i):
        model.inner[2].p = 0.25 * (i % 3)
        model.inner[2].seen = i
        model.inner[3].momentum = 0.1 * (1 + i % 3)
        model.inner[3].eps = 1e-5 * (1 + i % 2)

    yield from calls(jit(lambda x: model(x)), model, 9, change)
    yield model.state_dict()


@case
def what_lies_in_attributes_changes(jit):
    model = Counted()
    f = jit(lambda x: model(x) * model.options["scale"] + sum(model.sizes) + torch.from_numpy(model.table).sum())

    def change(model, i):
        if i == 1:
            model.options["scale"] = 3.0
        if i == 2:
            model.sizes.append(i)
        if i == 3:
            model.table[0] = 5.0
        if i == 4:
            model.sizes = (1, 2)
        if i == 5:
            model.inner[0].weight = nn.Parameter(torch.ones(3, 3))
        if i == 6:
            model.inner[0].register_forward_hook(lambda module, args, result: result + 1)
        if i == 7:
            model.inner.append(nn.Tanh())
        if i == 8:
            model.inner[0].__class__ = type("Other", (nn.Linear,), {"forward": lambda self, x: x * 2})
        if i == 9:
            model.steps = nn.Linear(3, 3)

    yield from calls(f, model, 12, change)
