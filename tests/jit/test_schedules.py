"""Learning rate schedules stepped in a compiled function: they count on, and the rates are those of the plain calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerjit as torch
from eagerjit.jit import jit
from eagerjit.optim import lr_scheduler as schedules
from eagerjit.optim.swa_utils import SWALR

SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "StepLR": lambda o: schedules.StepLR(o, 1),
    "MultiStepLR": lambda o: schedules.MultiStepLR(o, [2, 4]),
    "ExponentialLR": lambda o: schedules.ExponentialLR(o, 0.5),
    "CosineAnnealingLR": lambda o: schedules.CosineAnnealingLR(o, 5),
    "LambdaLR": lambda o: schedules.LambdaLR(o, lambda epoch: 0.9**epoch),
    "MultiplicativeLR": lambda o: schedules.MultiplicativeLR(o, lambda epoch: 0.9),
    "ConstantLR": lambda o: schedules.ConstantLR(o, 0.5, 2),
    "LinearLR": lambda o: schedules.LinearLR(o, 0.1, total_iters=3),
    "PolynomialLR": lambda o: schedules.PolynomialLR(o, 5),
    "OneCycleLR": lambda o: schedules.OneCycleLR(o, 2.0, total_steps=20),
    "CyclicLR": lambda o: schedules.CyclicLR(o, 0.1, 1.0),
    "CosineAnnealingWarmRestarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 2),
    "SequentialLR": lambda o: schedules.SequentialLR(
        o, [schedules.LinearLR(o, 0.1, total_iters=2), schedules.CosineAnnealingLR(o, 3)], [2]
    ),
    "ChainedScheduler": lambda o: schedules.ChainedScheduler(
        [schedules.ConstantLR(o, 0.5, 2), schedules.ExponentialLR(o, 0.9)]
    ),
    "ReduceLROnPlateau": lambda o: schedules.ReduceLROnPlateau(o, patience=0),
    "SWALR": lambda o: SWALR(o, 0.05),
}


VERSIONS = {"ExponentialLR": 1, "LambdaLR": 1, "MultiStepLR": 3, "SequentialLR": 4, "SWALR": 4}
"""How many versions are compiled where it is not two: each answer about its count is one."""


def steps(name: str, wrap: Callable[[Any], Any]) -> list[Any]:
    """Losses, learning rates and counts of five steps."""
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    schedule = SCHEDULES[name](optimizer)

    @wrap
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).pow(2).sum() * 0.01
        loss.backward()
        optimizer.step()
        if name == "ReduceLROnPlateau":
            schedule.step(loss)
        else:
            schedule.step()
        return loss.detach()

    found = []
    for _ in range(12):
        loss = step(torch.ones(3, 2))
        found.append((loss.item(), optimizer.param_groups[0]["lr"], getattr(schedule, "last_epoch", None)))
    return found


@pytest.mark.parametrize("name", SCHEDULES)
def test_steps_once_per_call(name: str) -> None:
    made: list[Any] = []

    def compiled(function: Callable[..., Any]) -> Any:
        made.append(jit(function))
        return made[0]

    assert steps(name, compiled) == steps(name, lambda function: function)
    assert not made[0].cache_info().eager_calls
    assert made[0].cache_info().compiles <= VERSIONS.get(name, 2), made[0].cache_info().reasons
