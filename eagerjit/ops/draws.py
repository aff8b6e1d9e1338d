"""Random numbers of less common distributions, and the in-place draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit import random
from eagerjit.calling.dispatch import Op
from eagerjit.calling.public import public
from eagerjit.ops import samplers
from eagerjit.ops.conditions import required
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.shaping import broadcast_tensors
from eagerjit.random import Generator
from eagerjit.recording.numbers import python_number
from eagerjit.runtime import dtypes
from eagerjit.tensors.fitting import fits_exactly
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor

multinomial = public(random.multinomial)


def _below(drawn: Tensor, chance: Tensor) -> Tensor:
    """Where numbers drawn from [0, 1) are below a chance, which has to be a probability."""
    message = "bernoulli expects all elements of p to be in [0, 1]"
    return drawn < required((chance >= 0.0).logical_and(chance <= 1.0), chance, "RuntimeError", message)


_below_op = Op("below", _below, differentiable=False)


def _flags(drawn: Tensor, chance: Tensor) -> Tensor:
    """Ones where numbers drawn from [0, 1) are below a chance, else zeros, which never vary with the chance."""
    return as_dtype(_below(drawn, chance), chance.dtype)


_flags_op = Op("bernoulli", _flags, (None, lambda g, out, drawn, chance: g.new_zeros(g.shape)))


def _no_rule(*given: Any) -> Any:
    raise RuntimeError("derivative for aten::bernoulli is not implemented")


_converted_op = Op("bernoulli_p", lambda flags, input: as_dtype(flags, input.dtype), (None, _no_rule))
"""Flags in a tensor's dtype; they count as computed of it."""


def happens(shape: Any, chance: Any, generator: Generator | None, device: Any) -> Tensor:
    """Flags of a shape that hold with a chance, a number or a tensor. RuntimeError where that is no probability."""
    if not isinstance(chance, Tensor) and not 0 <= chance <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={chance}")
    drawn = random.rand(tuple(shape), generator=generator, device=device)
    return _below_op.call(drawn, chance) if isinstance(chance, Tensor) else drawn < chance


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with zeros and ones, ones with probability p."""
    if not isinstance(p, Tensor) or not p.requires_grad:
        return self.copy_(happens(self.shape, p, generator, self.device))
    return self.copy_(_flags_op.call(random.rand(tuple(self.shape), generator=generator, device=self.device), p))


@public
def bernoulli(input: Tensor, p: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Zeros and ones: ones with the probabilities in input, or with probability p."""
    if p is None and not input.dtype.is_floating_point:
        raise NotImplementedError(f'"bernoulli_tensor_cpu_p_" not implemented for {input.dtype}')
    if p is None:
        return _flags_op.call(random.rand(tuple(input.shape), generator=generator, device=input.device), input)
    return _converted_op.call(happens(input.shape, p, generator, input.device), input)


@public
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Counts of events that happen at the rates in input."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"poisson_cpu" not implemented for {input.dtype}')
    return samplers.checked_poisson(input.detach(), generator)


@public
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed with these probabilities."""
    for name, given in (("count", count), ("prob", prob)):
        if not given.dtype.is_floating_point:
            kind = TYPE_NAMES[given.dtype]
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {kind}")
    if count.dtype is not prob.dtype:
        kinds = (TYPE_NAMES[x.dtype].capitalize() for x in (prob, count))
        raise RuntimeError("Found dtype {} but expected {}".format(*kinds))
    counts, chances = broadcast_tensors(count.detach(), prob.detach())
    return samplers.binomial_samples(counts, chances, generator)


def _standard_gamma(self: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of gamma distributions of rate 1 with these concentrations, to which gradients flow."""
    _of_single_or_double(self, "gamma_cpu")
    return samplers.standard_gamma(self, generator)


def _sample_dirichlet(self: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of Dirichlet distributions, whose concentrations lie along the last dimension, without gradients."""
    _of_single_or_double(self, "dirichlet")
    drawn = samplers.standard_gamma(self.detach(), generator)
    return drawn / drawn.sum(-1, True) if self.ndim else drawn / drawn


def _of_single_or_double(concentration: Tensor, name: str) -> None:
    if concentration.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f"\"{name}\" not implemented for '{TYPE_NAMES[concentration.dtype].capitalize()}'")


# -- in place ---------------------------------------------------------------------------------------------------------


def _uniform(self: Tensor, name: str, generator: Generator | None) -> Tensor:
    """Uniform numbers in (0, 1] of the tensor's shape."""
    if not self.dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {self.dtype}')
    return 1.0 - random.rand(tuple(self.shape), generator=generator, dtype=self.dtype, device=self.device)


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponentially distributed numbers of a rate."""
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    if not self.dtype.is_floating_point:
        raise RuntimeError(f"exponential_: the distribution is continuous, but the tensor has {self.dtype}")
    drawn = random.rand(tuple(self.shape), generator=generator, dtype=self.dtype, device=self.device)
    return self.copy_((1.0 - drawn).log() / -lambd)


def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers of Cauchy's distribution."""
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    drawn = _uniform(self, "cauchy_cpu", generator)
    return self.copy_(median + sigma * ((drawn - 0.5) * math.pi).tan())


def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers whose logarithms are normal."""
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    if not self.dtype.is_floating_point:
        raise NotImplementedError(f'"log_normal_cpu" not implemented for {self.dtype}')
    drawn = random.randn(tuple(self.shape), generator=generator, dtype=self.dtype, device=self.device)
    return self.copy_((drawn * std + mean).exp())


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of trials, each a success with probability p, up to the first success."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    drawn = 1.0 - random.rand(tuple(self.shape), generator=generator, dtype=dtypes.float64, device=self.device)
    return self.copy_((drawn.log() / python_number(math.log1p, -p)).ceil().clamp(min=1.0))


def random_(self: Tensor, low: Any = None, high: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Fill with integers from low (0) up to but excluding high; without bounds all that the dtype holds exactly."""
    if low is not None and high is None:
        low, high = 0, low
    if high is None:
        low = low or 0
        if self.dtype.is_floating_point:
            high = 2 ** {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24}.get(self.dtype, 53) + 1
        else:
            high = 2 if self.dtype is dtypes.bool_ else int(np.iinfo(self.dtype.numpy).max)
    low = 0 if low is None else low
    if self.dtype is dtypes.bool_ and not (low in (0, 1) and high in (1, 2)):
        raise RuntimeError(f"{'from' if low not in (0, 1) else 'to - 1'} is out of bounds for bool")
    if type(high) is int and not fits_exactly(high - 1, self.dtype):
        raise RuntimeError(f"to - 1 is out of bounds for {self.dtype.name}")
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return self.copy_(random.randint(low, high, tuple(self.shape), generator=generator, device=self.device))
