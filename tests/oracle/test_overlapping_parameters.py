"""Updates of parameters that share memory, against PyTorch: one after the other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from oracle import same

import eagerjit as ej

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "dampening": 0.5},
    "Adam": {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1},
    "AdamW": {"lr": 0.05, "maximize": True},
    "RMSprop": {"lr": 0.01, "momentum": 0.5, "centered": True},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.1},
    "Adadelta": {"lr": 0.5},
    "Adamax": {"lr": 0.05},
    "NAdam": {"lr": 0.05},
    "RAdam": {"lr": 0.05, "betas": (0.9, 0.8)},
    "Rprop": {"lr": 0.01},
    "ASGD": {"lr": 0.05, "lambd": 0.1, "t0": 3.0},
    "Adafactor": {"lr": 0.05},
    "Muon": {"lr": 0.05},
}


def _trained(library: Any, name: str, start: list[float], factors: list[list[float]], jitted: bool = False) -> Any:
    """The memory of two matrices of which each has the other's last rows, the losses, and how often it was written."""
    memory = library.tensor(start)
    parameters = [library.nn.Parameter(memory[:8].view(4, 2)), library.nn.Parameter(memory[4:].view(4, 2))]
    scale = library.tensor(factors).view(2, 4, 2)
    optimizer = getattr(library.optim, name)(parameters, **OPTIMIZERS[name])

    def step() -> Any:
        optimizer.zero_grad()
        loss = sum((p * f).square().sum() for p, f in zip(parameters, scale, strict=True))
        loss.backward()
        optimizer.step()
        return loss.detach()

    call = ej.jit(step) if jitted else step
    return [[*map(float, (call() for _ in range(5)))], memory.tolist()], [p._version for p in parameters]


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.filterwarnings("ignore:.*cannot be compiled")
def test_overlapping_parameters(name: str) -> None:
    start = [0.5, -1.0, 2.0, 0.25, -0.75, 1.5, -2.0, 1.0, 0.125, -0.5, 3.0, -1.25]
    factors = [[1.0, 0.5, -1.0, 2.0, 0.25, 1.5, -0.5, 0.75], [0.5, 1.25, 1.0, -0.25, 2.0, 1.0, 0.5, -1.5]]
    plain, versions = _trained(ej, name, start, factors)
    expected, _ = _trained(torch, name, start, factors)
    for mine, theirs in zip(plain, expected, strict=True):
        same(ej.tensor(mine), torch.tensor(theirs), 1e-2 if name == "Muon" else 1e-4)  # in bfloat16
    assert _trained(ej, name, start, factors, jitted=True) == (plain, versions)
