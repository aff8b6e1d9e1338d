"""What follows from order: ranks and quantiles."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.casts import converting
from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.public import public
from eagerjit.calling.results import RETURNED, ValuesIndices
from eagerjit.compiler.ops import elementwise, indexing, routines, searches
from eagerjit.ops import ordering, views
from eagerjit.ops.conditions import required
from eagerjit.ops.one_of_all import share
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.pointwise import where as where_op
from eagerjit.ops.searching import begins_run, place_along
from eagerjit.recording.numbers import expression, to_float
from eagerjit.runtime import dtypes
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor

sort, argsort, topk = ordering.sort, ordering.argsort, ordering.topk


@public
def msort(input: Tensor) -> Tensor:
    """Elements in order along the first dimension."""
    return ordering.sort(input, 0).values


# -- ranks ------------------------------------------------------------------------------------------------------------


def _along(input: Tensor, dim: int) -> tuple[int, Any]:
    """A dimension counted from the front, and its size."""
    d = views.dimension(dim, input.ndim)
    return d, input.shape[d] if input.ndim else 1


def _kth(input: Tensor, k: int, dim: int) -> tuple[Tensor, Tensor]:
    """The k-th smallest element along a dimension, which stays, and where it is."""
    places = emit(routines.order, input, dim=dim, count=expression(k), descending=False)
    place = views.narrow(places, dim, k - 1, 1)
    return emit(indexing.gather, input, place, dim=dim), place


def _median(input: Tensor, dim: int, skip_nan: bool) -> tuple[Tensor, Tensor]:
    """The middle element along a dimension, which stays, and where it is."""
    size = input.shape[dim]
    places = emit(routines.order, input, dim=dim, count=expression(size), descending=False)
    if not input.dtype.is_floating_point:
        found = views.narrow(places, dim, (size - 1) // 2, 1)
    else:
        # NaN sorts last: the first one is the median of what it occurs in, or none counts.
        missing = input.isnan().sum(dim, keepdim=True)
        if skip_nan:
            at = (size - missing - 1).clamp(min=0) // 2
        else:
            at = where_op.call(missing > 0, size - missing, missing * 0 + (size - 1) // 2)
        found = places.gather(dim, at)
    return emit(indexing.gather, input, found, dim=dim), found


def _rank_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    """One element along the dimension gets the gradient."""
    return g[0].new_zeros(input.shape).scatter_add(dim, out[1], g[0])


_kth_op = Op("kthvalue", _kth, (lambda g, out, input, k, dim: _rank_rule(g, out, input, dim), None, None), ("k",))
_median_op = Op("median", _median, (lambda g, out, input, dim, skip: _rank_rule(g, out, input, dim), None, None))
_kth_op.steady = _kth_op.numbers
_kth_op.results_read = _median_op.results_read = (1,)


def _rank(name: str, op: Op, input: Tensor, d: int, how: tuple[Any, ...], keepdim: bool) -> ValuesIndices:
    """One rank of the elements along a dimension."""
    if input.dtype.is_complex:
        raise NotImplementedError(f"{name}(): {input.dtype} has no order")
    if input.ndim == 0:
        return RETURNED[name](*ordering.sort(input, d))
    found = op.call(input, *how)
    return RETURNED[name](*(found if keepdim else (x.squeeze(d) for x in found)))


@public
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest element along a dimension (k counts from 1), with where it is."""
    if input.dtype is dtypes.bool_:
        raise NotImplementedError("\"kthvalue_cpu\" not implemented for 'Bool'")
    d, size = _along(input, dim)
    k = k.__index__() if isinstance(k, Tensor) else k
    if size == 0:
        raise IndexError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
    if not 1 <= k <= size:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    return _rank("kthvalue", _kth_op, input, d, (k, d), keepdim)


def _middle(name: str, input: Tensor, dim: int | None, keepdim: bool, skip_nan: bool) -> Any:
    if input.dtype is dtypes.bool_:
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")
    if dim is None:
        flat = input.reshape(-1)
        if flat.shape[0] == 0:
            if not input.dtype.is_floating_point:
                raise RuntimeError(f"{name}(): an empty tensor of {input.dtype} has no median")
            return input.new_full((), math.nan)
        return _MIDDLE_OF_ALL[name].call(input)
    d, size = _along(input, dim)
    if size == 0:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")
    return _rank(name, _median_op, input, d, (d, skip_nan), keepdim)


