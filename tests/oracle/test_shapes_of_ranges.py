"""Ranges written into tensors of other shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit as ej

RANGES: dict[str, Callable[[Any, Any], Any]] = {
    "arange": lambda t, out: t.arange(4, out=out),
    "linspace": lambda t, out: t.linspace(0, 3, 4, out=out),
    "logspace": lambda t, out: t.logspace(0, 2, 4, out=out),
    "range": lambda t, out: t.range(0, 3, out=out),
}
OUTPUTS: dict[str, Callable[[Any], Any]] = {
    "matrix": lambda t: t.zeros(2, 2),
    "transposed": lambda t: t.zeros(2, 2).t(),
    "every other column": lambda t: t.zeros(2, 4)[:, ::2],
    "too small": lambda t: t.zeros(3),
    "empty": lambda t: t.zeros(2, 0),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("name", RANGES)
def test_ranges_fill_as_many_elements_in_their_shape(name: str, output: str, jitted: bool) -> None:
    mine, theirs = OUTPUTS[output](ej), OUTPUTS[output](torch)
    fill = ej.jit(RANGES[name]) if jitted else RANGES[name]
    assert fill(ej, mine) is mine
    RANGES[name](torch, theirs)
    assert mine.stride() == theirs.stride()
    assert mine.tolist() == pytest.approx(theirs.tolist()) if mine.ndim == 1 else mine.tolist() == theirs.tolist()
