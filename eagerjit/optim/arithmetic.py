"""What all update rules compute with: writes, counts, and the dtypes of numbers and tensors."""

from __future__ import annotations

from typing import Any

from eagerjit.ops.pointwise import as_dtype
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor

Tensors = list[Tensor]


def write(target: Tensor, value: Tensor) -> None:
    tracer = state.tracer
    assert tracer is not None
    tracer.write(target, tracer.value(as_dtype(value, target.dtype)))


def wide(tensor: Tensor) -> Tensor:
    """A tensor in the dtype it is updated in."""
    half = tensor.dtype in (dtypes.float16, dtypes.bfloat16)
    return as_dtype(tensor, dtypes.float32) if half else tensor


def double(value: Any) -> Tensor:
    """An option in float64, in which PyTorch's Python code computes with it."""
    return as_dtype(value, dtypes.float64)


def counted(step: Tensor) -> Tensor:
    """One more step, written; as float64."""
    now = step + 1.0
    write(step, now)
    return double(now)
