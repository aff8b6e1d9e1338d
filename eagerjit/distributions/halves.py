"""Absolute values of numbers that are as often negative as positive."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.distributions import constraints
from eagerjit.distributions.continuous import Cauchy, Normal
from eagerjit.distributions.transformed import TransformedDistribution
from eagerjit.distributions.transforms import AbsTransform
from eagerjit.tensors.tensor import Tensor


class Half(TransformedDistribution):
    """The absolute value of a number of `_whole`, a distribution given by the place of its middle and by its scale."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    _whole: Any

    def __init__(self, scale: Any, validate_args: bool | None = None):
        super().__init__(self._whole(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The scale of the number."""
        return self.base_dist.scale  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        return self.scale.new_zeros(self.scale.shape)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (self.base_dist.log_prob(value) + math.log(2)).where(value >= 0, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)  # type: ignore[no-any-return]


class HalfNormal(Half):
    """HalfNormal(scale): the absolute value of a normal number of mean 0."""

    _whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(Half):
    """HalfCauchy(scale): the absolute value of a Cauchy number of median 0."""

    _whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return self.scale.new_full(self._extended_shape(), math.inf)

    @property
    def variance(self) -> Tensor:
        return self.scale.new_full(self._extended_shape(), math.inf)
