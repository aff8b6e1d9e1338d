"""Elementwise functions of values that are no numbers, as PyTorch has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "angle": lambda t, x: x.angle(),
    "threshold": lambda t, x: t.nn.functional.threshold(x, 0.5, 2.0),
}
VALUES = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 0.5, -1.0, 3.0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_as_in_pytorch(name: str, dtype: str) -> None:
    expected = CALLS[name](torch, torch.tensor(VALUES, dtype=getattr(torch, dtype))).double().numpy()
    x = ej.tensor(VALUES, dtype=getattr(ej, dtype))
    for jit in (lambda f: f, ej.jit):
        found = jit(lambda x: CALLS[name](ej, x))(x)
        np.testing.assert_array_equal(found.double().numpy(), expected)
