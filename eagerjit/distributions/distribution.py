"""What all distributions have in common."""

from __future__ import annotations

import functools
import math
from typing import Any

from eagerjit import random
from eagerjit.autograd.modes import enable_grad, no_grad
from eagerjit.distributions.constraints import Constraint, is_dependent
from eagerjit.ops.shaping import broadcast_tensors
from eagerjit.ops.triangles import tril_indices
from eagerjit.runtime import dtypes
from eagerjit.state import Defaults
from eagerjit.tensors import creation
from eagerjit.tensors.conversion import passes
from eagerjit.tensors.tensor import Shape, Tensor


class Distribution:
    """A distribution of values of `event_shape`, `batch_shape` of them with parameters of their own.

    Samples have shape sample_shape + batch_shape + event_shape, `log_prob` gives one number per value. Parameters and
    values are checked, with a ValueError that says what is wrong, unless `validate_args` is False.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: dict[str, Constraint]
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check what they are given."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None):
        self._batch_shape, self._event_shape = Shape(batch_shape), Shape(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()  # of what a class is derived from besides, a Module

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            held = name in self.__dict__ or isinstance(getattr(type(self), name, None), property)
            if is_dependent(constraint) or not held:
                continue
            value = getattr(self, name)
            if not passes(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with its parameters expanded to another batch shape. NotImplementedError for subclasses that
        have an `__init__` of their own, and no `expand`."""
        kind = self._kind()
        if kind.__init__ is Distribution.__init__:
            raise NotImplementedError
        made = self._made(_instance)
        shape = Shape(batch_shape)
        for name, constraint in kind._declared(self).items():
            if name not in self.__dict__:
                continue
            value = self.__dict__[name]
            event = value.shape[len(value.shape) - constraint.event_dim :]
            made.__dict__[name] = value.expand(shape + tuple(event))
        Distribution.__init__(made, shape, self._event_shape, validate_args=False)
        made._validate_args = self._validate_args
        return made

    @classmethod
    def _kind(cls) -> type[Distribution]:
        """The class of this library that a class is or is derived from."""
        return next(base for base in cls.__mro__ if base.__module__.startswith(f"{__package__}."))

    @classmethod
    def _declared(cls, instance: Any) -> Any:
        """The constraints that a class declares for the parameters of an instance, whatever its own class declares."""
        declared: Any = cls.arg_constraints
        return declared.__get__(instance) if isinstance(declared, property) else declared

    def _made(self, instance: Any) -> Any:
        """What `expand` fills in: the instance that a subclass gives, or a new one. It has all but the tensors."""
        made = self._get_checked_instance(self._kind(), instance)
        rest = {name: value for name, value in self.__dict__.items() if not isinstance(value, Tensor)}
        made.__dict__.update(rest | made.__dict__)
        return made

    def _made_anew(self, kind: Any, instance: Any, *parameters: Any) -> Any:
        """What `expand` gives where the `__init__` of `kind` is to be asked for all that follows from parameters."""
        made = self._get_checked_instance(kind, instance)
        kind.__init__(made, *parameters, validate_args=False)
        made._validate_args = self._validate_args
        return made

    def _get_checked_instance(self, cls: type[Distribution], _instance: Any = None) -> Any:
        """An instance without attributes, for the `expand` of `cls` to fill in. Raises NotImplementedError for a
        subclass whose `__init__` is another than that of `cls`: it has to have an `expand` of its own."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return object.__new__(type(self))

    def _parameter_names(self) -> list[str]:
        return [name for name in self.arg_constraints if name in self.__dict__]

    @property
    def batch_shape(self) -> Shape:
        """The shape over which parameters vary."""
        return self._batch_shape

    @property
    def event_shape(self) -> Shape:
        """The shape of one value."""
        return self._event_shape

    @property
    def support(self) -> Any:
        """The set of values that have a density or probability, a Constraint."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Values of shape sample_shape + batch_shape + event_shape, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Values through which gradients flow to the parameters. NotImplementedError where `has_rsample` is False."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability of values. ValueError for values outside of the support."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of what is at most the value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values there are."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Shape:
        return Shape(sample_shape) + self._batch_shape + self._event_shape

    def _validate_sample(self, value: Any) -> None:
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        first = value.ndim - len(self._event_shape)
        if value.shape[first:] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            return
        if support is None:
            return
        if not passes(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        parts = []
        for name in self._parameter_names():
            value = self.__dict__[name]
            parts.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """Distributions whose densities are exponentials of a linear function of statistics.

    A subclass that gives `_natural_params`, `_log_normalizer(*natural_params)` and `_mean_carrier_measure` has an
    entropy and divergences from other members of its family.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError

    def _normalizer_slopes(self) -> tuple[list[Tensor], Tensor, Any]:
        """The natural parameters, the log normalizer, and its gradient, which is the mean of the statistics."""
        from eagerjit.autograd.api import grad

        parameters = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*parameters)
        return parameters, normalizer, grad(normalizer.sum(), parameters, create_graph=True)

    def entropy(self) -> Tensor:
        """The entropy, in nats, by Bregman's divergence of the log normalizer."""
        parameters, result, slopes = self._normalizer_slopes()
        result = result - self._mean_carrier_measure
        for parameter, slope in zip(parameters, slopes, strict=True):
            result = result - (parameter * slope).reshape((*self._batch_shape, -1)).sum(-1)
        return result


# -- parameters -------------------------------------------------------------------------------------------------------


def broadcast_all(*values: Any) -> list[Tensor]:
    """Numbers and tensors as tensors of one shape; numbers in the dtype of the tensors among them, and beside them."""
    for value in values:
        if not isinstance(value, (Tensor, int, float)):
            raise ValueError(f"Input arguments must all be instances of Number or Tensor, got a {type(value).__name__}")
    given = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = given.dtype if given is not None and given.dtype.is_floating_point else Defaults.dtype
    device = None if given is None else given.device
    made = [v if isinstance(v, Tensor) else creation.tensor(v, dtype=dtype, device=device) for v in values]
    return list(broadcast_tensors(*made))


def either(first: Any, second: Any, names: str) -> bool:
    """Whether the first of two parameters was given; ValueError unless exactly one was."""
    if (first is None) == (second is None):
        raise ValueError(f"Either {names} must be specified, but not both.")
    return first is not None


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logits."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities away from 0 and 1 by the dtype's precision."""
    eps = precision(probs.dtype)
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logits of probabilities."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def precision(dtype: Any) -> float:
    """The distance from 1 to the next number of a dtype."""
    return {"float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype.name, 2.0**-23)


def smallest(dtype: Any) -> float:
    """The smallest normal number of a dtype."""
    return {"float64": 2.0**-1022, "float16": 2.0**-14}.get(dtype.name, 2.0**-126)


def normal_like(shape: Any, like: Tensor) -> Tensor:
    """Standard normal numbers of a shape, in a tensor's dtype and place."""
    return _standard_normal(shape, like.dtype, like.device)


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Standard normal numbers, under PyTorch's name."""
    return random.randn(tuple(shape), dtype=dtype, device=device)


class lazy_property(functools.cached_property):
    """A property that is computed once, with gradients, and kept on the object."""

    def __init__(self, wrapped: Any):
        super().__init__(wrapped)
        self.attrname = wrapped.__name__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            return super().__get__(instance, owner)


def uniform_from_zero(shape: Any, like: Tensor) -> Tensor:
    """Uniform numbers in [0, 1) of a shape, in a tensor's dtype and place."""
    return random.rand(tuple(shape), dtype=like.dtype, device=like.device)


def uniform_like(shape: Any, like: Tensor) -> Tensor:
    """Uniform numbers in (0, 1) of a shape, in a tensor's dtype and place."""
    return uniform_from_zero(shape, like).clamp(min=smallest(like.dtype))


def sum_rightmost(value: Tensor, count: int) -> Tensor:
    """The sum over the last dimensions."""
    return value if count == 0 else value.flatten(value.ndim - count).sum(-1) if value.ndim else value


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The square matrix whose elements on and below a diagonal are those of a vector, row by row, the others 0."""
    side, count = 1 + 2 * diag, int(vec.shape[-1])
    size = round((-side + math.sqrt(side**2 + 8 * count + 4 * abs(diag) * (diag + 1))) / 2)
    flat = tril_indices(size, size, diag, device=vec.device)
    empty = vec.new_zeros((*vec.shape[:-1], size * size))
    index = (flat[0] * size + flat[1]).expand(vec.shape)
    return empty.scatter(-1, index, vec).unflatten(-1, (size, size))


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of a square matrix on and below a diagonal, row by row. Raises ValueError for a diagonal outside."""
    size = int(mat.shape[-1])
    if not -size <= diag < size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = tril_indices(size, size, diag, device=mat.device)
    return mat[..., rows, columns]


_sum_rightmost = sum_rightmost


euler_constant = 0.57721566490153286060
LOG_SQRT_TAU = 0.5 * math.log(2 * math.pi)
INTEGER = dtypes.int64
