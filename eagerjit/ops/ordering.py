"""Orders and scans along a dimension, by routines of the native runtime."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.elementwise import KeepingOp
from eagerjit.calling.results import RETURNED, ValuesIndices
from eagerjit.compiler.ops import elementwise, indexing, routines
from eagerjit.ops.index import cat
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.views import dimension
from eagerjit.recording.numbers import expression
from eagerjit.runtime import dtypes, mode
from eagerjit.runtime.planned import Plan
from eagerjit.tensors.mistakes import planned_of_ranks
from eagerjit.tensors.tensor import Tensor

# -- orders -----------------------------------------------------------------------------------------------------------


def in_order(input: Tensor, dim: int, count: Any, descending: bool) -> tuple[Tensor, Tensor]:
    """The first elements in order along a dimension, with where each was."""
    if input.ndim == 0:
        return emit(elementwise.cast, input, dtype=input.dtype), as_dtype(0, dtypes.int64)
    places = emit(routines.order, input, dim=dim, count=expression(count), descending=descending)
    return emit(indexing.gather, input, places, dim=dim), places


def _sort(input: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Elements in order along a dimension, with where each was; equal ones keep their order, NaN is the largest."""
    if input.dtype.is_complex:
        raise RuntimeError(f"sort(): {input.dtype} has no order")
    d = dimension(dim, input.ndim)
    return in_order(input, d, input.shape[d] if input.ndim else 1, bool(descending))


def _argsort(input: Tensor, dim: int, descending: bool) -> Tensor:
    """The order that sorts a dimension."""
    return _sort(input, dim, descending)[1]


def _topk(input: Tensor, k: int, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along a dimension, with where they were."""
    if input.dtype.is_complex:
        raise RuntimeError(f"topk(): {input.dtype} has no order")
    d = dimension(dim, input.ndim)
    if not 0 <= k <= (input.shape[d] if input.ndim else 1):
        raise RuntimeError("selected index k out of range")
    return in_order(input, d, k, bool(largest))


def _unsorted(g: Any, shape: Any, dim: int, places: Any) -> Any:
    return g.new_zeros(shape).scatter_add(dim, places, g) if shape else g


_sort_op = KeepingOp(
    "sort", _sort, (lambda g, out, input, dim, descending: _unsorted(g[0], input.shape, dim, out[1]), None, None)
)
_argsort_op = KeepingOp("argsort", _argsort, None, differentiable=False)
_topk_op = Op(
    "topk",
    _topk,
    (lambda g, out, input, k, dim, largest: _unsorted(g[0], input.shape, dim, out[1]), None, None, None),
    ("k",),
)
_topk_op.steady = _topk_op.numbers
_sort_op.results_read = _topk_op.results_read = (1,)
_SORTED, _FIRST = RETURNED["sort"], RETURNED["topk"]


def _sorted(input: Tensor, dim: int, descending: bool) -> ValuesIndices:
    return _SORTED(*_sort_op.call(input, dim, descending))


def _first(input: Tensor, k: int, dim: int, largest: bool) -> ValuesIndices:
    return _FIRST(*_topk_op.call(input, k, dim, largest))


@planned_of_ranks
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Plan:
    """Elements in order along a dimension, with where each was (int64); equal ones keep theirs, NaN is the largest.

    Raises RuntimeError for complex numbers, IndexError for a dimension out of range.
    """
    return _sorted, (input, dim, descending)


@planned_of_ranks
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Plan:
    """The order that sorts a dimension: int64 indices in input's shape; equal elements keep their order."""
    return _argsort_op.call, (input, dim, descending)


@planned_of_ranks
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Plan:
    """The k largest (or smallest) elements along a dimension, with where they were (int64).

    They are in order, whatever `sorted` says; the dimension's size is k in the result. Raises RuntimeError where it has
    fewer than k elements, and for complex numbers.
    """
    if input.dtype is dtypes.bool_:
        raise RuntimeError("topk does not support bool dtypes")
    return _first, (input, k, dim, largest)


# -- scans ------------------------------------------------------------------------------------------------------------


def _scanned(input: Tensor, dim: int, dtype: Any, combine: str) -> Tensor:
    """Elements up to each combined; integers as int64, floats in double precision."""
    target = dtype or (input.dtype if input.dtype.is_differentiable else dtypes.int64)
    d = dimension(dim, input.ndim)
    x = as_dtype(input, target)
    if input.ndim == 0:
        return emit(elementwise.cast, x, dtype=target)
    if target not in routines.SCANNED and not target.is_complex:
        x = as_dtype(x, dtypes.float32 if target.is_floating_point else dtypes.int64)
    return as_dtype(emit(routines.scan, x, dim=d, combine=combine), target)


def _cumsum(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Sums of all elements up to each along a dimension."""
    return _scanned(input, dim, dtype, "add")


def _cumsum_rule(g: Any, out: Any, input: Any, dim: int, dtype: Any) -> Any:
    return routines.backwards(g, dim) if g.ndim else g


_cumsum_op = Op("cumsum", _cumsum, (_cumsum_rule, None, None))


def _cumprod(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Products of all elements up to each along a dimension."""
    return _scanned(input, dim, dtype, "mul")


def _cumprod_rule(g: Any, out: Any, input: Any, dim: int, dtype: Any) -> Any:
    """Where it is differentiated in turn, earlier products times sums of g over later products: no quotient, so that
    derivatives of every order are those of polynomials, whatever is zero."""
    from eagerjit.ops.running import later_sums

    if not g.ndim:
        return g
    x = input.to(g.dtype)
    if not mode.grad_mode() or g.dtype.is_complex:
        return routines.product_rule(g, out, x, dim)
    d = dimension(dim, g.ndim)
    return products_before(x, d) * later_sums(x.double(), g.double(), d).to(g.dtype)


def products_before(x: Any, dim: int) -> Any:
    """Products of all elements before each along a dimension, 1 of none."""
    ones, size = x.new_ones([1 if i == dim else n for i, n in enumerate(x.shape)]), x.shape[dim]
    return cat.call([ones, x.cumprod(dim)], dim).narrow(dim, 0, size)


_cumprod_op = Op("cumprod", _cumprod, (_cumprod_rule, None, None))


@planned_of_ranks
def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Plan:
    """Sums of all elements up to each along a dimension, in input's shape; integers are summed as int64."""
    return _cumsum_op.call, (input, dim, dtype)


@planned_of_ranks
def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Plan:
    """Products of all elements up to each along a dimension, in input's shape; integers are multiplied as int64."""
    return _cumprod_op.call, (input, dim, dtype)
