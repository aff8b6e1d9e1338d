"""Distributions of counts."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.distributions import constraints
from eagerjit.distributions.discrete import Categorical, OfCategories, Weighted, cross_entropy
from eagerjit.distributions.distribution import ExponentialFamily, broadcast_all, uniform_from_zero
from eagerjit.ops import samplers
from eagerjit.ops.activation import softplus
from eagerjit.tensors import creation
from eagerjit.tensors.conversion import passes
from eagerjit.tensors.tensor import Tensor


class Geometric(Weighted):
    """Geometric(probs): failures before the first success; P(k) = (1 - p)**k * p."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        (given,) = self._take(probs, logits)
        super().__init__(given.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not passes((self.probs > 0).all()):
            raise ValueError(f"Expected parameter probs of {self!r} to be positive but found\n{self.probs}")

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return self.probs.new_zeros(self.probs.shape)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            u = 1.0 - uniform_from_zero(shape, self._param)
            return (u.log() / (-self.probs.expand(shape)).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return cross_entropy(self.logits, self.probs) / self.probs


class Poisson(ExponentialFamily):
    """Poisson(rate): how many events there are; P(k) = rate**k * exp(-rate) / k!."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return samplers.poisson_samples(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()


class Binomial(Weighted):
    """Binomial(total_count n, probs): successes among so many trials; P(k) = n! / (k! * (n - k)!) * p**k * (1 - p)**(n
    - k).
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        given, count = self._take(probs, logits, total_count)
        self.total_count = count.type_as(given)
        super().__init__(given.shape, validate_args=validate_args)

    has_enumerate_support = True

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """Numbers up to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            return samplers.binomial_samples(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * self.logits - n * softplus.call(self.logits)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = int(self.total_count.max())
        if not (self.total_count == count).all():
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._numbers(1 + count, self._param.dtype, expand)

    def entropy(self) -> Tensor:
        logs = self.log_prob(self.enumerate_support(False))
        return -(logs.exp() * logs).sum(0)


class NegativeBinomial(Weighted):
    """NegativeBinomial(total_count r, probs): successes before so many failures.

    P(k) = gamma(k + r) / (k! * gamma(r)) * p**k * (1 - p)**r; r may be any number above 0.
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        given, count = self._take(probs, logits, total_count)
        self.total_count = count.type_as(given)
        super().__init__(given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            shape = self._extended_shape(sample_shape)
            rate = samplers.standard_gamma(self.total_count.expand(shape)) * self.logits.exp()
            return samplers.poisson_samples(rate)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self.total_count
        weight = -n * softplus.call(self.logits) - value * softplus.call(-self.logits)
        ways = (n + value).lgamma() - (1.0 + value).lgamma() - n.lgamma()
        return weight + ways.masked_fill(n + value == 0.0, 0.0)


class Multinomial(OfCategories):
    """Multinomial(total_count, probs): how often each category of the last dimension occurs in so many draws.

    Raises NotImplementedError for a total_count that is no int.
    """

    def __init__(self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(Categorical(probs, logits), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:  # type: ignore[override]
        """Counts whose sum is at most the number of draws."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        one_hot = drawn.unsqueeze(-1) == creation.arange(self.event_shape[0], device=drawn.device)
        return one_hot.to(self.probs.dtype).sum(0)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits = self.logits.masked_fill((value == 0) & (self.logits == -float("inf")), 0)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        counts = creation.arange(1, n + 1, dtype=self.probs.dtype, device=self.probs.device)
        counts = counts.view((-1,) + (1,) * self.probs.ndim)
        chances = Binomial(n, self.probs, validate_args=False).log_prob(counts).exp()
        ways = creation.tensor(n + 1.0, dtype=self.probs.dtype, device=self.probs.device).lgamma()
        total = n * self._categorical.entropy() - ways
        return total + (chances * (counts + 1).lgamma()).sum((0, -1))