def _middle_of_all(name: str, skip_nan: bool) -> Op:
    def body(input: Tensor) -> Tensor:
        return _middle(name, input.reshape(-1), 0, False, skip_nan).values

    body.__doc__ = f"The {name} of all elements; equal ones share the gradient."
    return Op(f"{name}_of_all", body, (share,))


_MIDDLE_OF_ALL = {"median": _middle_of_all("median", False), "nanmedian": _middle_of_all("nanmedian", True)}


@public
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element, the lower one of two; along a dimension also where it is. NaN if any element is."""
    return _middle("median", input, dim, keepdim, False)


@public
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle one of the elements that are not NaN; see `median`."""
    return _middle("nanmedian", input, dim, keepdim, True)


def _mode(input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The most frequent element along a dimension, the smallest of several, and the last place where it is."""
    if input.ndim == 0:
        return emit(elementwise.cast, input, dtype=input.dtype), as_dtype(0, dtypes.int64)
    ordered, order = ordering.in_order(input, dim, input.shape[dim], False)
    place = place_along(ordered, dim)
    start = emit(searches.running, place.where(begins_run(ordered, dim), -1), dim=dim, largest=True)
    longest = (place - start).argmax(dim, True)
    return tuple(emit(indexing.gather, x, longest, dim=dim).squeeze(dim) for x in (ordered, order))  # type: ignore


def _mode_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    if input.ndim == 0:
        return g[0]
    return g[0].new_zeros(input.shape).scatter_add(dim, out[1].unsqueeze(dim), g[0].unsqueeze(dim))


_mode_op = Op("mode", _mode, (_mode_rule, None))
_mode_op.results_read = (1,)


@public
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent element along a dimension, with where it is last."""
    d, size = _along(input, dim)
    if input.dtype.is_complex:
        raise NotImplementedError(f"\"mode_cpu\" not implemented for '{TYPE_NAMES[input.dtype]}'")
    if size == 0:
        raise IndexError(f"mode(): Expected reduction dim {dim} to have non-zero size.")
    found = _mode_op.call(input, d)
    return RETURNED["mode"](*((x.unsqueeze(d) for x in found) if keepdim and input.ndim else found))


def _fractions(q: Tensor, name: str) -> Tensor:
    message = f"{name}() q values must be in the range [0, 1]"
    return required((q >= 0.0).logical_and(q <= 1.0), q, "RuntimeError", message)


_fractions_op = Op("quantile_fractions", _fractions)

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(
    name: str, input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, skip_nan: bool
) -> Tensor:
    if input.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if isinstance(q, Tensor):
        if q.ndim > 1:
            raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
        if q.dtype is not input.dtype:
            raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
        probabilities = _fractions_op.call(q.reshape(-1), name)
    else:
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        probabilities = input.new_full((1,), q)
    if input.numel() == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    d = 0 if dim is None else views.dimension(dim, input.ndim)
    x = input.reshape(-1) if dim is None or input.ndim == 0 else input
    size = x.shape[d]
    ordered = ordering.sort(x, d).values.movedim(d, -1)
    missing = x.isnan().sum(d).unsqueeze(-1)
    # Ranks of NaN, which sorts last: those of the others if it is skipped, else its own.
    ranks = probabilities * ((size - missing - 1).clamp(min=0).to(x.dtype) if skip_nan else to_float(size - 1))
    if not skip_nan:
        ranks = ranks.where(missing == 0, to_float(size - 1))
    if interpolation == "nearest":
        ranks = ranks.round()
    low, high = ranks.floor(), ranks.ceil()
    if interpolation == "higher":
        low = high
    below = ordered.gather(-1, low.detach().long())
    if interpolation in ("linear", "midpoint"):
        above = ordered.gather(-1, high.detach().long())
        below = below.lerp(above, (ranks - low) if interpolation == "linear" else ranks.new_full((), 0.5))
        if interpolation == "midpoint":
            below = below.where(high != low, above)
    out = below.movedim(-1, 0)
    if keepdim and input.ndim:
        out = out.reshape((-1, *(1,) * input.ndim)) if dim is None else out.unsqueeze(d + 1)
    return out if isinstance(q, Tensor) and q.ndim else out.squeeze(0)


@converting
@public
def quantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-th quantiles along a dimension or of all; several q make a first dimension."""
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@converting
@public
def nanquantile(
    input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-th quantiles of the elements that are not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)
