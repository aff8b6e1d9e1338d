"""Distributions of counts and categories."""

from __future__ import annotations

from typing import Any

from eagerjit import random
from eagerjit.autograd.modes import no_grad
from eagerjit.distributions import constraints
from eagerjit.distributions.distribution import (
    INTEGER,
    Distribution,
    ExponentialFamily,
    broadcast_all,
    either,
    logits_to_probs,
    probs_to_logits,
)
from eagerjit.ops import draws
from eagerjit.ops.activation import softplus
from eagerjit.tensors import creation
from eagerjit.tensors.limits import finfo
from eagerjit.tensors.tensor import Shape, Tensor

_PROBS_OR_LOGITS = "`probs` or `logits`"


def cross_entropy(logits: Tensor, value: Tensor) -> Tensor:
    """-log of the probability of 0 or 1."""
    return softplus.call(logits) - logits * value


class Weighted(Distribution):
    """Distributions given by `probs` or by `logits`; the other is computed."""

    is_binary = True
    _given: str

    def _take(self, probs: Any, logits: Any, *others: Any) -> list[Tensor]:
        self._given = "probs" if either(probs, logits, _PROBS_OR_LOGITS) else "logits"
        found = broadcast_all(probs if probs is not None else logits, *others)
        setattr(self, self._given, found[0])
        return found

    @property
    def _param(self) -> Tensor:
        return self.__dict__[self._given]

    def __getattr__(self, name: str) -> Any:
        given = self.__dict__.get("_given")
        if name == "logits" and given == "probs":
            return probs_to_logits(self.probs, self.is_binary)
        if name == "probs" and given == "logits":
            return logits_to_probs(self.logits, self.is_binary)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @property
    def param_shape(self) -> Shape:
        """The shape of the parameter."""
        return self._param.shape

    def _numbers(self, count: int, dtype: Any, expand: bool) -> Tensor:
        """The numbers below `count` of a dtype, for every element of a batch alike."""
        values = creation.arange(count, dtype=dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self.batch_shape))
        return values.expand((-1, *self.batch_shape)) if expand else values


class Bernoulli(Weighted, ExponentialFamily):
    """Bernoulli(probs) or Bernoulli(logits=...), log(p / (1 - p)): 1 with this probability, else 0.

    Raises ValueError unless one of the two is given.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        (given,) = self._take(probs, logits)
        super().__init__(given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return mode.masked_fill(self.probs == 0.5, float("nan"))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return draws.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -cross_entropy(self.logits, value)

    def entropy(self) -> Tensor:
        return cross_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._numbers(2, self._param.dtype, expand)


class Categorical(Weighted):
    """Categorical(probs) or Categorical(logits=...): a number below the size of the last dimension.

    Probabilities are normalised to sum to 1, logits to be logarithms of such. Raises ValueError unless one of the two
    is given, and for a parameter without dimensions.
    """

    is_binary = False
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        given = probs if either(probs, logits, _PROBS_OR_LOGITS) else logits
        if given.ndim < 1:
            name = "probs" if probs is not None else "logits"
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self._given, self.probs = "probs", probs / probs.sum(-1, keepdim=True)
        else:
            self._given, self.logits = "logits", logits - logits.logsumexp(-1, True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """Numbers below the number of categories."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return self.probs.new_full(self._extended_shape(), float("nan"))

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self.probs.new_full(self._extended_shape(), float("nan"))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            count = Shape(sample_shape).numel()
            rows = self.probs.reshape(-1, self._num_events)
            drawn = random.multinomial(rows, count, True).mT
            return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        from eagerjit.ops.subscript import broadcast_shapes

        value = value.long().unsqueeze(-1)
        shape = broadcast_shapes(tuple(value.shape[:-1]), tuple(self.logits.shape[:-1]))
        logits = self.logits.expand((*shape, self._num_events))
        return logits.gather(-1, value.expand((*shape, 1))).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._numbers(self._num_events, INTEGER, expand)


class OfCategories(Distribution):
    """What has the parameters of a Categorical."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, categorical: Categorical, validate_args: bool | None):
        self._categorical = categorical
        super().__init__(categorical.batch_shape, categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = self._made(_instance)
        made._categorical = self._categorical.expand(batch_shape)
        Distribution.__init__(made, batch_shape, self.event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @property
    def param_shape(self) -> Any:
        """The shape of the probabilities."""
        return self._categorical.param_shape

    @property
    def probs(self) -> Tensor:
        """The probability of each category."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits


class OneHotCategorical(OfCategories):
    """OneHotCategorical(probs) or (logits=...): a vector with one 1."""

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        super().__init__(Categorical(probs, logits, validate_args), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _one_hot(self, index: Tensor) -> Tensor:
        return (index.unsqueeze(-1) == creation.arange(self.event_shape[0], device=index.device)).to(self.probs.dtype)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self.event_shape[0]
        values = creation.eye(count, dtype=self.probs.dtype, device=self.probs.device)
        values = values.view((count,) + (1,) * len(self.batch_shape) + (count,))
        return values.expand((count, *self.batch_shape, count)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples pass gradients on to the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
