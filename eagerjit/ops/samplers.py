"""Random numbers that no formula of uniform ones gives: drawn until one is accepted, from a uniform number for each.

Gradients of gamma samples are implicit: at a fixed probability F(x; a), dx/da = -(dF/da) / (dF/dx).
Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients, NeurIPS 2018.
"""

from __future__ import annotations

import math

import numpy as np

from eagerjit import random
from eagerjit.calling.dispatch import Op, emit
from eagerjit.compiler.ops import bits, sampling
from eagerjit.generator import Generator
from eagerjit.ops.conditions import required
from eagerjit.ops.gamma import digamma
from eagerjit.ops.pointwise import as_dtype
from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor


def _wide(x: Tensor) -> Tensor:
    return as_dtype(x, dtypes.float64)


# -- gamma ------------------------------------------------------------------------------------------------------------


def _gamma(concentration: Tensor, u: Tensor) -> Tensor:
    """Gamma numbers of rate 1, none of them 0."""
    dtype = concentration.dtype
    tiny = float(np.finfo(np.float64 if dtype is dtypes.float64 else np.float32).tiny)
    return as_dtype(emit(sampling.gamma_draw, _wide(concentration), u).clamp(min=tiny), dtype)


def _slope(concentration: Tensor, sample: Tensor) -> Tensor:
    """dx/da for samples x of gamma(a): from the series of F, or from the fraction of 1 - F where x is large."""
    a, x = _wide(concentration), _wide(sample)
    near = x < a + 2.0 * a.sqrt() + 2.0
    low_a, low_x, high_a, high_x = a.where(near, 1.0), x.where(near, 1.0), a.where(~near, 1.0), x.where(~near, 5.0)
    series = emit(bits.gamma_series, low_a, low_x) * (low_x.log() - digamma.call(low_a + 1.0))
    low = low_x * (emit(sampling.gamma_series_slope, low_a, low_x) - series)
    fraction = emit(bits.gamma_fraction, high_a, high_x) * (high_x.log() - digamma.call(high_a))
    high = high_x * (emit(sampling.gamma_fraction_slope, high_a, high_x) + fraction)
    return as_dtype(low.where(near, high), sample.dtype)


def _gamma_rule(g: Tensor, out: Tensor, concentration: Tensor, u: Tensor) -> Tensor:
    return g * gamma_slope.call(concentration.detach(), out.detach())


gamma_slope = Op("gamma_slope", _slope, differentiable=False)
_gamma_op = Op("standard_gamma", _gamma, (_gamma_rule, None))


def standard_gamma(concentration: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of gamma distributions of rate 1, through which gradients flow to the concentration."""
    return _gamma_op.call(concentration, _uniform(concentration, generator))  # type: ignore[no-any-return]


def _uniform(like: Tensor, generator: Generator | None) -> Tensor:
    """A uniform number for each element, beside it."""
    return random.rand(tuple(like.shape), generator=generator, dtype=dtypes.float64, device=like.device)


# -- angles -----------------------------------------------------------------------------------------------------------


def _von_mises(loc: Tensor, concentration: Tensor, u: Tensor) -> Tensor:
    """Angles from -pi to pi."""
    drawn = _wide(loc) + emit(sampling.von_mises_draw, _wide(concentration), u)
    return as_dtype((drawn + math.pi) % (2.0 * math.pi) - math.pi, loc.dtype)


_von_mises_op = Op("von_mises_samples", _von_mises, differentiable=False)


def von_mises_samples(loc: Tensor, concentration: Tensor) -> Tensor:
    """Samples of von Mises' distributions, from -pi to pi."""
    return _von_mises_op.call(loc, concentration, _uniform(loc, None))  # type: ignore[no-any-return]


# -- counts -----------------------------------------------------------------------------------------------------------


def _poisson(rate: Tensor, u: Tensor) -> Tensor:
    return as_dtype(emit(sampling.poisson_draw, _wide(rate), u), rate.dtype)


def _poisson_of_rates(input: Tensor, u: Tensor) -> Tensor:
    """Counts of rates, none of which is negative."""
    message = "invalid Poisson rate, expected rate to be non-negative"
    return required((input >= 0.0).all(), _poisson(input, u), "RuntimeError", message)


def _binomial(count: Tensor, probability: Tensor, u: Tensor) -> Tensor:
    return as_dtype(emit(sampling.binomial_draw, _wide(count), _wide(probability), u), probability.dtype)


_poisson_op = Op("poisson_samples", _poisson, differentiable=False)
_checked_poisson_op = Op("poisson", _poisson_of_rates, differentiable=False)
_binomial_op = Op("binomial_samples", _binomial, differentiable=False)


def poisson_samples(rate: Tensor) -> Tensor:
    """Samples of Poisson distributions; NaN where a rate is none."""
    return _poisson_op.call(rate, _uniform(rate, None))  # type: ignore[no-any-return]


def checked_poisson(rate: Tensor, generator: Generator | None) -> Tensor:
    """Samples of Poisson distributions. RuntimeError for a rate that is negative or no number."""
    return _checked_poisson_op.call(rate, _uniform(rate, generator))  # type: ignore[no-any-return]


def binomial_samples(count: Tensor, probability: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of binomial distributions, for numbers of trials and probabilities of one shape."""
    return _binomial_op.call(count, probability, _uniform(probability, generator))  # type: ignore[no-any-return]
