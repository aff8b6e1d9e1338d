"""Relaxed distributions: continuous ones that are like discrete ones the lower their temperature."""

from __future__ import annotations

from typing import Any

from eagerjit.distributions import constraints
from eagerjit.distributions.discrete import Categorical, OfCategories, Weighted
from eagerjit.distributions.distribution import clamp_probs, uniform_from_zero
from eagerjit.distributions.transformed import TransformedDistribution
from eagerjit.distributions.transforms import ExpTransform, SigmoidTransform
from eagerjit.ops.activation import softplus
from eagerjit.tensors import creation
from eagerjit.tensors.tensor import Tensor


class LogitRelaxedBernoulli(Weighted):
    """LogitRelaxedBernoulli(temperature, probs): logits of RelaxedBernoulli."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self.temperature = temperature
        (given,) = self._take(probs, logits)
        super().__init__(given.shape, validate_args=validate_args)

    def _made(self, instance: Any) -> Any:
        made = super()._made(instance)
        made.temperature = self.temperature
        return made

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(uniform_from_zero(shape, probs))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        difference = self.logits - value * self.temperature
        scale = (
            self.temperature.log() if isinstance(self.temperature, Tensor) else creation.tensor(self.temperature).log()
        )
        return scale + difference - 2 * softplus.call(difference)


class ExpRelaxedCategorical(OfCategories):
    """ExpRelaxedCategorical(temperature, probs): logarithms of RelaxedOneHotCategorical."""

    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self.temperature = temperature
        super().__init__(Categorical(probs, logits), validate_args)

    def _made(self, instance: Any) -> Any:
        made = super()._made(instance)
        made.temperature = self.temperature
        return made

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(uniform_from_zero(shape, self.logits))
        scores = (self.logits.expand(shape) - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        count = self.event_shape[0]
        t = self.temperature if isinstance(self.temperature, Tensor) else creation.tensor(float(self.temperature))
        scale = creation.tensor(float(count)).lgamma() + (count - 1) * t.log()
        score = self.logits - value * t
        return (score - score.logsumexp(-1, True)).sum(-1) + scale


class _Relaxed(TransformedDistribution):
    """What is transformed keeps the parameters."""

    has_rsample = True
    base_dist: Any

    @property
    def temperature(self) -> Any:
        """How soft the distribution is."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of odds, or of probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities of 1, or of the positions."""
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """RelaxedBernoulli(temperature, probs) or (temperature, logits=...): numbers between 0 and 1.

    sigmoid((logits + log(u / (1 - u))) / temperature) of uniform u (Maddison et al. 2017, Jang et al. 2017).
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class RelaxedOneHotCategorical(_Relaxed):
    """RelaxedOneHotCategorical(temperature, probs) or (temperature, logits=...): vectors that sum to 1.

    softmax((logits + g) / temperature) of Gumbel numbers g (Maddison et al. 2017, Jang et al. 2017).
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
