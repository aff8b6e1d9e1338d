"""Calls that are refused with PyTorch's classes of errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit as ej

CALLS: dict[str, Callable[[Any], Any]] = {
    "hardtanh of bytes": lambda t: t.nn.functional.hardtanh(t.ones(3, dtype=t.uint8)),
    "hardtanh of bytes, in place": lambda t: t.nn.functional.hardtanh_(t.ones(3, dtype=t.uint8)),
    "index_add of fewer dimensions": lambda t: t.ones(3, 4).index_add(1, t.tensor([0, 1]), t.ones(4)),
    "index_add of other rows": lambda t: t.ones(4, 3).index_add(0, t.tensor([0, 0]), t.ones(2, 4)),
    "index_add of more dimensions": lambda t: t.ones(4, 3).index_add(0, t.tensor([0, 0]), t.ones(2, 3, 2)),
    "index_add of a number": lambda t: t.ones(4).index_add(0, t.tensor([1]), t.tensor(1.0)),
    "index_add_ of fewer dimensions": lambda t: t.ones(3, 4).index_add_(1, t.tensor([0, 1]), t.ones(4)),
}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_refused(name: str, jitted: bool) -> None:
    call = ej.jit(CALLS[name]) if jitted else CALLS[name]
    with pytest.raises(RuntimeError, match=r"unsigned|out of bounds of|source tensor shape must match self"):
        CALLS[name](torch)
    with pytest.raises(RuntimeError, match=r"unsigned|out of bounds of|source tensor shape must match self"):
        call(ej)


def test_limits_of_bytes_that_are_none_below_zero() -> None:
    assert ej.nn.functional.hardtanh(ej.arange(4, dtype=ej.uint8), 1, 2).tolist() == [1, 1, 2, 2]
    assert ej.nn.functional.relu6(ej.arange(9, dtype=ej.uint8)).tolist() == [0, 1, 2, 3, 4, 5, 6, 6, 6]
