"""Statistics over dimensions: spreads, running extremes, covariances."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from eagerjit.calling import ValuesIndices, public, written
from eagerjit.dispatch import Op
from eagerjit.ops import ordering, reduce, views
from eagerjit.ops.host import HostOp, like, like_with_order
from eagerjit.runtime import dtypes
from eagerjit.tensor import Tensor

# -- spreads ----------------------------------------------------------------------------------------------------------


@public
def var_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Tensor, Tensor]:
    """Variance and mean over dimensions; see `var`."""
    axes = None if isinstance(dim, bool) else dim
    variance = reduce.var(input, dim, unbiased, keepdim, correction=correction)
    return variance, reduce.mean.call(input, axes, keepdim)


@public
def std_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over dimensions; see `std`."""
    axes = None if isinstance(dim, bool) else dim
    deviation = reduce.std(input, dim, unbiased, keepdim, correction=correction)
    return deviation, reduce.mean.call(input, axes, keepdim)


@public
def nansum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum of the elements that are not NaN."""
    kept = input.where(input.isnan().logical_not(), 0.0) if input.dtype.is_floating_point else input
    return reduce.sum_.call(kept, dim, keepdim, dtype)


@public
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean of the elements that are not NaN."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype}")
    count = reduce.sum_.call(input.isnan().logical_not(), dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / count


class MinMax(NamedTuple):
    """The result of `aminmax`."""

    min: Tensor
    max: Tensor


@public
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """The smallest and the largest element, along a dimension or of all."""
    axes: Any = () if dim is None else dim
    if input.numel() == 0 and dim is None:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    return MinMax(reduce.amin.call(input, axes, keepdim), reduce.amax.call(input, axes, keepdim))


def _count(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not zero."""
    return (input != 0).sum(dim)


_count_nonzero = Op("count_nonzero", _count, None, differentiable=False)


@public
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements are not zero, over dimensions."""
    return _count_nonzero.call(input, tuple(dim) if isinstance(dim, list) else dim)


@public
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference."""
    return reduce.norm(input - other, p)


@public
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """input with slices along a dimension scaled down to at most a norm."""
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    d = views.dimension(dim, input.ndim)
    norms = reduce.norm(input, p, tuple(i for i in range(input.ndim) if i != d), True)
    return input * (maxnorm / (norms + 1e-7)).where(norms > maxnorm, 1.0)


# -- running ----------------------------------------------------------------------------------------------------------


def _running(largest: bool) -> Any:
    def extremes(input: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
        if input.ndim == 0:
            return input.copy(), np.zeros((), np.int64)
        narrow = input.dtype == dtypes.bfloat16.numpy
        keys = input.astype(np.float32) if narrow else input
        values = (np.maximum if largest else np.minimum).accumulate(keys, axis=dim)
        hit = (keys == values) | (np.isnan(keys) if keys.dtype.kind == "f" else False)
        place = np.arange(input.shape[dim]).reshape([-1 if i == dim else 1 for i in range(input.ndim)])
        found = np.maximum.accumulate(np.where(hit, place, 0), axis=dim)
        return values.astype(input.dtype, copy=False), found

    extremes.__doc__ = f"The {'largest' if largest else 'smallest'} elements so far, and where they are."
    return extremes


def _running_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    return g[0].new_zeros(input.shape).scatter_add(dim, out[1], g[0])


_cummax = HostOp(
    "cummax",
    _running(True),
    (_running_rule, None),
    types=like_with_order,
    on_host="values that depend on all those before",
)
_cummin = HostOp(
    "cummin",
    _running(False),
    (_running_rule, None),
    types=like_with_order,
    on_host="values that depend on all those before",
)
_cummax.results_read = _cummin.results_read = (1,)


@public
def cummax(input: Tensor, dim: int) -> ValuesIndices:
    """The largest element up to each along a dimension, with where it is (the last one of equals)."""
    return ValuesIndices(*_cummax.call(input, views.dimension(dim, input.ndim)))


@public
def cummin(input: Tensor, dim: int) -> ValuesIndices:
    """The smallest element up to each along a dimension, with where it is (the last one of equals)."""
    return ValuesIndices(*_cummin.call(input, views.dimension(dim, input.ndim)))


def _logcumsumexp_array(input: np.ndarray, dim: int) -> np.ndarray:
    """log of the sum of all exponentials up to each along a dimension."""
    if input.ndim == 0:
        return input.copy()
    wide = input.astype(np.float64)
    return np.logaddexp.accumulate(wide, axis=dim).astype(input.dtype)


def _backwards(x: Any, dim: int) -> Any:
    return _logcumsumexp.call(x.flip(dim), dim).flip(dim)


def _logcumsumexp_rule(g: Any, out: Any, input: Any, dim: int) -> Any:
    """Sums of g * exp(input - out) over all later places, positive and negative ones apart, in logarithms."""
    if not g.ndim:
        return g
    parts = []
    out = out.where(out != -math.inf, 0.0)  # then all elements so far are -inf, whose slopes are 0
    for part in (g, -g):
        logarithm = part.where(part > 0.0, 1.0).log().where(part > 0.0, -math.inf)
        parts.append((_backwards(logarithm - out, dim) + input).exp())
    return parts[0] - parts[1]


_logcumsumexp = HostOp(
    "logcumsumexp",
    _logcumsumexp_array,
    (_logcumsumexp_rule, None),
    types=like,
    on_host="values that depend on all those before",
)


@public
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log of the sum of all exponentials up to each along a dimension."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"logcumsumexp_out_cpu" not implemented for {input.dtype}')
    return _logcumsumexp.call(input, views.dimension(dim, input.ndim))


cumsum, cumprod = public(ordering.cumsum), public(ordering.cumprod)


# -- covariances ------------------------------------------------------------------------------------------------------


@public
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Covariances of variables (rows) over observations (columns), with frequencies and weights of these."""
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.dtype is dtypes.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    if not x.dtype.is_floating_point:
        x = x.float()
    weights = None
    if fweights is not None:
        if fweights.ndim > 1 or fweights.dtype.is_floating_point:
            raise RuntimeError("cov(): expected fweights to have integral dtype and one or fewer dimensions")
        weights = fweights.to(x.dtype)
    if aweights is not None:
        if aweights.ndim > 1 or not aweights.dtype.is_floating_point:
            raise RuntimeError("cov(): expected aweights to have floating point dtype and one or fewer dimensions")
        weights = aweights.to(x.dtype) if weights is None else weights * aweights
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None and given.numel() != x.shape[1]:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                f"{given.numel()} != {x.shape[1]}"
            )
    total: Any = x.shape[1] if weights is None else weights.sum()
    mean = (x.sum(1, True) if weights is None else (x * weights).sum(1, True)) / total
    if weights is None or correction == 0 or aweights is None:
        divisor = total - correction
    else:
        divisor = total - correction * (weights * aweights.to(x.dtype)).sum() / total
    centered = x - mean
    product = (centered if weights is None else centered * weights) @ centered.mT.conj()
    limited = divisor.clamp(min=0) if isinstance(divisor, Tensor) else max(divisor, 0)
    return (product / limited).squeeze()


@public
def corrcoef(input: Tensor) -> Tensor:
    """Correlation coefficients of variables (rows) over observations (columns)."""
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    covariance = cov(input)
    if covariance.ndim == 0:
        return covariance / covariance
    deviations = covariance.diagonal().sqrt()
    return (covariance / deviations.unsqueeze(1) / deviations).clamp(-1.0, 1.0)


cumsum_, cumprod_, renorm_ = written(cumsum), written(cumprod), written(renorm)
