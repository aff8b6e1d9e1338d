"""Gradients of arguments of functions that write into a tensor without one, against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import eagerjit as ej

INDEX = [0, 0, 2]
WRITES: dict[str, Any] = {
    **{f"scatter_reduce_ {r}": lambda t, x, i, s, r=r: x.scatter_reduce_(0, i, s, r)
       for r in ("prod", "amax", "amin", "mean", "sum")},
    "without self": lambda t, x, i, s: x.add(0.5).scatter_reduce_(0, i, s, "amax", include_self=False),
    **{f"index_reduce_ {r}": lambda t, x, i, s, r=r: x.index_reduce_(0, i, s, r) for r in ("prod", "amax", "mean")},
    "clamp_min_": lambda t, x, i, s: x.clamp_min_(s.sum() / 6),
    "masked_scatter_": lambda t, x, i, s: x.masked_scatter_(x > 1, s),
    "addmm_": lambda t, x, i, s: x.reshape(2, 2).addmm_(s[:2].reshape(2, 1), s[1:].reshape(1, 2)).reshape(4),
}  # fmt: skip


def gradients(t: Any, name: str, wrap: Any) -> Any:
    s = t.tensor([1.0, 3.0, 2.0], requires_grad=True)
    x = t.tensor([1.0, 2.0, 2.0, 5.0])
    function = wrap(lambda x, s: WRITES[name](t, x.clone(), t.tensor(INDEX), s) * t.arange(1.0, 5))
    y = function(x, s)
    y.sum().backward()
    return y.tolist(), s.grad.tolist(), x.tolist()


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", WRITES)
def test_gradients(name: str) -> None:
    expected = gradients(torch, name, lambda f: f)
    for wrap in (lambda f: f, lambda f: ej.jit(f, fullgraph=True)):
        for found, wanted in zip(gradients(ej, name, wrap), expected, strict=True):
            assert found == pytest.approx(wanted)
