"""Every op of the table on a device; a few of them on a fake one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))

import device_table
import shared_work


@pytest.mark.parametrize("name", ["softmax", "add_", "matmul", "var", "layer_norm", "gelu"])
def test_an_op_on_a_fake_device(name: str) -> None:
    assert device_table.problems("fake", name) == []


def test_differences_are_seen() -> None:
    import numpy as np

    x = np.ones(3, np.float32)
    assert device_table.agree(x, x) and device_table.agree(x + np.float32(1e-6), x)
    assert not device_table.agree(x + 1, x) and not device_table.agree(x.astype(np.float64), x)
    assert not device_table.agree(np.arange(3), np.arange(1, 4)) and not device_table.agree(x[:2], x)


@pytest.mark.gpu
@pytest.mark.parametrize("part", range(shared_work.PARTS))
def test_every_op_on_a_gpu(part: int) -> None:
    wrong = shared_work.problems(device_table.problems, shared_work.part_of(device_table.names(), part))
    assert not wrong, "\n".join(wrong)
