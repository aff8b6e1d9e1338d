"""Distributions made of gamma numbers: Gamma, Chi2, StudentT, Dirichlet, Beta."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.distributions import constraints
from eagerjit.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    normal_like,
    smallest,
)
from eagerjit.ops.index import stack
from eagerjit.ops.samplers import standard_gamma
from eagerjit.tensors import creation
from eagerjit.tensors.conversion import passes
from eagerjit.tensors.tensor import Tensor


class Gamma(ExponentialFamily):
    """Gamma(concentration a, rate b): density b**a * x**(a - 1) * exp(-b * x) / gamma(a) for x > 0.

    Samples by Marsaglia and Tsang 2000.
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        return value.clamp(min=smallest(value.dtype))

    def log_prob(self, value: Any) -> Tensor:
        value = creation.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._validate_sample(value)
        a, rate = self.concentration, self.rate
        return a.xlogy(rate) + (a - 1).xlogy(value) - rate * value - a.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.concentration.igamma(self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()


class Chi2(Gamma):
    """Chi2(df): sums of squares of this many standard normal numbers, Gamma(df / 2, 1 / 2)."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None):
        (df,) = broadcast_all(df)
        super().__init__(0.5 * df, 0.5 * df.new_ones(df.shape), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._made_anew(Chi2, _instance, self.df.expand(batch_shape))

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2

    def _check_parameters(self) -> None:
        if not passes((self.df > 0).all()):
            raise ValueError(f"Expected parameter df of distribution {self!r} to be positive, but found\n{self.df}")


class StudentT(Distribution):
    """StudentT(df, loc, scale): loc + scale * a standard normal number / sqrt(a Chi2(df) number / df)."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc.where(self.df > 1, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        wide = (self.scale.square() * self.df / (self.df - 2)).where(self.df > 2, math.inf)
        return wide.where(self.df > 1, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        x = normal_like(shape, self.df)
        z = standard_gamma((self.df / 2).expand(shape)) * 2
        return self.loc + self.scale * x * (z / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y, df = (value - self.loc) / self.scale, self.df
        scale = self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi) + (0.5 * df).lgamma()
        return -0.5 * (df + 1.0) * (y.square() / df).log1p() - scale + (0.5 * (df + 1.0)).lgamma()

    def entropy(self) -> Tensor:
        df = self.df
        beta = (0.5 * df).lgamma() + math.lgamma(0.5) - (0.5 * (df + 1)).lgamma()
        spread = 0.5 * (df + 1) * ((0.5 * (df + 1)).digamma() - (0.5 * df).digamma())
        return self.scale.log() + spread + 0.5 * df.log() + beta


class Dirichlet(ExponentialFamily):
    """Dirichlet(concentration): probabilities that sum to 1, along the last dimension.

    Density proportional to the product of p[i]**(concentration[i] - 1). Raises ValueError for a concentration without
    dimensions.
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None):
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, True)
        flat = (self.concentration < 1).all(-1, keepdim=True)
        # Where nothing is likeliest, PyTorch answers with the first corner.
        places = creation.arange(self.concentration.shape[-1], device=mode.device)
        corner = (places == 0).type_as(mode).expand(mode.shape)
        return corner.where(flat, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        drawn = standard_gamma(self.concentration.expand(shape))
        return drawn / drawn.sum(-1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a = self.concentration
        return (a - 1.0).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        spread = (k - total) * total.digamma() + ((a - 1.0) * a.digamma()).sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - spread


class Beta(ExponentialFamily):
    """Beta(concentration1 a, concentration0 b): numbers x between 0 and 1.

    Density proportional to x**(a - 1) * (1 - x)**(b - 1).
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        pair = stack(list(broadcast_all(concentration1, concentration0)), -1)
        self._dirichlet = Dirichlet(pair, validate_args=validate_args)
        super().__init__(pair.shape[:-1], validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        return self._dirichlet.concentration[..., 1]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._made(_instance)
        made._dirichlet = self._dirichlet.expand(batch_shape)
        super(Beta, made).__init__(batch_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        parts = (a - 1.0).xlogy(value) + (b - 1.0).xlogy(1.0 - value)
        return parts + (a + b).lgamma() - a.lgamma() - b.lgamma()

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()


class FisherSnedecor(Distribution):
    """FisherSnedecor(df1, df2): the ratio of two chi-squared numbers, each by its degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        df2 = self.df2.where(self.df2 > 2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.where(self.df1 > 2, math.nan)

    @property
    def variance(self) -> Tensor:
        df2 = self.df2.where(self.df2 > 4, math.nan)
        return 2 * df2.square() * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).square() * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        over, under = (Gamma(df * 0.5, df * 0.5, validate_args=False) for df in (self.df1, self.df2))
        return over.rsample(sample_shape) / under.rsample(sample_shape).clamp(min=smallest(self.df2.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        norm = (a + b).lgamma() - a.lgamma() - b.lgamma() + a * ratio.log()
        return norm + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()
