"""Operations whose results' sizes depend on values: in a trace a compiled count becomes a size of the call."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler.ops import indexing
from eagerjit.dispatch import Op, emit
from eagerjit.ops import ordering, searching
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


_held = Op("held", lambda input: (input != 0).sum(), differentiable=False)


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Positions of the elements that are not zero: int64 of shape (count, dimensions)."""
    if as_tuple and input.ndim == 0:
        input = input.unsqueeze(0)
    count = measured(_held.call(input), "the number of non-zero elements depends on values")
    out = searching.nonzero.call(input, count)
    return out.unbind(1) if as_tuple else out


def wanted(values: Tensor, inverse: Tensor, counts: Tensor, return_inverse: bool, return_counts: bool) -> Any:
    """What was asked for of different elements."""
    results = (values, *[inverse] * return_inverse, *[counts] * return_counts)
    return results[0] if len(results) == 1 else results


def _run_starts(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Whether slices along a dimension differ from those before them, and how many do."""
    fresh = searching.begins_run(input, dim)
    others = tuple(i for i in range(input.ndim) if i != dim)
    fresh = fresh.any(others) if others else fresh
    return fresh, fresh.sum()


def _runs(input: Tensor, fresh: Tensor, dim: int, count: Any) -> tuple[Tensor, Tensor, Tensor]:
    """One slice of each run of equal ones, the run that each belongs to, and how long runs are."""
    starts = searching.where_held(fresh, count)
    rows = input.movedim(dim, 0) if dim else input
    values = emit(indexing.take_rows, rows, starts)
    values = values.movedim(0, dim) if dim else values
    return values, fresh.cumsum(0) - 1, _lengths(starts, fresh.shape[0])


def _lengths(starts: Tensor, total: Any) -> Tensor:
    """How far it is from each start to the next, or to the end."""
    place = searching.place_along(starts, 0)
    last = place == starts.shape[0] - 1
    following = emit(indexing.take_rows, starts, (place + 1).where(last.logical_not(), 0))
    return (following.where(last.logical_not(), total)) - starts


run_starts = Op("unique_consecutive_starts", _run_starts, differentiable=False)
runs = Op("unique_consecutive", _runs, numbers=("count",), differentiable=False)


def _ordered_starts(input: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The elements in order, where each was, whether each differs from the one before, and how many do."""
    ordered, order = ordering.in_order(input.reshape(-1), 0, input.numel(), False)
    return ordered, order, *_run_starts(ordered, 0)


def _different(
    ordered: Tensor, order: Tensor, fresh: Tensor, count: Any, inverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The different elements, where each element went, and how often each occurs."""
    values, run, counts = _runs(ordered, fresh, 0, count)
    return values, order.new_zeros(order.shape).put_rows(order, run) if inverse else run, counts


_starts = Op("unique_starts", _ordered_starts, differentiable=False)
_unique = Op("unique", _different, numbers=("count",), differentiable=False)


def _slices_arrays(input: np.ndarray, dim: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The different slices along a dimension, where each went, and how often each occurs."""
    keys = input.astype(np.float32) if input.dtype == dtypes.bfloat16.numpy else input
    values, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    return values.astype(input.dtype), inverse.reshape(-1).astype(np.int64), counts.astype(np.int64)


def _slices_types(input: Tensor, dim: int, count: Any) -> Any:
    shape = (*input.shape[:dim], count, *input.shape[dim + 1 :])
    return [(input.dtype, shape), (dtypes.int64, (input.shape[dim],)), (dtypes.int64, (count,))]


def _slices_count_array(input: np.ndarray, dim: int) -> np.ndarray:
    """How many different slices there are."""
    return np.array(_slices_arrays(input, dim, 0)[2].size, np.int64)


_WHY = "an order of slices, each of which is compared element by element"
_unique_slices = HostOp(
    "unique_slices", _slices_arrays, differentiable=False, types=_slices_types, on_host=_WHY
)
_slices_count = HostOp(
    "unique_slices_count",
    _slices_count_array,
    differentiable=False,
    types=lambda input, dim: (dtypes.int64, ()),
    on_host=_WHY,
)


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements in order; on request where each element went and how often each occurs."""
    reason = "the number of unique elements depends on values"
    if dim is not None:
        d = dimension(dim, input.ndim)
        count = 0 if state.tracer is None else measured(_slices_count.call(input, d), reason)
        return wanted(*_unique_slices.call(input, d, count), return_inverse, return_counts)
    ordered, order, fresh, number = _starts.call(input)
    values, inverse, counts = _unique.call(ordered, order, fresh, measured(number, reason), return_inverse)
    return wanted(values, inverse.reshape(input.shape), counts, return_inverse, return_counts)


def _largest(input: Tensor) -> Tensor:
    """The largest element, -1 if any is negative."""
    return as_dtype(input.amax(), dtypes.int64).where(input.amin() >= 0, -1)


def _bincount(input: Tensor, weights: Tensor | None, bins: Any) -> Tensor:
    """How often each number below `bins` occurs, or the sum of its weights."""
    dtype = dtypes.int64
    if weights is not None:
        dtype = dtypes.float32 if weights.dtype is dtypes.float32 else dtypes.float64
    values = as_dtype(1, dtype).expand(input.shape) if weights is None else as_dtype(weights, dtype)
    base = as_dtype(0, dtype).expand((bins,))
    return emit(indexing.scatter_add, base, as_dtype(input, dtypes.int64), values, dim=0)


_largest_op = Op("bincount_largest", _largest, differentiable=False)
_bincount_op = Op("bincount", _bincount, numbers=("bins",), differentiable=False)


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
        reason = "the number of bins depends on values"
        largest = _largest_op.call(input)
        if measured(largest < 0, reason):
            raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
        bins = measured(largest.clamp(min=minlength - 1) + 1, reason)
    return _bincount_op.call(input, weights, bins)


def repeated_positions(counts: Tensor) -> Tensor:
    """0 as often as the first count says, then 1, and so on."""
    if counts.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if counts.numel() and measured(counts.min() < 0, "repeats decide the size of the result"):
        raise RuntimeError("repeats can not be negative")
    total = measured(counts.sum(), "the size of the result depends on values")
    return searching.repeated_positions.call(counts, total)
