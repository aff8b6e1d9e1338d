"""Optimizers that are made in a compiled function: every call makes one, and its states, anew."""

from __future__ import annotations

import copy

import eagerjit as torch
from tests.soundness.framework import case
from tests.soundness.tools import network

KINDS = [
    ("SGD", {"momentum": 0.9}), ("Adam", {"amsgrad": True, "betas": (0.5, 0.9)}), ("AdamW", {}), ("RMSprop", {}),
    ("Adagrad", {}), ("Adadelta", {}), ("NAdam", {}), ("RAdam", {}), ("Adamax", {}), ("ASGD", {}), ("Rprop", {}),
]  # fmt: skip


def ones(*shape):
    return torch.ones(*shape)


@case
def for_parameters_found(jit):
    for name, options in KINDS:
        model = network()

        @jit
        def fit(x, name=name, options=options, model=model):
            optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1, **options)
            for _ in range(2):
                optimizer.zero_grad()
                loss = model(x).square().sum()
                loss.backward()
                optimizer.step()
            return loss, optimizer.state_dict()["state"]

        for i in range(3):
            yield fit(ones(2, 3) * i), list(model.parameters())


@case(versions=1)
def for_groups_whose_rates_fall(jit):
    model = network()

    @jit
    def fit(x, rate):
        groups = [{"params": model[0].parameters(), "lr": rate}, {"params": model[2].parameters(), "betas": (0.5, 0.6)}]
        optimizer = torch.optim.Adam(groups, lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        for _ in range(2):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
            schedule.step()
        return [group["lr"] for group in optimizer.param_groups]

    for i in range(3):
        yield fit(ones(2, 3) * i, 0.1 + 0.01 * i), list(model.parameters())


@case(versions=1)
def for_a_perturbation(jit):
    model = network()

    @jit
    def attack(x):
        delta = torch.nn.Parameter(torch.zeros_like(x))
        optimizer = torch.optim.Adam([delta], lr=0.05)
        for _ in range(3):
            optimizer.zero_grad()
            (model(x + delta).sum() + delta.square().sum()).backward(inputs=[delta])
            optimizer.step()
            delta.data = delta.data.clamp(-0.1, 0.1)
        return (x + delta).detach()

    for i in range(3):
        yield attack(ones(2 + i, 3) * i)


@case(versions=1)
def for_a_copy_of_a_model(jit):
    model = network()

    @jit
    def adapted(x, y):
        fast = copy.deepcopy(model)
        optimizer = torch.optim.SGD(fast.parameters(), lr=0.1, momentum=0.9)
        for _ in range(2):
            optimizer.zero_grad()
            fast(x).square().sum().backward()
            optimizer.step()
        return fast(y).detach()

    for i in range(3):
        yield adapted(ones(2, 3) * i, ones(2, 3)), list(model.parameters())
        with torch.no_grad():
            model[0].weight.add_(0.1)
