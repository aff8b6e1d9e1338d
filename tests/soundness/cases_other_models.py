"""Calls that find other Modules, like those recorded, which have other places in what else the function reads."""

from __future__ import annotations

import collections

import eagerjit as torch
from eagerjit import nn
from tests.soundness.framework import case


def made(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 3), nn.Tanh())


def looked_for(jit, hold, factor):
    """Results of Modules, whose factor is by what holds one of them."""
    first, second = made(1), made(2)
    held, now = hold(first, second), {"model": first}

    @torch.no_grad()
    def function(x):
        return now["model"](x) * factor(held, now["model"])

    compiled = jit(function)
    for model in (first, first, second, second, first, made(3), second):
        now["model"] = model
        yield compiled(torch.ones(2, 3))


def is_in(held, model):
    return 2 if model in held else 1


@case
def modules_in_sets(jit):
    yield from looked_for(jit, lambda first, second: {second}, is_in)


@case
def modules_in_queues(jit):
    yield from looked_for(jit, lambda first, second: collections.deque([second]), is_in)


@case
def modules_in_sets_in_containers(jit):
    yield from looked_for(jit, lambda first, second: {"seen": [{second}]}, lambda held, m: is_in(held["seen"][0], m))


@case
def modules_in_modules(jit):
    yield from looked_for(jit, lambda first, second: nn.ModuleList([second]), lambda held, m: is_in(list(held), m))


@case
def positions_of_modules(jit):
    yield from looked_for(jit, lambda first, second: [made(3), second, first], lambda held, m: 1 + is_in(held, m))


@case
def parameters_in_sets(jit):
    def found(held, model):
        return sum(is_in(held, parameter) for parameter in model.parameters())

    yield from looked_for(jit, lambda first, second: set(second.parameters()), found)


@case
def students_and_teachers(jit):
    first, second = made(1), made(2)
    now = {"student": first, "teacher": second}

    @jit
    @torch.no_grad()
    def f(x):
        is_same = now["student"] is now["teacher"]
        for p, q in zip(now["student"].parameters(), now["teacher"].parameters(), strict=True):
            q.lerp_(p, 0.5)
        return now["student"](x) + (100 if is_same else now["teacher"](x))

    pairs = (first, second), (first, second), (second, first), (first, first), (second, second), (made(3), first)
    for student, teacher in pairs:
        now.update(student=student, teacher=teacher)
        yield f(torch.ones(2, 3)), list(teacher.parameters())


@case
def trained_models_that_tie_parameters(jit):
    now = {}

    @jit
    def f(x):
        now["optimizer"].zero_grad()
        loss = now["model"](x).square().mean()
        loss.backward()
        now["optimizer"].step()
        return loss

    for seed, ties in enumerate((False, False, True, True, False)):
        torch.manual_seed(seed)
        now["model"] = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        if ties:
            now["model"][1].weight = now["model"][0].weight
        if seed == 1:
            now["model"][0].weight.data = now["model"][0].weight.data.t()
        now["optimizer"] = torch.optim.Adam(now["model"].parameters(), 0.1)
        for _ in range(2):
            yield f(torch.ones(2, 3)), list(now["model"].parameters())
