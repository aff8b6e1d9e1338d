"""Random numbers of less common distributions, and the in-place draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit import random
from eagerjit.calling import public
from eagerjit.ops.index import concrete
from eagerjit.placement import beside, host_array
from eagerjit.random import Generator
from eagerjit.runtime import dtypes
from eagerjit.tensor import Tensor, new_tensor

multinomial = public(random.multinomial)


@public
def bernoulli(input: Tensor, p: Any = None, *, generator: Generator | None = None) -> Tensor:
    """Zeros and ones: ones with the probabilities in input, or with probability p."""
    if p is None and not input.dtype.is_floating_point:
        raise NotImplementedError(f'"bernoulli_tensor_cpu_p_" not implemented for {input.dtype}')
    chance = input.detach() if p is None else p
    if not isinstance(chance, Tensor) and not 0 <= chance <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={chance}")
    return (random.rand(tuple(input.shape), generator=generator, device=input.device) < chance).to(input.dtype)


@public
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Counts of events that happen at the rates in input: by inversion of sums of probabilities."""
    rates = concrete(input, "poisson() is computed by NumPy").astype(np.float64)
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"poisson_cpu" not implemented for {input.dtype}')
    if (rates < 0).any():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    drawn = random.rand(tuple(input.shape), generator=generator, dtype=dtypes.float64, device=input.device)
    found = _inverted(host_array(drawn._data), np.zeros(rates.shape), rates)
    return beside(new_tensor(found.astype(input.dtype.numpy)), input)


def _inverted(uniform: np.ndarray, counts: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """The count at which the cumulated probabilities pass a uniform number; above 500 a normal approximation."""
    large = rates > 500
    small = np.where(large, 0.0, rates)
    probability = np.exp(-small)
    total = probability.copy()
    waiting = uniform > total
    step = 0
    while waiting.any() and step < 2000:
        step += 1
        probability = probability * small / step
        counts = counts + waiting
        total = total + probability
        waiting &= uniform > total
    angle = np.vectorize(_normal_quantile, otypes=[np.float64])(uniform) if large.any() else 0.0
    return np.where(large, np.maximum(np.round(rates + np.sqrt(rates) * angle), 0), counts)


def _normal_quantile(u: float) -> float:
    """The point of the standard normal distribution below which a part u lies, by bisection."""
    low, high = -9.0, 9.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if 0.5 * math.erfc(-middle / math.sqrt(2)) < u else (low, middle)
    return low


@public
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed with these probabilities."""
    counts = concrete(count, "binomial() is computed by NumPy").astype(np.float64)
    chances = concrete(prob, "binomial() is computed by NumPy").astype(np.float64)
    shape = np.broadcast_shapes(counts.shape, chances.shape)
    trials = int(counts.max()) if counts.size else 0
    uniform = random.rand((trials, *shape), generator=generator, dtype=dtypes.float64, device=count.device)
    number = np.arange(trials).reshape(-1, *(1,) * len(shape))
    successes = ((host_array(uniform._data) < chances) & (number < counts)).sum(0).reshape(shape)
    return beside(new_tensor(successes.astype(count.dtype.numpy)), count)


# -- in place ---------------------------------------------------------------------------------------------------------


def _uniform(self: Tensor, name: str, generator: Generator | None) -> Tensor:
    """Uniform numbers in (0, 1] of the tensor's shape."""
    if not self.dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {self.dtype}')
    return 1.0 - random.rand(tuple(self.shape), generator=generator, dtype=self.dtype, device=self.device)


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
    drawn = random.randn(tuple(self.shape), generator=generator, dtype=self.dtype)
    return self.copy_((drawn * std + mean).exp())


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of trials, each a success with probability p, up to the first success."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    drawn = 1.0 - random.rand(tuple(self.shape), generator=generator, dtype=dtypes.float64)
    return self.copy_((drawn.log() / math.log1p(-p)).ceil().clamp(min=1.0))


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
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return self.copy_(random.randint(low, high, tuple(self.shape), generator=generator))
