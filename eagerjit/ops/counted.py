"""Operations whose results' sizes depend on values: in a trace a compiled count becomes a size of the call."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.public import public
from eagerjit.compiler.ops import indexing
from eagerjit.ops import ordering, searching
from eagerjit.ops.index import stack
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.views import dimension
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensors.creation import arange
from eagerjit.tensors.fitting import whole
from eagerjit.tensors.placement import host_array
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor


def measured(count: Tensor, reason: str, negative: bool = False) -> Any:
    """The int that a tensor of one element holds; in a trace a size that the compiled call learns while it runs."""
    if state.tracer is None:
        return int(host_array(count._data).item())
    node = state.tracer.value(as_dtype(count.detach().reshape(()), dtypes.int64).clone())
    return state.tracer.measure(node, reason, negative)


_held = Op("held", lambda input: (input != 0).sum(), differentiable=False)


@public
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Positions of the elements that are not zero: int64 of shape (count, dimensions), in row-major order.

    With `as_tuple` one vector per dimension, which can be an index.
    """
    if as_tuple and input.ndim == 0:
        input = input.unsqueeze(0)
    count = measured(_held.call(input), "the number of non-zero elements depends on values")
    out = searching.nonzero.call(input, count)
    return out.unbind(1) if as_tuple else out


@public
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Positions of the first `size` elements that are not zero, then rows of `fill_value`: int64 (size, dimensions)."""
    size = whole(size)
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    if input.ndim == 0 or not size:
        return input.new_empty((size, input.ndim), dtype=dtypes.int64)
    held = (input != 0).flatten()
    if not held.shape[0]:
        return input.new_full((size, input.ndim), fill_value, dtype=dtypes.int64)
    rank = held.cumsum(0) - 1
    kept = held.logical_and(rank < size)
    everywhere = held.new_ones(held.shape, dtype=dtypes.int64).cumsum(0) - 1
    found = rank.new_full((size + 1,), -1).index_put((rank.where(kept, size),), everywhere)[:size]
    columns, step = [], 1
    for n in reversed(input.shape):
        columns.append(found // step % n)
        step = step * n
    places = stack(columns[::-1], 1)
    return places.where((found >= 0).unsqueeze(1), fill_value)


def _run_starts(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Whether slices along a dimension differ from those before them, and how many do."""
    fresh = searching.begins_run(input, dim)
    others = tuple(i for i in range(input.ndim) if i != dim)
    fresh = fresh.any(others) if others else fresh
    return fresh, fresh.sum()


def _runs(input: Tensor, fresh: Tensor, dim: int, count: Any, inverse: bool, counts: bool) -> Any:
    """One slice of each run of equal ones; on request the run that each belongs to, and how long runs are."""
    starts = searching.where_held(fresh, count)
    values = emit(indexing.take_rows, input.movedim(dim, 0) if dim else input, starts)
    results = [values.movedim(0, dim) if dim else values]
    if inverse:
        results.append(fresh.cumsum(0) - 1)
    if counts:
        results.append(_lengths(starts, fresh.shape[0]))
    return results[0] if len(results) == 1 else tuple(results)


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


def _different(ordered: Tensor, order: Tensor, fresh: Tensor, count: Any, inverse: bool, counts: bool) -> Any:
    """The different elements; on request where each element went, and how often each occurs."""
    found = _runs(ordered, fresh, 0, count, inverse, counts)
    if not inverse:
        return found
    return found[0], order.new_zeros(order.shape).put_rows(order, found[1]), *found[2:]


_starts = Op("unique_starts", _ordered_starts, differentiable=False)
_unique = Op("unique", _different, numbers=("count",), differentiable=False)


def _slices_in_order(rows: Tensor) -> Tensor:
    """The order of rows, the first element of which decides first: by one column after the other, from the last on."""
    order = arange(rows.shape[0])
    for column in reversed(range(rows.shape[1])):
        order = order.take(ordering.argsort(rows[:, column].take(order), 0))
    return order


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements in order; on request where each element went and how often each occurs.

    With `dim` the different slices along it. Raises RuntimeError for slices of no elements.
    """
    if input.dtype.is_complex:
        name = "unique" if dim is None else "unique_dim"
        raise NotImplementedError(f"\"{name}\" not implemented for '{TYPE_NAMES[input.dtype]}'")
    if dim is None:
        values, *rest = different_elements(input, bool(return_inverse), bool(return_counts))
        return (values, *rest) if rest else values
    d = dimension(dim, input.ndim)
    moved = input.movedim(d, 0)
    if any(n == 0 for n in moved.shape[1:]):
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    rows = moved.reshape(moved.shape[0], math.prod(moved.shape[1:]))
    order = _slices_in_order(rows)
    ordered = rows.index_select(0, order)
    starts = ordered, order, *run_starts.call(ordered, 0)
    values, *rest = _between(starts, bool(return_inverse), bool(return_counts))
    values = values.reshape((values.shape[0], *moved.shape[1:])).movedim(0, d)
    return (values, *rest) if rest else values


def different_elements(input: Tensor, inverse: bool, counts: bool) -> list[Tensor]:
    """The different elements of any dtype in order, where each element went, and how often each occurs."""
    found = _between(_starts.call(input), inverse, counts)
    if inverse:
        found[1] = found[1].reshape(input.shape)
    return found


def _between(starts: Any, inverse: bool, counts: bool) -> list[Tensor]:
    """What there is of elements in order, of which it is known where those begin that are alike."""
    ordered, order, fresh, number = starts
    number = measured(number, "the number of unique elements depends on values")
    found = _unique.call(ordered, order, fresh, number, inverse, counts)
    return list(found) if isinstance(found, tuple) else [found]


def _bins(input: Tensor, least: Any) -> Tensor:
    """One more than the largest element, or so many; -1 if any is negative."""
    needed = (as_dtype(input.amax(), dtypes.int64) + 1).clamp(min=least)
    return needed.where(input.amin() >= 0, -1)


def _bincount(input: Tensor, weights: Tensor | None, bins: Any) -> Tensor:
    """How often each number below `bins` occurs, or the sum of its weights."""
    dtype = dtypes.int64
    if weights is not None:
        dtype = dtypes.float32 if weights.dtype is dtypes.float32 else dtypes.float64
    values = as_dtype(1, dtype).expand(input.shape) if weights is None else as_dtype(weights, dtype)
    base = as_dtype(0, dtype).expand((bins,))
    return emit(indexing.scatter_add, base, as_dtype(input, dtypes.int64), values, dim=0)


_bins_op = Op("bincount_bins", _bins, numbers=("least",), differentiable=False)
_bincount_op = Op("bincount", _bincount, numbers=("bins",), differentiable=False)


def bins(input: Tensor, least: Any, reason: str) -> Any:
    """One more than the largest element, or so many; -1 if any is negative."""
    return measured(_bins_op.call(input, least), reason, negative=True)


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each non-negative integer occurs, or the sum of its weights."""
    if input.dtype.is_floating_point:
        raise NotImplementedError(f'"bincount_cpu" not implemented for {input.dtype}')
    if input.ndim != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    count: Any = minlength
    if input.numel():
        count = bins(input, minlength, "the number of bins depends on values")
        if count < 0:
            raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    return _bincount_op.call(input, weights, count)


def repeated_positions(counts: Tensor) -> Tensor:
    """0 as often as the first count says, then 1, and so on."""
    if counts.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if counts.numel() and measured(counts.min() < 0, "repeats decide the size of the result"):
        raise RuntimeError("repeats can not be negative")
    total = measured(counts.sum(), "the size of the result depends on values")
    return searching.repeated_positions.call(counts, total)
