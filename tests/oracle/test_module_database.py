"""PyTorch's own database of modules as oracle: every module on a few samples, plain and compiled."""

from __future__ import annotations

import pytest
import torch
from module_database import ModuleComparison, modules

GROUPS, SAMPLES = 6, 1


@pytest.mark.parametrize("group", range(GROUPS))
def test_modules(group: int) -> None:
    known = modules()
    chosen = sorted(known)[group::GROUPS]
    found = {name: ModuleComparison(known[name]).run([torch.float64], SAMPLES) for name in chosen}
    assert {name: what for name, what in found.items() if what} == {}
