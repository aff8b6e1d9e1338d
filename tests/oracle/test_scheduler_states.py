"""States of schedulers against PyTorch: each library goes on from what the other saved; rates that are tensors."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from test_optim import SCHEDULERS

import eagerjit as ej

LIBRARIES = (ej, torch)
pytestmark = pytest.mark.filterwarnings("ignore")


def made(library: Any, name: str, lr: Any = 0.2) -> tuple[Any, Any]:
    weights = [library.nn.Parameter(library.ones(1)) for _ in range(2)]
    optimizer = library.optim.SGD([{"params": weights[:1]}, {"params": weights[1:]}], lr=lr, momentum=0.9)
    return optimizer, SCHEDULERS[name](library.optim.lr_scheduler, optimizer)


def rates_of(optimizer: Any, scheduler: Any, steps: int) -> list[float]:
    rates = []
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        rates += [float(rate) for rate in scheduler.get_last_lr()]
    return rates


@pytest.mark.parametrize("name", SCHEDULERS)
def test_states_have_the_same_keys_and_kinds(name):
    states = []
    for library in LIBRARIES:
        optimizer, scheduler = made(library, name)
        rates_of(optimizer, scheduler, 3)
        states.append([(key, type(value)) for key, value in scheduler.state_dict().items()])
    assert states[0] == states[1]


def test_the_keys_of_a_plateau_are_in_order():
    keys = []
    for library in LIBRARIES:
        optimizer, _ = made(library, "LambdaLR")
        scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        scheduler.step(1.0)
        keys.append([*scheduler.state_dict()])
    assert keys[0] == keys[1]


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("source", LIBRARIES, ids=("ours", "theirs"))
def test_the_other_library_goes_on(name, source):
    target = torch if source is ej else ej
    optimizer, scheduler = made(source, name)
    rates_of(optimizer, scheduler, 3)
    follower, follows = made(target, name)
    follows.load_state_dict(copy.deepcopy(scheduler.state_dict()))
    follower.load_state_dict(optimizer.state_dict())
    np.testing.assert_allclose(rates_of(follower, follows, 4), rates_of(optimizer, scheduler, 4), rtol=1e-9)


class Falling:
    """A scaling function with a state."""

    def __init__(self, share: float):
        self.share = share

    def __call__(self, x: float) -> float:
        return self.share**x


def test_objects_that_scale_cycles_are_saved():
    states = []
    for library in LIBRARIES:
        optimizer = library.optim.Adam([library.nn.Parameter(library.ones(1))])
        cycles = [library.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 1.0, 3, scale_fn=Falling(s)) for s in (0.5, 0.9)]
        cycles[1].load_state_dict(cycles[0].state_dict())
        states.append((cycles[1].state_dict()["_scale_fn_custom"], cycles[1].scale_fn(2), cycles[1].use_beta1))
    assert states[0] == states[1]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_rates_that_are_tensors(name):
    found = []
    for library in LIBRARIES:
        optimizer, scheduler = made(library, name, library.tensor(0.2))
        kinds = [type(rate).__name__ for rate in (*scheduler.get_last_lr(), *getattr(scheduler, "base_lrs", ()))]
        groups = [(type(g["lr"]).__name__, type(g["initial_lr"]).__name__) for g in optimizer.param_groups]
        found.append((kinds, groups, rates_of(optimizer, scheduler, 4)))
    assert found[0][:2] == found[1][:2]
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-6)


@pytest.mark.parametrize("last_epoch", [0, 1, 2, 3, 7, 8])
def test_warm_restarts_go_on_from_a_later_step(last_epoch):
    found = []
    for library in LIBRARIES:
        optimizer = library.optim.SGD([library.nn.Parameter(library.ones(1))], lr=0.1)
        optimizer.param_groups[0]["initial_lr"] = 0.1
        schedule = library.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2, last_epoch=last_epoch)
        found.append([*schedule.get_last_lr(), schedule.T_cur, *rates_of(optimizer, schedule, 4)])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_what_follows_a_quantity_is_not_chained():
    for library in LIBRARIES:
        optimizer = library.optim.SGD([library.nn.Parameter(library.ones(1))])
        schedulers = library.optim.lr_scheduler
        with pytest.raises(ValueError, match="ReduceLROnPlateau"):
            schedulers.ChainedScheduler([schedulers.ReduceLROnPlateau(optimizer)])
