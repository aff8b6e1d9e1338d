"""Distributions of real numbers."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.distributions import constraints
from eagerjit.distributions.distribution import (
    LOG_SQRT_TAU,
    Distribution,
    ExponentialFamily,
    broadcast_all,
    normal_like,
    precision,
    uniform_from_zero,
    uniform_like,
)
from eagerjit.tensors.conversion import passes
from eagerjit.tensors.from_data import as_tensor
from eagerjit.tensors.tensor import Tensor

_EULER = 0.57721566490153286060


class _LocationScale(Distribution):
    """Distributions with `loc` and `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _standardized(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (value - self.loc) / self.scale


class Normal(_LocationScale, ExponentialFamily):
    """Normal(loc, scale): the bell curve with this mean and standard deviation.

    Density exp(-((x - loc) / scale)**2 / 2) / (scale * sqrt(2 * pi)); parameters broadcast, as in all distributions.
    """

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.loc + normal_like(self._extended_shape(sample_shape), self.loc) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        return -0.5 * self._standardized(value).square() - self.scale.log() - LOG_SQRT_TAU

    def cdf(self, value: Tensor) -> Tensor:
        return 0.5 * (1 + (self._standardized(value) * math.sqrt(0.5)).erf())

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + LOG_SQRT_TAU + self.scale.log()


class Laplace(_LocationScale):
    """Laplace(loc, scale): two exponentials back to back, density exp(-|x - loc| / scale) / (2 * scale)."""

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = uniform_like(self._extended_shape(sample_shape), self.loc) * 2 - 1
        return self.loc - self.scale * u.sign() * (-u.abs().clamp(max=1 - precision(u.dtype))).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        return -(2 * self.scale).log() - self._standardized(value).abs()

    def cdf(self, value: Tensor) -> Tensor:
        z = self._standardized(value)
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """Cauchy(loc, scale), whose tails are too heavy for a mean: density 1 / (pi * scale * (1 + ((x - loc) /
    scale)**2)).
    """

    @property
    def mean(self) -> Tensor:
        return self.loc.new_full(self._extended_shape(), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.loc.new_full(self._extended_shape(), math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = uniform_like(self._extended_shape(sample_shape), self.loc)
        return self.loc + self.scale * ((u - 0.5) * math.pi).tan()

    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - self._standardized(value).square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self._standardized(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return ((value - 0.5) * math.pi).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """Gumbel(loc, scale): the largest of many; P(value <= x) = exp(-exp(-(x - loc) / scale))."""

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * _EULER

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = uniform_like(self._extended_shape(sample_shape), self.loc).clamp(max=1 - precision(self.loc.dtype) / 2)
        return self.loc - self.scale * (-u.log()).log()

    def log_prob(self, value: Tensor) -> Tensor:
        y = -self._standardized(value)
        return y - y.exp() - self.scale.log()

    def cdf(self, value: Any) -> Tensor:
        value = value if isinstance(value, Tensor) else as_tensor(value, dtype=self.loc.dtype, device=self.loc.device)
        return (-(-self._standardized(value)).exp()).exp()

    def icdf(self, value: Any) -> Tensor:
        value = value if isinstance(value, Tensor) else as_tensor(value, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + _EULER)


class Uniform(Distribution):
    """Uniform(low, high): every number from low up to high alike, density 1 / (high - low).

    Raises ValueError unless low < high.
    """

    has_rsample = True
    arg_constraints = {"low": constraints.dependent, "high": constraints.dependent}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not passes((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low>= high")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """Numbers from low to high."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return math.nan * self.high

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = uniform_from_zero(self._extended_shape(sample_shape), self.low)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inside = (self.low <= value).type_as(self.low) * (self.high > value).type_as(self.low)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Exponential(ExponentialFamily):
    """Exponential(rate): times between events of this rate, density rate * exp(-rate * x) for x >= 0."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return self.rate.new_zeros(self.rate.shape)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return -uniform_like(self._extended_shape(sample_shape), self.rate).log() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()
