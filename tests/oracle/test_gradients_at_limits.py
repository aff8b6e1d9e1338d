"""Gradients at infinities, poles and NaN, and behind masks: what PyTorch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit as ej

Call = Callable[[Any, Any], Any]


def same(call: Callable[..., Any]) -> None:
    """The same numbers from both libraries, jitted or not."""
    expected = torch.tensor(call(torch, lambda f: f))
    for jit in (lambda f: f, ej.jit):
        torch.testing.assert_close(torch.tensor(call(ej, jit)), expected, equal_nan=True)


SECOND: dict[str, Call] = {
    "elu": lambda t, x: t.nn.functional.elu(x, 0.7),
    "celu": lambda t, x: t.nn.functional.celu(x, 0.7),
    "selu": lambda t, x: t.selu(x),
    "softplus": lambda t, x: t.nn.functional.softplus(x),
    "gelu": lambda t, x: t.nn.functional.gelu(x),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SECOND)
def test_second_gradients_far_out(name: str, dtype: str) -> None:
    def second(t: Any, jit: Any) -> Any:
        x = t.tensor([-3.0, 1.0, 100.0, 1000.0], dtype=getattr(t, dtype), requires_grad=True)
        (g,) = t.autograd.grad(jit(lambda x: SECOND[name](t, x))(x).sum(), x, create_graph=True)
        return t.autograd.grad(g.sum(), x)[0].tolist()

    same(second)
