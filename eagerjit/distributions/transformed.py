"""Distributions made of others: transformed, with batch dimensions taken as event dimensions, and mixed."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.distributions import constraints
from eagerjit.distributions.continuous import Exponential, Normal, Uniform
from eagerjit.distributions.discrete import Categorical
from eagerjit.distributions.distribution import Distribution, broadcast_all, sum_rightmost
from eagerjit.distributions.transforms import (
    AffineTransform,
    ExpTransform,
    PowerTransform,
    Transform,
)
from eagerjit.tensor import Shape, Tensor


class TransformedDistribution(Distribution):
    """The distribution of t(x) for x of a base distribution and a transform, or transforms one after the other."""

    arg_constraints: dict[str, Any] = {}

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None):
        if isinstance(transforms, Transform):
            transforms = [transforms]
        if not isinstance(transforms, list) or not all(isinstance(t, Transform) for t in transforms):
            raise ValueError(f"transforms must be a Transform or a list of Transforms, but was {transforms}")
        self.transforms: list[Transform] = transforms
        shape = base_distribution.batch_shape + base_distribution.event_shape
        events = max([len(base_distribution.event_shape), *(t.event_dim for t in transforms)])
        more = events - len(base_distribution.event_shape)
        self.base_dist: Any = Independent(base_distribution, more) if more else base_distribution
        first = len(shape) - events
        super().__init__(shape[:first], shape[first:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._made(_instance)
        made.base_dist = self.base_dist.expand(batch_shape)
        Distribution.__init__(made, batch_shape, self.event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @property
    def support(self) -> Any:  # type: ignore[override]
        """What the last transform gives."""
        return self.transforms[-1].codomain if self.transforms else self.base_dist.support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base distribution has it."""
        return self.base_dist.has_rsample

    def _through(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        events, y = len(self.event_shape), value
        total: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inverse(y)
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, y), events - transform.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), events - len(self.base_dist.event_shape))

    def _sign(self) -> Any:
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return sign

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inverse(value)
        below, sign = self.base_dist.cdf(value), self._sign()
        return below if type(sign) is int and sign == 1 else sign * (below - 0.5) + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        sign = self._sign()
        value = value if type(sign) is int and sign == 1 else sign * (value - 0.5) + 0.5
        return self._through(self.base_dist.icdf(value))

    def __repr__(self) -> str:
        if self.arg_constraints and self._parameter_names():
            return super().__repr__()
        return f"{type(self).__name__}()"


class LogNormal(TransformedDistribution):
    """LogNormal(loc, scale): exp of a normal number."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class Weibull(TransformedDistribution):
    """Weibull(scale, concentration)."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(self.scale.new_ones(self.scale.shape), validate_args=validate_args)
        steps = [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape = Shape(batch_shape)
        return Weibull(self.scale.expand(shape), self.concentration.expand(shape), validate_args=self._validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration_reciprocal

    @property
    def variance(self) -> Tensor:
        r = self.concentration_reciprocal
        return self.scale.square() * ((1 + 2 * r).lgamma().exp() - (2 * (1 + r).lgamma()).exp())

    def entropy(self) -> Tensor:
        r = self.concentration_reciprocal
        return 0.57721566490153286060 * (1 - r) + (self.scale * r).log() + 1


class Pareto(TransformedDistribution):
    """Pareto(scale, alpha)."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape = Shape(batch_shape)
        return Pareto(self.scale.expand(shape), self.alpha.expand(shape), validate_args=self._validate_args)

    @property
    def support(self) -> Any:  # type: ignore[override]
        """Numbers from the scale on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy(concentration1, concentration0): numbers between 0 and 1, much like Beta's."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        one = self.concentration1.new_ones(self.concentration1.shape)
        steps = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(Uniform(one * 0, one, validate_args=False), steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape = Shape(batch_shape)
        return Kumaraswamy(
            self.concentration1.expand(shape), self.concentration0.expand(shape), validate_args=self._validate_args
        )

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    def _moment(self, n: int) -> Tensor:
        a, b = self.concentration1, self.concentration0
        first = 1 + n / a
        return b * (first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()

    @property
    def mode(self) -> Tensor:
        # PyTorch's formula, which is a number at the edge of its range only.
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return log_mode.masked_fill((b < 1) | (a < 1), float("nan")).exp()

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + 0.57721566490153286060
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class Independent(Distribution):
    """A distribution whose last batch dimensions are taken as event dimensions."""

    arg_constraints: dict[str, Any] = {}

    def __init__(self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: bool | None = None):
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        first = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[:first], shape[first:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        base = self.base_dist.expand(Shape(batch_shape) + inner)
        return Independent(base, self.reinterpreted_batch_ndims, validate_args=self._validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base distribution has it."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether the base distribution has it, and no dimension is taken."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @property
    def support(self) -> Any:  # type: ignore[override]
        """The base distribution's, over more dimensions."""
        inner = self.base_dist.support
        return (
            constraints.independent(inner, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else inner
        )

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """One of several distributions of a family (the last batch dimension), chosen by a Categorical."""

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Any, validate_args: bool | None = None
    ):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        count = mixture_distribution.logits.shape[-1]
        if component_distribution.batch_shape[-1] != count:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` "
                f"({component_distribution.batch_shape[-1]})"
            )
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        super().__init__(
            component_distribution.batch_shape[:-1], component_distribution.event_shape, validate_args=validate_args
        )

    @property
    def support(self) -> Any:  # type: ignore[override]
        """That of the components."""
        return None

    def _weights(self) -> Tensor:
        probs = self.mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * len(self.event_shape))

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self.component_distribution.mean).sum(-1 - len(self.event_shape))

    @property
    def variance(self) -> Tensor:
        dim, weights = -1 - len(self.event_shape), self._weights()
        within = (weights * self.component_distribution.variance).sum(dim)
        apart = (self.component_distribution.mean - self.mean.unsqueeze(dim)).square()
        return within + (weights * apart).sum(dim)

    def cdf(self, value: Tensor) -> Tensor:
        return (self.component_distribution.cdf(value.unsqueeze(-1)) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        each = self.component_distribution.log_prob(value.unsqueeze(-1 - len(self.event_shape)))
        return (each + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            events = len(self.event_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            index = chosen.reshape(chosen.shape + (1,) * (events + 1))
            place = drawn.ndim - events - 1
            target = [1 if i == place else s for i, s in enumerate(drawn.shape)]
            return drawn.gather(place, index.expand(target)).squeeze(place)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
