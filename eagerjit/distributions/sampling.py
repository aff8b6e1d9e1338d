"""Random numbers that no formula of uniform ones gives: by NumPy's samplers, from a seed of the default stream.

Gradients of gamma samples are implicit: at a fixed probability F(x; a), dx/da = -(dF/da) / (dF/dx).
Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients, NeurIPS 2018.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.ops.host import HostOp, broadcast, like
from eagerjit.tensor import Tensor

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_TERMS = 4000


def _generator(seed: np.ndarray) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(int(seed)))


def _gamma(concentration: np.ndarray, seed: np.ndarray) -> np.ndarray:
    drawn = _generator(seed).standard_gamma(concentration.astype(np.float64))
    tiny = float(np.finfo(np.float64 if concentration.dtype.itemsize == 8 else np.float32).tiny)
    return np.maximum(drawn, tiny).astype(concentration.dtype)


def _digamma(x: np.ndarray) -> np.ndarray:
    """The derivative of log(gamma(x)) for x > 0: moved up by 8, then the asymptotic series."""
    total = sum(1.0 / (x + i) for i in range(8))
    y = x + 8.0
    square = 1.0 / (y * y)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132))))
    return np.log(y) - 0.5 / y - series - total


def _gamma_slope(concentration: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """dx/da for samples x of gamma(a)."""
    a = concentration.astype(np.float64).reshape(-1)
    x = sample.astype(np.float64).reshape(-1)
    out = np.empty_like(x)
    lower = x < a + 2.0 * np.sqrt(a) + 2.0
    out[lower] = _lower(a[lower], x[lower])
    out[~lower] = _upper(a[~lower], x[~lower])
    return out.reshape(sample.shape).astype(sample.dtype)


def _lower(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """From the power series of the lower incomplete gamma function, all terms divided by the density."""
    total, ratio = np.zeros_like(x), x / a
    slope = np.log(x) - _digamma(a + 1.0)
    for n in range(_TERMS):
        term = ratio * slope
        total -= term
        if n > 8 and np.all((np.abs(term) <= 1e-15 * np.abs(total)) & (ratio < 1e-3 * (1 + np.abs(total)))):
            break
        slope = slope - 1.0 / (a + n + 1.0)
        ratio = ratio * x / (a + n + 1.0)
    return total


def _upper(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """From the integral of the upper incomplete gamma function, by Gauss and Legendre's rule over where it is not 0."""
    length = 9.0 * np.sqrt(x) + 60.0
    s = (_NODES[:, None] + 1.0) * 0.5 * length
    density = np.exp((a - 1.0) * np.log1p(s / x) - s)
    return 0.5 * length * (_WEIGHTS[:, None] * density * (np.log(x + s) - _digamma(a))).sum(0)


_slope_op = HostOp(
    "gamma_slope", _gamma_slope, differentiable=False, types=broadcast, on_host="draws again until a draw is accepted"
)


def _gamma_rule(g: Any, out: Any, concentration: Any, seed: Any) -> Any:
    return g * _slope_op.call(concentration.detach(), out.detach())


_gamma_op = HostOp(
    "standard_gamma", _gamma, (_gamma_rule, None), types=like, on_host="draws again until a draw is accepted"
)


def standard_gamma(concentration: Tensor, seed: Tensor) -> Tensor:
    """Samples of gamma distributions of rate 1, through which gradients flow to the concentration."""
    return _gamma_op.call(concentration, seed)


def _poisson(rate: np.ndarray, seed: np.ndarray) -> np.ndarray:
    drawn = _generator(seed).poisson(np.where(rate >= 0, rate, 0).astype(np.float64))
    return np.where(rate >= 0, drawn, np.nan).astype(rate.dtype)


_poisson_op = HostOp(
    "poisson_samples", _poisson, differentiable=False, types=like, on_host="draws again until a draw is accepted"
)


def poisson(rate: Tensor, seed: Tensor) -> Tensor:
    """Samples of Poisson distributions."""
    return _poisson_op.call(rate, seed)


def _binomial(count: np.ndarray, probability: np.ndarray, seed: np.ndarray) -> np.ndarray:
    drawn = _generator(seed).binomial(count.astype(np.int64), probability.astype(np.float64))
    return drawn.astype(probability.dtype)


def _like_second(count: Any, probability: Any, seed: Any) -> Any:
    return probability.dtype, probability.shape


_binomial_op = HostOp(
    "binomial_samples",
    _binomial,
    differentiable=False,
    types=_like_second,
    on_host="draws again until a draw is accepted",
)


def binomial(count: Tensor, probability: Tensor, seed: Tensor) -> Tensor:
    """Samples of binomial distributions."""
    return _binomial_op.call(count, probability, seed)


def _von_mises(loc: np.ndarray, concentration: np.ndarray, seed: np.ndarray) -> np.ndarray:
    drawn = _generator(seed).vonmises(0.0, concentration.astype(np.float64))
    return ((drawn + loc + np.pi) % (2 * np.pi) - np.pi).astype(loc.dtype)


_von_mises_op = HostOp(
    "von_mises_samples", _von_mises, differentiable=False, types=like, on_host="draws again until a draw is accepted"
)


def von_mises(loc: Tensor, concentration: Tensor, seed: Tensor) -> Tensor:
    """Samples of von Mises' distributions, from -pi to pi."""
    return _von_mises_op.call(loc, concentration, seed)
