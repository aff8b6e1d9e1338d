"""Statistics over dimensions: spreads, covariances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from eagerjit.calling.dispatch import Op
from eagerjit.calling.public import public, written
from eagerjit.calling.results import returned
from eagerjit.ops import complexes, conditions, ordering, reduce, spreads, views
from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor

# -- spreads ----------------------------------------------------------------------------------------------------------


@public
def var_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Tensor, Tensor]:
    """Variance and mean over dimensions; see `var`."""
    axes = None if isinstance(dim, bool) else dim
    variance = spreads.var(input, dim, unbiased, keepdim, correction=correction)
    return variance, reduce.mean.call(input, axes, keepdim)


@public
def std_mean(
    input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over dimensions; see `std`."""
    axes = None if isinstance(dim, bool) else dim
    deviation = spreads.std(input, dim, unbiased, keepdim, correction=correction)
    return deviation, reduce.mean.call(input, axes, keepdim)


def _nansum(input: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Sum of the elements that are not NaN."""
    if input.dtype.is_complex:
        raise RuntimeError(f"nansum does not support complex inputs, but got {input.dtype}")
    kept = input.where(input.isnan().logical_not(), 0.0) if input.dtype.is_floating_point else input
    return reduce.sum_.call(kept, dim, keepdim, dtype)


nansum = Op("nansum", _nansum)


@public
def nanmean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean of the elements that are not NaN."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype}")
    count = reduce.sum_.call(input.isnan().logical_not(), dim, keepdim)
    return nansum.call(input, dim, keepdim, dtype) / count


@returned("aminmax")
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
    """The p-norm of input - other, which are broadcast, over all elements: a tensor without dimensions."""
    if p is None:
        raise TypeError("dist(): argument 'p' (position 3) must be Number, not NoneType")
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
    return (input * (maxnorm / (norms + 1e-7)).where(norms > maxnorm, 1.0)).contiguous()


# -- covariances ------------------------------------------------------------------------------------------------------


def _weights(weights: Tensor, name: str) -> Tensor:
    """Weights, which are refused where they are negative."""
    message = f"cov(): {name} cannot be negative"
    return conditions.required((weights < 0).logical_not(), weights, "RuntimeError", message)


_weights_op = Op("cov_weights", _weights)


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
    if not x.dtype.is_differentiable:
        x = x.float()
    weights = None
    if fweights is not None:
        if fweights.ndim > 1 or fweights.dtype.is_floating_point:
            raise RuntimeError("cov(): expected fweights to have integral dtype and one or fewer dimensions")
        weights = fweights = _weights_op.call(fweights, "fweights")
    if aweights is not None:
        if aweights.ndim > 1 or not aweights.dtype.is_floating_point:
            raise RuntimeError("cov(): expected aweights to have floating point dtype and one or fewer dimensions")
        aweights = _weights_op.call(aweights, "aweights")
        weights = aweights if weights is None else weights * aweights
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
        divisor = total - correction * (weights * aweights).sum() / total
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
    variances = covariance.diagonal()
    deviations = (variances.real if variances.dtype.is_complex else variances).sqrt()
    scaled = covariance / deviations.unsqueeze(1) / deviations
    if not scaled.dtype.is_complex:
        return scaled.clamp(-1.0, 1.0)
    return complexes.complex(scaled.real.clamp(-1.0, 1.0), scaled.imag.clamp(-1.0, 1.0))


cumsum, cumprod = ordering.cumsum, ordering.cumprod


def _accumulated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The in-place version of cumsum or cumprod, which has the tensor's dtype."""
    write = written(function)

    def in_place(self: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        if dtype is not None and dtype is not self.dtype:
            raise RuntimeError(f"Bad in-place call: input tensor dtype {self.dtype} and output dtype {dtype} differ")
        if self.dtype is dtypes.bool_:
            raise NotImplementedError(f"\"{function.__name__}_out_cpu\" not implemented for 'Bool'")
        return write(self, dim)

    in_place.__name__, in_place.__doc__ = write.__name__, write.__doc__
    return in_place


cumsum_, cumprod_, renorm_ = _accumulated(cumsum), _accumulated(cumprod), written(renorm)
