"""Places in sorted numbers, extremes so far, where flags hold: what searches of the native runtime find."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.dispatch import Op, emit
from eagerjit.compiler.ops import bits, elementwise, indexing, searches
from eagerjit.ops import ordering
from eagerjit.ops.index import stack
from eagerjit.ops.pointwise import as_dtype
from eagerjit.recording.numbers import expression
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import arange
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Tensor


def keys(x: Tensor) -> Tensor:
    """Numbers in the same order that searches compare."""
    if x.dtype in searches.KEYS:
        return x
    if x.dtype is dtypes.uint64:
        return emit(bits.bitcast, x, dtype=dtypes.int64).bitwise_xor(-(2**63))
    return as_dtype(x, dtypes.float32 if x.dtype.is_floating_point else dtypes.int64)


def together(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two tensors of numbers to be compared, without loss."""
    dtype = result_type(a, b)
    if dtype.is_floating_point and not (a.dtype.is_floating_point and b.dtype.is_floating_point):
        dtype = dtypes.float64
    return keys(as_dtype(a, dtype)), keys(as_dtype(b, dtype))


def place_along(x: Tensor, dim: int) -> Tensor:
    """0, 1, 2, ... along a dimension."""
    return arange(x.shape[dim]).reshape(tuple(-1 if i == dim else 1 for i in range(x.ndim))).expand(x.shape)


def before_along(x: Tensor, dim: int) -> Tensor:
    """The element before each along a dimension; the first one itself."""
    return emit(indexing.gather, x, (place_along(x, dim) - 1).clamp(min=0), dim=dim)


def begins_run(x: Tensor, dim: int) -> Tensor:
    """Whether each element along a dimension is the first of equal ones."""
    return (place_along(x, dim) == 0).logical_or(x != before_along(x, dim))


# -- places -----------------------------------------------------------------------------------------------------------


def places(ordered: Tensor, values: Tensor, right: bool) -> Tensor:
    """Where values go in sorted rows: of one row any number of values."""
    ordered, values = together(ordered, values)
    if ordered.ndim > 1:
        return emit(searches.search, ordered, values, right=right)
    return emit(searches.search, ordered, values.reshape(-1), right=right).reshape(values.shape)


searchsorted = Op("searchsorted", places, differentiable=False)


def ascending(x: Tensor) -> Tensor:
    """The elements in order, as a row."""
    return ordering.in_order(x.reshape(-1), 0, x.numel(), False)[0]


def _isin(elements: Tensor, test_elements: Tensor, invert: bool) -> Tensor:
    """Which elements occur among others."""
    among, x = together(test_elements, elements)
    count = among.numel()
    if count == 0:
        return emit(elementwise.cast, as_dtype(bool(invert), dtypes.bool_).expand(elements.shape), dtype=dtypes.bool_)
    row, values = ascending(among), x.reshape(-1)
    place = emit(searches.search, row, values, right=False).clamp(max=count - 1)
    found = emit(indexing.take_rows, row, place) == values
    return (found.logical_not() if invert else found).reshape(elements.shape)


isin = Op("isin", _isin, differentiable=False)


def _repeated(counts: Tensor, total: Any) -> Tensor:
    """Every position as often as its count says."""
    ends = as_dtype(counts.reshape(-1), dtypes.int64).cumsum(0)
    return emit(searches.search, ends, arange(total, dtype=dtypes.int64), right=True, increasing=True)


repeated_positions = Op("repeated_positions", _repeated, numbers=("total",), differentiable=False)


# -- positions --------------------------------------------------------------------------------------------------------


def where_held(flags: Tensor, count: Any) -> Tensor:
    """The positions of a row's flags that hold, of which there are `count`."""
    return emit(searches.positions, flags, count=expression(count))


def _nonzero(input: Tensor, count: Any) -> Tensor:
    """Positions of the elements that are not zero, in order: a column per dimension, each together in memory."""
    rest = where_held((input != 0).reshape(-1), count)
    columns: list[Tensor] = []
    for size in reversed(input.shape[1:]):
        size = 1 if size == 0 else size  # of no elements none has a place
        columns.append(rest % size)
        rest = rest // size
    if input.ndim == 0:
        return rest.reshape(count, 1)[:, :0]
    return stack([rest, *reversed(columns)]).permute(1, 0)


nonzero = Op("nonzero", _nonzero, numbers=("count",), differentiable=False)


def _select(input: Tensor, mask: Tensor, count: Any) -> Tensor:
    """The elements where a mask of the same shape holds, of which there are `count`."""
    return emit(indexing.take_rows, input.reshape(-1), where_held(mask.reshape(-1), count))


def _select_rule(g: Any, out: Any, input: Any, mask: Any, count: Any) -> Any:
    held = nonzero.call(mask.reshape(-1), count).reshape(-1)
    return g.new_zeros((input.numel(),)).put_rows(held, g).reshape(input.shape)


select_masked = Op("select_masked", _select, (_select_rule, None, None), numbers=("count",))
