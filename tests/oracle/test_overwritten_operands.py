"""Operands that a gradient does not need may be overwritten after the call, as in PyTorch."""

from __future__ import annotations

import pytest
import torch

import eagerjit

CALLS = {
    "rows": lambda t, y, i: y[i],
    "pairs": lambda t, y, i: y[i, i],
    "mask": lambda t, y, i: y[y > 0],
    "flip": lambda t, y, i: y.flip(0),
    "repeat": lambda t, y, i: y.repeat(2, 1),
    "repeat_interleave": lambda t, y, i: y.repeat_interleave(2, 0),
    "scatter": lambda t, y, i: y.scatter(0, i[None], 1.0),
    "sort": lambda t, y, i: y.sort(0)[0],
    "topk": lambda t, y, i: y.topk(2)[0],
    "cumsum": lambda t, y, i: y.cumsum(0),
    "cumprod": lambda t, y, i: y.cumprod(0),
    "stack": lambda t, y, i: t.stack([y, y]),
    "cat": lambda t, y, i: t.cat([y, y]),
    "max": lambda t, y, i: y.max(1)[0],
    "roll": lambda t, y, i: y.roll(1, 0),
    "outer": lambda t, y, i: t.outer(y[0], y[1]),
    "bmm": lambda t, y, i: t.bmm(y[None], y[None]),
    "norm": lambda t, y, i: y.norm(),
}


def outcome(library, call):
    """The gradient, or the class of the error."""
    x = library.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0], [7.0, 8.0, 9.0]], requires_grad=True)
    y = x * 1.0
    z = call(library, y, library.tensor([0, 2, 1]))
    y.add_(1.0)
    try:
        z.sum().backward()
    except RuntimeError:
        return RuntimeError
    return [[round(value, 4) for value in row] for row in x.grad.tolist()]


@pytest.mark.parametrize("name", CALLS)
def test_an_operand_overwritten_after_the_call(name):
    assert outcome(eagerjit, CALLS[name]) == outcome(torch, CALLS[name])
