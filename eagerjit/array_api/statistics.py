"""Functions that reduce or accumulate along axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.array_api.axes import axis_of, reduced
from eagerjit.array_api.operands import check_array
from eagerjit.ops import differences, index, ordering, pointwise, reduce, spreads
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std", "sum", "var",
]  # fmt: skip

Axes = int | tuple[int, ...] | None


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest element over axes, NaN if any is. Raises where there are none."""
    return reduce.amax.call(*reduced("max", x, axis, keepdims))


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest element over axes, NaN if any is. Raises where there are none."""
    return reduce.amin.call(*reduced("min", x, axis, keepdims))


def sum(x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The sum over axes, 0 of no elements; integers are summed as int64 or uint64 unless a dtype is given."""
    return reduce.sum_.call(*reduced("sum", x, axis, keepdims), _total(x, dtype))


def prod(x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """The product over axes, 1 of no elements; integers are multiplied as int64 or uint64 unless a dtype is given."""
    return reduce.prod.call(*reduced("prod", x, axis, keepdims), _total(x, dtype))


def _total(x: Tensor, dtype: DType | None) -> DType | None:
    """The dtype of sums and products: for unsigned integers the unsigned one, which PyTorch does not keep to."""
    return dtypes.uint64 if dtype is None and x.dtype.kind == "uint" else dtype


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean over axes, NaN of no elements."""
    return reduce.mean.call(*reduced("mean", x, axis, keepdims))


def var(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over axes: squared distances from the mean divided by count - correction, NaN if that is not > 0."""
    return _spread(spreads.var, *reduced("var", x, axis, keepdims), correction)


def std(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The square root of `var`."""
    return _spread(spreads.std, *reduced("std", x, axis, keepdims), correction)


def _spread(op: Callable[..., Tensor], x: Tensor, axes: Any, keepdims: bool, correction: float) -> Tensor:
    if reduce.extent(x, axes) - correction > 0 or not x.dtype.is_floating_point:
        return op(x, axes, None, keepdims, correction=correction)
    total = reduce.sum_.call(x, axes, keepdims)  # what is nowhere taken, but has the shape and belongs to x
    return pointwise.where.call(x.new_zeros((), dtype=dtypes.bool_), total, math.nan)


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether all elements over axes are other than zero, as NaN is."""
    return reduce.all_.call(*reduced("all", x, axis, keepdims)).bool()


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether any element over axes is other than zero, as NaN is."""
    return reduce.any_.call(*reduced("any", x, axis, keepdims)).bool()


# -- along one axis ---------------------------------------------------------------------------------------------------


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Sums up to each element along an axis, which only a vector may leave out; `include_initial` puts 0 before."""
    return _accumulated("cumulative_sum", ordering.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Products up to each element along an axis, which only a vector may leave out; `include_initial` puts 1 before."""
    return _accumulated("cumulative_prod", ordering.cumprod, 1, x, axis, dtype, include_initial)


def _accumulated(
    name: str, op: Callable[..., Tensor], initial: int, x: Tensor, axis: int | None, dtype: DType | None, include: bool
) -> Tensor:
    if axis is None and check_array(name, x).ndim != 1:
        raise ValueError(f"{name}(): a tensor of {x.ndim} dimensions needs an axis")
    d = 0 if axis is None else axis_of(name, x, axis)
    out = op(x, d, dtype=_total(x, dtype))
    if not include:
        return out
    first = out.new_full([1 if i == d else size for i, size in enumerate(out.shape)], initial)
    return index.cat.call([first, out], d)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbours along an axis, n times over, with elements put before and behind first.

    Raises ValueError for a negative n.
    """
    d = axis_of("diff", x, axis)
    if n < 0:
        raise ValueError(f"diff(): n must not be negative, but is {n}")
    parts = [part for part in (prepend, x, append) if part is not None]
    whole = index.cat.call(parts, d) if len(parts) > 1 else x
    return differences.diff(whole, n, d)
