"""Elements written at, or combined with those at, positions along one dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.public import public, written
from eagerjit.compiler.ops import indexing
from eagerjit.ops import index as rows
from eagerjit.ops import views
from eagerjit.ops.inplace import InplaceOp
from eagerjit.ops.pointwise import as_dtype
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.tensors.fitting import check_fit
from eagerjit.tensors.tensor import Tensor


def _replaced(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """input with src written at `index` along dim; the last of equal indices wins."""
    return emit(indexing.scatter, input, as_dtype(index, dtypes.int64), src, dim=dim, combine="")


_replace = Op(
    "scatter",
    _replaced,
    (
        lambda g, out, input, dim, index, src: _replace.call(g, dim, index, g.new_zeros(index.shape)),
        None,
        None,
        lambda g, out, input, dim, index, src: g.gather(dim, index),
    ),
)


def _combined(input: Tensor, dim: int, index: Tensor, src: Tensor, combine: str) -> Tensor:
    """input with src combined with what is at `index` along dim: "mul", "maximum" or "minimum"."""
    return emit(indexing.scatter, input, as_dtype(index, dtypes.int64), src, dim=dim, combine=combine)


def _base_rule(g: Any, out: Any, input: Any, dim: int, index: Any, src: Any, combine: str) -> Any:
    if combine == "mul":
        factors = _combine.call(input * 0.0 + 1.0, dim, index, src, "mul")
        return g * factors
    hits, count = _hits(out, input, dim, index, src)[0], _shares(out, input, dim, index, src)
    return (g / count).where(hits, 0.0)


def _value_rule(g: Any, out: Any, input: Any, dim: int, index: Any, src: Any, combine: str) -> Any:
    if combine == "mul":
        # The product of all others: out / src, and where src is the only zero the product without it.
        zero = src == 0.0
        zeros = (input * 0.0).scatter_add(dim, index, zero.to(g.dtype)).gather(dim, index)
        only = zero.logical_and(zeros == 1.0)
        without = _combine.call(input, dim, index, src.where(only.logical_not(), 1.0), "mul")
        rest = (g * out).gather(dim, index) / src.where(zero.logical_not(), 1.0)
        return (g * without).gather(dim, index).where(only, rest.where(zero.logical_not(), 0.0))
    hits, count = _hits(out, input, dim, index, src)[1], _shares(out, input, dim, index, src)
    return (g / count).gather(dim, index).where(hits, 0.0)


def _hits(out: Any, input: Any, dim: int, index: Any, src: Any) -> tuple[Any, Any]:
    """Which elements of input and of src are the extremes that came out."""
    return input == out, src == out.gather(dim, index)


def _shares(out: Any, input: Any, dim: int, index: Any, src: Any) -> Any:
    """Among how many equal extremes each gradient is divided."""
    base, values = _hits(out, input, dim, index, src)
    count = base.to(out.dtype).scatter_add(dim, index, values.to(out.dtype))
    return count.where(count != 0.0, 1.0)


_combine = Op("scatter_combine", _combined, (_base_rule, None, None, _value_rule, None))


def _prepared(name: str, input: Tensor, dim: int, index: Tensor, src: Any) -> tuple[int, Tensor, Tensor, Tensor]:
    """Checked arguments of a scatter, none of them 0-d, src of the index's shape."""
    rows.check_index(name, index, any_empty=True)
    d = views.dimension(dim, input.ndim)
    if not isinstance(src, Tensor) or (src.ndim == 0 and index.ndim):
        src = input.new_full((), src) if not isinstance(src, Tensor) else src
        src = src.expand(tuple(index.shape))
    if src.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}(): Expected self.dtype to be equal to src.dtype, but got {input.dtype} and {src.dtype}"
        )
    if index.numel() == 0:
        return d, input, index, src
    if max(index.ndim, 1) != max(input.ndim, 1):
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as self tensor: {name}() got {index.ndim} and "
            f"{input.ndim}"
        )
    index, src = (x.reshape(1) if x.ndim == 0 else x for x in (index, src))
    base = input.reshape(1) if input.ndim == 0 else input
    if src.ndim != index.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    for axis, (n, have, given) in enumerate(zip(index.shape, base.shape, src.shape, strict=True)):
        if n > given or (axis != d and n > have):
            raise RuntimeError(
                f"{name}(): Expected index {list(index.shape)} to be no larger than self {list(base.shape)} apart from "
                f"dimension {d} and to be no larger size than src {list(src.shape)}"
            )
    if src.shape != index.shape:
        src = src[tuple(slice(0, n) for n in index.shape)]
    return d, base, index, src


