"""Values that are overwritten before a gradient is asked for: refused where the gradient reads them, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit as ej

Function = Callable[[Any, Any], Any]

SIZES_ALONE: dict[str, Function] = {
    "mask": lambda t, x: x[t.tensor([True, False, True])],
    "index": lambda t, x: x[t.tensor([0, 2]), t.tensor([1, 1])],
    "index_select": lambda t, x: x.index_select(0, t.tensor([0, 2])),
    "scatter": lambda t, x: x.scatter(1, t.tensor([[0], [1], [2]]), 1.0),
    "index_add": lambda t, x: x.index_add(0, t.tensor([0, 2]), t.ones(2, 3)),
    "repeat": lambda t, x: x.repeat(2, 1),
    "repeat_interleave": lambda t, x: x.repeat_interleave(2, 0),
    "tile": lambda t, x: x.tile(2),
    "pad": lambda t, x: t.nn.functional.pad(x, (1, 1)),
    "flip": lambda t, x: x.flip(0),
    "roll": lambda t, x: x.roll(1),
    "einsum": lambda t, x: t.einsum("ij,jk->ik", x, t.ones(3, 3)),
    "addmm": lambda t, x: t.addmm(x, t.ones(3, 3), t.ones(3, 3)),
    "addcmul": lambda t, x: t.addcmul(x, t.ones(3, 3), t.ones(3, 3)),
    "sum": lambda t, x: x.sum(0),
    "mean": lambda t, x: x.mean(),
    "cumsum": lambda t, x: x.cumsum(0),
    "cat": lambda t, x: t.cat([x, x]),
    "matmul": lambda t, x: x @ t.ones(3, 2),
    "frac": lambda t, x: x.frac(),
    "tril": lambda t, x: x.tril(),
}
VALUES: dict[str, Function] = {
    "mul": lambda t, x: x * x,
    "sin": lambda t, x: x.sin(),
    "log": lambda t, x: x.log(),
    "div": lambda t, x: 1.0 / (x * 2).detach().add(0) * x / x,
    "matmul": lambda t, x: x @ x,
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x, (3,)),
    "einsum": lambda t, x: t.einsum("ij,jk->ik", x, x),
    "amax": lambda t, x: x.amax(1),
    "prod": lambda t, x: x.prod(),
    "silu": lambda t, x: t.nn.functional.silu(x),
    "norm": lambda t, x: x.norm(),
}


def outcome(t: Any, function: Function, compiled: bool = False) -> Any:
    """What the gradient is, or that it was refused, when the argument is overwritten after the call."""
    leaf = (t.arange(9.0).reshape(3, 3) * 0.1 + 0.2 + t.eye(3) * 0.3).requires_grad_()
    x = leaf * 1
    out = (ej.jit(lambda x: function(ej, x)) if compiled else lambda x: function(t, x))(x)
    x.add_(1.0)
    try:
        (out * out.detach()).sum().backward()
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return "refused"
    return [round(v, 4) for v in leaf.grad.flatten().tolist()]


@pytest.mark.parametrize("name", SIZES_ALONE)
def test_sizes_may_be_all_that_a_gradient_needs(name: str) -> None:
    expected = outcome(torch, SIZES_ALONE[name])
    assert expected != "refused"
    assert outcome(ej, SIZES_ALONE[name]) == expected
    assert outcome(ej, SIZES_ALONE[name], compiled=True) == expected


@pytest.mark.parametrize("name", VALUES)
def test_values_that_are_read_are_missed(name: str) -> None:
    assert outcome(torch, VALUES[name]) == "refused"
    assert outcome(ej, VALUES[name]) == outcome(ej, VALUES[name], compiled=True) == "refused"


def test_an_expert_that_adds_to_its_rows() -> None:
    """A mask that is read and written in turn, as mixtures of experts do."""

    def mixed(t: Any, x: Any) -> Any:
        out = t.zeros_like(x)
        for k in range(3):
            rows = t.arange(4) % 3 == k
            out[rows] += x[rows] * (k + 1)
        return out

    for compiled in (False, True):
        grads = []
        for t in (ej, torch):
            x = t.arange(8.0).reshape(4, 2).requires_grad_()
            function = ej.jit(lambda x: mixed(ej, x)) if compiled and t is ej else (lambda x, t=t: mixed(t, x))
            (function(x) ** 2).sum().backward()
            grads.append(x.grad.tolist())
        assert grads[0] == grads[1]
