"""Distributions of numbers in an interval or on a circle, and of what exceeds a threshold."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.distributions import constraints
from eagerjit.distributions.discrete import Weighted
from eagerjit.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    clamp_probs,
    uniform_from_zero,
)
from eagerjit.ops.activation import softplus
from eagerjit.ops.gamma import i0e, i1e
from eagerjit.ops.samplers import von_mises_samples
from eagerjit.tensors.tensor import Tensor


class ContinuousBernoulli(Weighted, ExponentialFamily):
    """ContinuousBernoulli(probs) or (logits=...): a density proportional to p**x * (1 - p)**(1 - x) on [0, 1].

    Near p = 1/2, between `lims`, formulas are replaced by their series (Loaiza-Ganem and Cunningham 2019).
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ):  # fmt: skip
        self._lims = lims
        (given,) = self._take(probs, logits)
        super().__init__(given.shape, validate_args=validate_args)
        if "probs" in self.__dict__:
            self.probs = clamp_probs(self.probs)

    def _apart(self) -> tuple[Tensor, Tensor]:
        """Where p is apart from 1/2, and p there, elsewhere a number at which nothing is 0 / 0."""
        apart = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return apart, self.probs.where(apart, self._lims[0])

    def _cont_bern_log_norm(self) -> Tensor:
        """The logarithm of the factor that makes the density integrate to 1."""
        apart, p = self._apart()
        low = p <= 0.5
        below, above = p.where(low, 0.0), p.where(p >= 0.5, 1.0)
        log_norm = ((-p).log1p() - p.log()).abs().log() - (-2 * below).log1p().where(low, (2 * above - 1).log())
        square = (self.probs - 0.5).square()
        return log_norm.where(apart, math.log(2) + (4 / 3 + 104 / 45 * square) * square)

    @property
    def mean(self) -> Tensor:
        apart, p = self._apart()
        mean = p / (2 * p - 1) + 1 / ((-p).log1p() - p.log())
        distance = self.probs - 0.5
        return mean.where(apart, 0.5 + (1 / 3 + 16 / 45 * distance.square()) * distance)

    @property
    def variance(self) -> Tensor:
        apart, p = self._apart()
        variance = p * (p - 1) / (1 - 2 * p).square() + 1 / ((-p).log1p() - p.log()).square()
        square = (self.probs - 0.5).square()
        return variance.where(apart, 1 / 12 - (1 / 15 - 128 / 945 * square) * square)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(uniform_from_zero(self._extended_shape(sample_shape), self.probs))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return value * self.logits - softplus.call(self.logits) + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        apart, p = self._apart()
        below = (p.pow(value) * (1 - p).pow(1 - value) + p - 1) / (2 * p - 1)
        inside = below.where(apart, value)
        return inside.where(value > 0, 0.0).where(value < 1, 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        apart, p = self._apart()
        rest = (-p).log1p()
        return (((-p + value * (2 * p - 1)).log1p() - rest) / (p.log() - rest)).where(apart, value)

    def entropy(self) -> Tensor:
        zero, one = (-self.probs).log1p(), self.probs.log()
        return self.mean * (zero - one) - self._cont_bern_log_norm() - zero


class VonMises(Distribution):
    """VonMises(loc, concentration): the bell curve of angles, in radians, which count modulo a full turn."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I1(k) / I0(k)."""
        return 1 - i1e.call(self.concentration) / i0e.call(self.concentration)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            return von_mises_samples(self.loc.expand(shape), self.concentration.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        k = self.concentration
        return k * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - i0e.call(k).log()


class GeneralizedPareto(Distribution):
    """GeneralizedPareto(loc, scale, concentration): what exceeds a high threshold."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """Numbers from the threshold, up to a bound if the concentration is negative."""
        bound = (self.loc - self.scale / self.concentration).where(self.concentration < 0, math.inf)
        return constraints.interval(self.loc, bound)

    def _near_zero(self) -> tuple[Tensor, Tensor]:
        """Where the concentration counts as 0, and the concentration, there 1."""
        zero = self.concentration.abs() <= 1e-8
        return zero, self.concentration.where(zero.logical_not(), 1.0)

    @property
    def mean(self) -> Tensor:
        valid = self.concentration < 1
        mean = self.loc + self.scale / (1 - self.concentration.where(valid, 0.5))
        return mean.where(valid, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        valid = self.concentration < 0.5
        c = self.concentration.where(valid, 0.25)
        return (self.scale.square() / ((1 - c).square() * (1 - 2 * c))).where(valid, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(uniform_from_zero(self._extended_shape(sample_shape), self.loc))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        z, (zero, c) = (value - self.loc) / self.scale, self._near_zero()
        return -self.scale.log() - z.where(zero, (1 / c + 1) * (c * z).log1p())

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of what is more than the value."""
        self._validate_sample(value)
        z, (zero, c) = (value - self.loc) / self.scale, self._near_zero()
        return (-z).where(zero, -(c * z).log1p() / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of `cdf`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        zero, c = self._near_zero()
        above = (-value).log1p()
        return self.loc + self.scale * (-above).where(zero, (-c * above).expm1() / c)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