def _scattered(input: Tensor, dim: int, index: Tensor, src: Any, reduce: str | None) -> Tensor:
    """input with src (a tensor or number) written at `index` along dim, or combined with what is there."""
    d, base, places, source = _prepared("scatter", input, dim, index, src)
    if places.numel() == 0:
        return input.clone()
    if reduce == "add":
        return base.scatter_add(d, places, source).reshape(input.shape)
    if reduce == "multiply":
        return _combine.call(base, d, places, source, "mul").reshape(input.shape)
    return _replace.call(base, d, places, source).reshape(input.shape)


def _written_at(input: Tensor, dim: int, index: Tensor, src: Any) -> Tensor:
    """input with a number, or a tensor of the index's shape, written at `index` along dim."""
    return _scattered(input, dim, index, src, None)


_scatter_op = Op(
    "scatter_any",
    _written_at,
    (
        lambda g, out, input, dim, index, src: _scatter_op.call(g, dim, index, 0.0),
        None,
        None,
        lambda g, out, input, dim, index, src: g.gather(dim, index),
    ),
    ("src",),
)


@public
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """input with src (a tensor or number) written at `index` along dim, or with reduce "add" or "multiply" combined.

    result[index[i][j]][j] = src[i][j] for dim 0, in a copy; of several that go to one place the last one wins. index
    has input's number of dimensions; its sizes are at most src's and, but for that along `dim`, input's. Raises
    RuntimeError where they are not, for indices out of range, and for dtypes of src and input that differ.
    """
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if src is None and value is None:
        raise TypeError("scatter(): missing required argument: 'src' or 'value'")
    given = src if value is None else value
    check_fit(given, input.dtype)
    if reduce is None and (type(given) in (int, float) or (isinstance(given, Tensor) and given.shape == index.shape)):
        return _scatter_op.call(input, dim, index, given)
    return _scattered(input, dim, index, given, reduce)


_REDUCTIONS = {"prod": ("mul", 1), "amax": ("maximum", -math.inf), "amin": ("minimum", math.inf)}


def _identity(reduce: str, dtype: DType) -> Any:
    """What combining with leaves a value as it is."""
    value = _REDUCTIONS[reduce][1] if reduce in _REDUCTIONS else 0
    if dtype.is_floating_point or not isinstance(value, float):
        return value
    if dtype is dtypes.bool_:
        return value > 0
    limits = np.iinfo(dtype.numpy)  # type: ignore[type-var]
    return int(limits.min if value < 0 else limits.max)


@public
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """All values that `index` sends to one place reduced: "sum", "prod", "mean", "amax" or "amin".

    With `include_self` the element there takes part. Shapes and errors are those of `scatter`.
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    d, base, places, source = _prepared("scatter_reduce", input, dim, index, src)
    if places.numel() == 0:
        return input.clone()
    if not include_self:
        base = _replace.call(base, d, places, base.new_full((), _identity(reduce, base.dtype)).expand(places.shape))
    if reduce in _REDUCTIONS:
        return _combine.call(base, d, places, source, _REDUCTIONS[reduce][0]).reshape(input.shape)
    total = base.scatter_add(d, places, source)
    if reduce == "mean":
        ones = base.new_ones(places.shape)
        start = base.new_ones(base.shape)
        if not include_self:
            start = _replace.call(start, d, places, ones * 0)
        count = start.scatter_add(d, places, ones).clamp(min=1)
        total = total / count if total.dtype.is_floating_point else total // count
    return total.reshape(input.shape)


scatter_reduce_ = written(scatter_reduce)
_write_at, _written_scatter = InplaceOp(_scatter_op).method(), written(scatter)


def scatter_(
    self: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """In-place version of `scatter`."""
    given = src if value is None else value
    plain = type(given) in (int, float) or (isinstance(given, Tensor) and given.shape == index.shape)
    if reduce is None and plain and self.ndim:
        return _write_at(self, dim, index, given)
    return _written_scatter(self, dim, index, src, value=value, reduce=reduce)
