"""Operations that NumPy computes: their results' sizes or orders depend on values. In a trace they end it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from eagerjit.autograd.node import record
from eagerjit.dispatch import Op
from eagerjit.ops import views
from eagerjit.ops.index import concrete
from eagerjit.runtime import dtypes, mode
from eagerjit.state import state
from eagerjit.tensor import Tensor, new_tensor


class HostOp(Op):
    """An op whose result NumPy computes from arrays: `function(*arguments with ndarrays for tensors)`.

    Its first parameter is the one tensor, its second the dimension along which it works.
    """

    traceable = False

    def __init__(
        self, name: str, function: Callable[..., Any], rules: Any = None, doc: str = "", differentiable: bool = True
    ):
        super().__init__(name, function, rules, differentiable=differentiable, fused_rules=False)
        self.call.__doc__ = doc or function.__doc__

    def eager(self, arguments: tuple[Any, ...]) -> Any:
        """NumPy's result as tensors."""
        arrays = [a._data if isinstance(a, Tensor) else a for a in arguments]
        with np.errstate(all="ignore"):
            result = self.body(*arrays)
        return tuple(map(_tensor, result)) if isinstance(result, tuple) else _tensor(result)

    def run(self, arguments: tuple[Any, ...]) -> Any:
        """Compute, where there are values to compute with: in a trace there are none, outside of vmap there are."""
        if state.tracer is None:
            return super().run(arguments)
        result = state.tracer.outside_of(self, arguments)
        if self.differentiable and mode.grad_mode():
            record(self, arguments, result)
        return result


def _tensor(array: np.ndarray) -> Tensor:
    return new_tensor(np.ascontiguousarray(array).reshape(np.shape(array)))


def _descending_order(keys: np.ndarray, dim: int) -> np.ndarray:
    """Stable order from the largest to the smallest; NaN counts as the largest."""
    flipped = np.flip(keys, dim)
    order = np.flip(np.argsort(flipped, dim, kind="stable"), dim)
    return keys.shape[dim] - 1 - order


