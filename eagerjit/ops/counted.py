"""Operations whose results' sizes depend on values: in a trace a compiled count becomes a size of the call."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.ops.host import HostOp
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.views import dimension
from eagerjit.placement import host_array
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensor import Tensor


def measured(count: Tensor, reason: str, negative: bool = False) -> Any:
    """The int that a tensor of one element holds; in a trace a size that the compiled call learns while it runs."""
    if state.tracer is None:
        return int(host_array(count._data).reshape(()))
    node = state.tracer.value(as_dtype(count.detach().reshape(()), dtypes.int64).clone())
    return state.tracer.measure(node, reason, negative)


def _nonzero_array(input: np.ndarray, count: int) -> np.ndarray:
    """Positions of the elements that are not zero, in order."""
    found = np.argwhere(input) if input.ndim else np.argwhere(input.reshape(1))[:, :0]
    return found.astype(np.int64, copy=False)


_nonzero = HostOp(
    "nonzero",
    _nonzero_array,
    differentiable=False,
    types=lambda input, count: (dtypes.int64, (count, input.ndim)),
    on_host="the size of the result depends on values",
)


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Positions of the elements that are not zero: int64 of shape (count, dimensions)."""
    count: Any = 0
    if state.tracer is not None:
        count = measured((input != 0).sum(), "the number of non-zero elements depends on values")
    if as_tuple and input.ndim == 0:
        input = input.unsqueeze(0)
    out = _nonzero.call(input, count)
    return out.unbind(1) if as_tuple else out


def _unique_arrays(input: np.ndarray, dim: int | None, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The different elements, of which each NaN is one, where each element went, and how often each occurs."""
    keys = input.astype(np.float32) if input.dtype == dtypes.bfloat16.numpy else input
    values, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    inverse = inverse.reshape(input.shape if dim is None else -1)
    return values.astype(input.dtype), inverse.astype(np.int64), counts.astype(np.int64)


def unique_types(input: Tensor, dim: int | None, count: Any) -> Any:
    """The types of different elements, where each element went, and how often each occurs."""
    shape = (count,) if dim is None else (*input.shape[:dim], count, *input.shape[dim + 1 :])
    inverse = input.shape if dim is None else (input.shape[dim],)
    return [(input.dtype, shape), (dtypes.int64, inverse), (dtypes.int64, (count,))]


_unique = HostOp(
    "unique",
    _unique_arrays,
    differentiable=False,
    types=unique_types,
    on_host="the size of the result depends on values",
)


def _unique_count_array(input: np.ndarray, dim: int | None) -> np.ndarray:
    """How many different elements there are."""
    return np.array(_unique_arrays(input, dim, 0)[2].size, np.int64)


_unique_count = HostOp(
    "unique_count",
    _unique_count_array,
    differentiable=False,
    types=lambda input, dim: (dtypes.int64, ()),
    on_host="the size of the result depends on values",
)


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements in order; on request where each element went and how often each occurs."""
    d = None if dim is None else dimension(dim, input.ndim)
    count: Any = 0
    if state.tracer is not None:
        count = measured(_unique_count.call(input, d), "the number of unique elements depends on values")
    values, inverse, counts = _unique.call(input, d, count)
    wanted = (values, *[inverse] * return_inverse, *[counts] * return_counts)
    return wanted[0] if len(wanted) == 1 else wanted


def _bincount_array(input: np.ndarray, weights: np.ndarray | None, bins: int) -> np.ndarray:
    """How often each number below `bins` occurs, or the sum of its weights."""
    out = np.bincount(input.astype(np.int64), weights, bins)
    return out.astype(weights.dtype if weights is not None and weights.dtype == np.float32 else out.dtype)


def _bincount_types(input: Tensor, weights: Tensor | None, bins: Any) -> Any:
    if weights is None:
        return dtypes.int64, (bins,)
    return dtypes.float32 if weights.dtype is dtypes.float32 else dtypes.float64, (bins,)


_bincount = HostOp(
    "bincount",
    _bincount_array,
    differentiable=False,
    types=_bincount_types,
    on_host="the size of the result depends on values",
)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each non-negative integer occurs, or the sum of its weights."""
    if input.ndim != 1 or input.dtype.is_floating_point:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    bins: Any = minlength
    if input.numel():
        if measured(input.min() < 0, "the number of bins depends on values"):
            raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
        bins = measured(input.max().clamp(min=minlength - 1) + 1, "the number of bins depends on values")
    return _bincount.call(input, weights, bins)


def _repeated_array(counts: np.ndarray, total: int) -> np.ndarray:
    """Every position as often as its count says."""
    return np.repeat(np.arange(counts.size, dtype=np.int64), counts)


_repeated = HostOp(
    "repeated_positions",
    _repeated_array,
    differentiable=False,
    types=lambda counts, total: (dtypes.int64, (total,)),
    on_host="the size of the result depends on values",
)


def repeated_positions(counts: Tensor) -> Tensor:
    """0 as often as the first count says, then 1, and so on."""
    if counts.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if counts.numel() and measured(counts.min() < 0, "repeats decide the size of the result"):
        raise RuntimeError("repeats can not be negative")
    total: Any = 0
    if state.tracer is not None:
        total = measured(counts.sum(), "the size of the result depends on values")
    return _repeated.call(counts, total)
