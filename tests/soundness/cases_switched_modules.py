"""Modules that a function switches to training or evaluation, also ones that say themselves what that is."""

from __future__ import annotations

import eagerjit as torch
import eagerjit.nn as nn
from tests.soundness.framework import case


class Frozen(nn.Module):
    """Statistics stay as they are, also in training."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop, self.switches = nn.BatchNorm1d(2), nn.Dropout(0.0), []

    def train(self, mode=True):
        super().train(mode)
        self.norm.eval()
        self.switches.append(mode)
        return self

    def forward(self, x):
        return self.drop(self.norm(x)) * (2 if self.training else 3)


def _modes(module):
    return [part.training for part in module.modules()]


@case
def a_module_whose_train_is_its_own(jit):
    module = Frozen()

    @jit
    def f(x):
        module.train()
        y = module(x)
        module.eval()
        return y, module(x)

    for n in (2, 3, 3):
        yield f(torch.ones(n, 2)), _modes(module), list(module.switches), module.norm.running_mean
    module.norm.train()
    yield f(torch.ones(2, 2)), _modes(module)


@case
def a_part_whose_train_is_its_own(jit):
    module = nn.Sequential(nn.Linear(2, 2), Frozen())

    @jit
    def f(x, training):
        module.train(training)
        return module(x)

    for training in (True, False, True, False):
        yield f(torch.ones(3, 2), training), _modes(module), list(module[1].switches)


@case
def a_module_whose_train_does_the_opposite(jit):
    class Opposite(nn.Dropout):
        def train(self, mode=True):
            self.training = not mode
            return self

    module = nn.Sequential(Opposite(0.0), nn.ReLU())

    @jit
    def f(x):
        module.eval()
        was = _modes(module)
        module.train()
        return module(x), was

    for training in (True, True, False):
        yield f(torch.ones(2)), _modes(module)
        module[0].training = module.training = training


@case
def a_mode_assigned_between_switches(jit):
    """What is assigned is taken back by the last switch, also where that leaves what there was at first."""
    modules = [nn.Sequential(nn.Dropout(0.0), nn.ReLU()) for _ in range(2)]

    @jit
    def assigned_after(x):
        module = modules[0]
        module.train()
        module.training = module[0].training = False
        module.train()
        return module(x)

    @jit
    def assigned_before(x):
        module = modules[1]
        module[0].training = True
        module.eval()
        return module(x)

    for _ in range(3):
        yield assigned_after(torch.ones(2)), _modes(modules[0])
        yield assigned_before(torch.ones(2)), _modes(modules[1])
