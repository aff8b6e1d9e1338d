"""Dropout: one kernel that draws, compares and scales, and keeps what it decided for the gradient."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.elementwise import ElementwiseOp
from eagerjit.ops.pointwise import as_dtype
from eagerjit.random import advance, state_for, uniform
from eagerjit.runtime import dtypes
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor


def _dropout(input: Tensor, generator_state: Tensor, p: Any, scale: Any) -> tuple[Tensor, Tensor]:
    shape = tuple(input.shape)
    mask = uniform(generator_state, shape, dtypes.float32) >= p
    out = input * (as_dtype(mask, input.dtype) * scale)
    advance(generator_state, shape)
    return out, mask


_dropout_op = ElementwiseOp(
    "dropout",
    _dropout,
    (lambda g, out, input, generator_state, p, scale: g[0] * (out[1].to(g[0].dtype) * scale), None, None, None),
    ("p", "scale"),
)
_dropout_op.apart = (1,)


def dropout(input: Tensor, p: float, training: bool) -> Tensor:
    """Elements zeroed with probability p, the others scaled by 1 / (1 - p)."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    if p == 1:
        return input * input.new_zeros(())
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {TYPE_NAMES[input.dtype]}")
    return _dropout_op.call(input, state_for(input), p if isinstance(p, float) else float(p), 1.0 / (1.0 - p))[0]