def _sort_arrays(input: np.ndarray, dim: int, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    """Sorted values and where they were."""
    if input.ndim == 0:
        return input.copy(), np.zeros((), np.int64)
    keys = input.astype(np.float32) if input.dtype == dtypes.bfloat16.numpy else input
    order = _descending_order(keys, dim) if descending else np.argsort(keys, dim, kind="stable")
    return np.take_along_axis(input, order, dim), order.astype(np.int64, copy=False)


def _unsorted(g: Any, out: Any, input: Any, dim: int, *rest: Any) -> Any:
    if input.ndim == 0:
        return g[0]
    return g[0].new_zeros(input.shape).scatter_add(dim, out[1], g[0])


_sort = HostOp("sort", _sort_arrays, (_unsorted, None, None))


class ValuesIndices(NamedTuple):
    """Values with where they were found."""

    values: Tensor
    indices: Tensor


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> ValuesIndices:
    """Elements in order along a dimension, with where each was; equal ones keep theirs."""
    return ValuesIndices(*_sort.call(input, views.dimension(dim, input.ndim), bool(descending)))


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The order that sorts a dimension."""
    return sort(input, dim, descending).indices


def _topk_arrays(input: np.ndarray, dim: int, k: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    values, order = _sort_arrays(input, dim, largest)
    kept = (slice(None),) * dim + (slice(0, k),)
    return (values, order) if input.ndim == 0 else (values[kept], order[kept])


_topk = HostOp("topk", _topk_arrays, (_unsorted, None, None, None))


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """The k largest (or smallest) elements along a dimension, with where they were."""
    d = views.dimension(dim, input.ndim)
    if not 0 <= k <= (input.shape[d] if input.ndim else 1):
        raise RuntimeError("selected index k out of range")
    return ValuesIndices(*_topk.call(input, d, k, bool(largest)))


def _summed_dtype(input: Any, dtype: Any) -> Any:
    wanted = dtype or (input.dtype if input.dtype.is_floating_point else dtypes.int64)
    return input.to(wanted)


def _cumsum_array(input: np.ndarray, dim: int) -> np.ndarray:
    """Sums of all elements up to each along a dimension."""
    if input.ndim == 0:
        return input.copy()
    wide = input.astype(np.float64) if input.dtype.kind in "fV" else input
    return np.cumsum(wide, dim).astype(input.dtype)


def _cumsum_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    return g.flip(dim).cumsum(dim).flip(dim) if g.ndim else g


_cumsum = HostOp("cumsum", _cumsum_array, (_cumsum_rule, None))


def cumsum(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Sums of all elements up to each along a dimension."""
    return _cumsum.call(_summed_dtype(input, dtype), views.dimension(dim, input.ndim))


def _cumprod_array(input: np.ndarray, dim: int) -> np.ndarray:
    """Products of all elements up to each along a dimension."""
    if input.ndim == 0:
        return input.copy()
    wide = input.astype(np.float64) if input.dtype.kind in "fV" else input
    return np.cumprod(wide, dim).astype(input.dtype)


def _cumprod_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    """Later products without this factor: quotients before the first zero, and what that zero has hidden from it on."""
    if not g.ndim:
        return g
    zero = input == 0
    count = zero.long().cumsum(dim)
    first = zero.logical_and(count == 1)
    factor = input.where(zero.logical_not(), 1.0)
    before = _cumsum_rule(g * out, None, g, dim) / factor
    rest = _cumsum_rule(g * cumprod(input.where(first.logical_not(), 1.0), dim), None, g, dim)
    # After the first zero all is 0, but as a product with that zero: it has a derivative.
    after = (rest * (input * first).sum(dim, keepdim=True) / factor).where(zero.logical_not(), 0.0)
    return before.where(count == 0, rest.where(first, after))


_cumprod = HostOp("cumprod", _cumprod_array, (_cumprod_rule, None))


def cumprod(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Products of all elements up to each along a dimension."""
    d = views.dimension(dim, input.ndim)
    return _cumprod.call(_summed_dtype(input, dtype), d)


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements in order; on request where each element went and how often each occurs."""
    array = concrete(input, "the number of unique elements depends on values")
    values, inverse, counts = np.unique(array, return_inverse=True, return_counts=True, axis=dim)
    inverse = inverse.reshape(array.shape if dim is None else -1)
    wanted = [values] + [inverse] * return_inverse + [counts] * return_counts
    out = tuple(_tensor(w) for w in wanted)
    return out[0] if len(out) == 1 else out


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each non-negative integer occurs, or the sum of its weights."""
    array = concrete(input, "the number of bins depends on values")
    if array.ndim != 1 or (array.size and array.min() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    weight = None if weights is None else concrete(weights, "bincount() is computed by NumPy")
    return _tensor(np.bincount(array, weight, minlength))


def searchsorted(sorted_sequence: Tensor, values: Any, *, right: bool = False) -> Tensor:
    """Where values would go in a sorted vector."""
    array = concrete(sorted_sequence, "searchsorted() is computed by NumPy")
    wanted = (
        concrete(values, "searchsorted() is computed by NumPy") if isinstance(values, Tensor) else np.asarray(values)
    )
    return _tensor(np.searchsorted(array, wanted, side="right" if right else "left").astype(np.int64))


def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element, the lower one of two; along a dimension also where it is."""
    if dim is None:
        flat = sort(input.reshape(-1)).values
        return flat[(flat.numel() - 1) // 2]
    found = sort(input, dim)
    d = views.dimension(dim, input.ndim)
    middle = (int(input.shape[d]) - 1) // 2
    parts = [views.narrow(x, d, middle, 1) for x in found]
    return ValuesIndices(*(parts if keepdim else (p.squeeze(d) for p in parts)))
