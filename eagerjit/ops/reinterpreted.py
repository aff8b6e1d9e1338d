"""Memory seen as elements of another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.calling.dispatch import emit
from eagerjit.compiler import sizes
from eagerjit.compiler.ops import bits
from eagerjit.ops import views
from eagerjit.ops.aliasing import Exprs, ViewOp, by_ops, in_units
from eagerjit.ops.index import own_array, stack_op
from eagerjit.ops.pointwise import as_dtype
from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.dtypes import DType
from eagerjit.tensors.tensor import Tensor

_INTEGERS = {1: dtypes.int8, 2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}


def _array(array: np.ndarray, dtype: DType, own: DType) -> np.ndarray:
    return array.view(dtype.numpy)


def _reinterpreted(input: Tensor, dtype: DType) -> Tensor:
    """The bytes of the elements, which lie in order along the last dimension, as elements of another dtype."""
    old, new = input.dtype.itemsize, dtype.itemsize
    if old == new:
        return emit(bits.bitcast, input, dtype=dtype)
    integers = emit(bits.bitcast, input, dtype=_INTEGERS[old])
    integers = _split(integers, old // new, new) if old > new else _joined(integers, new // old, old)
    return emit(bits.bitcast, integers, dtype=dtype)


def _shift(x: Tensor, primitive: Any, count: int) -> Tensor:
    return emit(primitive, x, as_dtype(count, x.dtype))


def _split(integers: Tensor, count: int, width: int) -> Tensor:
    """Integers as so many narrower ones each, the lowest bytes first."""
    parts = [as_dtype(_shift(integers, bits.shift_right, 8 * width * i), _INTEGERS[width]) for i in range(count)]
    return stack_op.call(parts, -1).reshape((*integers.shape[:-1], integers.shape[-1] * count))


def _joined(integers: Tensor, count: int, width: int) -> Tensor:
    """So many integers at a time as a wider one, the lowest bytes first."""
    rows = integers.reshape((*integers.shape[:-1], integers.shape[-1] // count, count))
    whole = as_dtype(rows, _INTEGERS[width * count]).bitwise_and((1 << 8 * width) - 1)
    out = whole.select(-1, 0)
    for i in range(1, count):
        out = out.bitwise_or(_shift(whole.select(-1, i), bits.shift_left, 8 * width * i))
    return out


reinterpreted_view = ViewOp(
    "view_dtype",
    _array,
    by_ops(lambda input, dtype, own: _reinterpreted(input, dtype)),
    by_ops(lambda input, value, dtype, own: _reinterpreted(value, own)),
    lambda g, out, input, dtype, own: None,
)
reinterpreted_view.in_place = reinterpreted_view.differentiable = False


def _strides(shape: Exprs, strides: Exprs, dtype: DType, own: DType) -> Exprs | None:
    old, new = own.itemsize, dtype.itemsize
    if old == new:
        return strides
    wider = in_units(strides[:-1], new // old) if new > old else tuple(sizes.mul(s, old // new) for s in strides[:-1])
    return None if wider is None else (*wider, 1)


reinterpreted_view.strides = _strides


def view_dtype(input: Tensor, dtype: DType) -> Tensor:
    """The same bytes as elements of another dtype; the last dimension grows or shrinks with the element's size."""
    if dtype is input.dtype:
        return views.detach(input)
    old, new = input.dtype.itemsize, dtype.itemsize
    if old != new and (input.ndim == 0 or (input.shape[-1] > 1 and input.stride(-1) != 1)):
        raise RuntimeError(
            f"self.stride(-1) must be 1 to view {input.dtype} as {dtype} (different element sizes), and the tensor "
            "must have at least one dimension"
        )
    if new > old and input.shape[-1] * old % new:
        raise RuntimeError(
            f"self.size(-1) must be divisible by {new // old} to view {input.dtype} as {dtype} (different element "
            f"sizes), but got {input.shape[-1]}"
        )
    if not _is_compiled(input.dtype) or not _is_compiled(dtype) or dtype is dtypes.bool_:
        own_array(input, f"a tensor of {input.dtype} was viewed as {dtype}")
    before = mode.set_grad_mode(False)
    try:
        return reinterpreted_view(views.detach(input) if input._requires_grad else input, dtype, input.dtype)
    finally:
        mode.set_grad_mode(before)


def _is_compiled(dtype: DType) -> bool:
    """Whether kernels see the elements of a dtype as their bytes."""
    return not dtype.is_complex and dtype not in dtypes.FLOAT8
