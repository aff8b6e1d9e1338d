"""Functions that look for elements, sort them and pick them by position."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.array_api.axes import axis_of, reduced
from eagerjit.array_api.operands import check_array, common
from eagerjit.ops import bins, counted, gathering, index, ordering, pointwise, reduce, shaping
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted", "sort", "take", "take_along_axis",
    "where",
]  # fmt: skip


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the first largest element along an axis, or in the tensor flattened."""
    return reduce.argmax.call(check_array("argmax", x), _place("argmax", x, axis), keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the first smallest element along an axis, or in the tensor flattened."""
    return reduce.argmin.call(check_array("argmin", x), _place("argmin", x, axis), keepdims)


def _place(name: str, x: Tensor, axis: int | None) -> int | None:
    return None if axis is None else axis_of(name, x, axis)


def count_nonzero(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero, over axes."""
    values, axes, kept = reduced("count_nonzero", x, axis, keepdims)
    return reduce.sum_.call(values != 0, axes, kept)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The positions of the elements that are not zero, one tensor per axis. Raises ValueError if there is no axis."""
    if check_array("nonzero", x).ndim == 0:
        raise ValueError("nonzero(): a tensor of no dimensions has no positions")
    return counted.nonzero(x, as_tuple=True)


def searchsorted(x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where elements of x2 would go in the sorted vector x1: before equal ones, or after with side "right".

    `sorter` holds the positions that sort x1. Raises ValueError for another side or an x1 that is no vector.
    """
    if check_array("searchsorted", x1).ndim != 1:
        raise ValueError(f"searchsorted(): x1 must be a vector, not of shape {tuple(x1.shape)}")
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted(): side must be 'left' or 'right', not {side!r}")
    check_array("searchsorted", x2)
    order = None if sorter is None else check_array("searchsorted", sorter).long()
    found = bins.searchsorted(x1, x2, right=side == "right", sorter=order)
    if not x1.dtype.is_floating_point or not x1.shape[0]:
        return found
    # Here NaN is the largest, as in `sort`: PyTorch's search expects none.
    ordered = x1 if order is None else x1[order]
    numbers = ordered.isnan().logical_not().sum()
    found = bins.searchsorted(ordered.nan_to_num(math.inf, math.inf, -math.inf), x2, right=side == "right")
    return pointwise.where.call(x2.isnan(), numbers if side == "left" else x1.shape[0], found.minimum(numbers))


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Elements of x1 where the condition holds, else those of x2; one of the two may be a number."""
    return pointwise.where.call(check_array("where", condition), *common("where", x1, x2))


# -- sorting ----------------------------------------------------------------------------------------------------------


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The positions that sort along an axis; equal elements keep their order, NaN is the largest."""
    return ordering.sort(x, axis_of("argsort", x, axis), descending).indices


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Elements in order along an axis; equal elements keep their order, NaN is the largest."""
    return ordering.sort(x, axis_of("sort", x, axis), descending).values


# -- by position ------------------------------------------------------------------------------------------------------


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Slices along an axis by a vector of positions, negative ones counted from the end.

    Raises ValueError without an axis for more than one dimension, IndexError for positions out of range.
    """
    if axis is None and check_array("take", x).ndim != 1:
        raise ValueError(f"take(): a tensor of {x.ndim} dimensions needs an axis")
    if check_array("take", indices).ndim != 1:
        raise ValueError(f"take(): indices must be a vector, not of shape {tuple(indices.shape)}")
    d = 0 if axis is None else axis_of("take", x, axis)
    places = _integers("take", indices)
    return index.take_rows.call(x.movedim(d, 0), places).movedim(0, d)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements by position along an axis, one position per element of the result; the other axes broadcast.

    Raises ValueError unless both have the same number of dimensions.
    """
    d = axis_of("take_along_axis", x, axis)
    if check_array("take_along_axis", indices).ndim != x.ndim:
        raise ValueError(f"take_along_axis(): x has {x.ndim} dimensions and indices have {indices.ndim}")
    sizes, places = list(x.shape), list(indices.shape)
    size, count = sizes[d], places[d]
    sizes[d] = places[d] = 1
    shape = list(shaping.broadcast_shapes(sizes, places))
    positions = index.wrapped(_integers("take_along_axis", indices), size)
    rows, spread = [*shape], [*shape]
    rows[d], spread[d] = size, count
    return gathering.gather.call(x.expand(rows), d, positions.expand(spread))


def _integers(name: str, indices: Tensor) -> Tensor:
    if indices.dtype.kind not in ("int", "uint"):
        raise TypeError(f"{name}(): indices must be integers, not {indices.dtype}")
    return indices.long()
