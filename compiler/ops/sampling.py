"""Random numbers of distributions that no formula gives, and slopes of gamma numbers, in NumPy.

The draws are those of `compiler/codegen/rejection.py`; each element's numbers begin at the bits of a uniform number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.compiler.ops.elementwise import declare_elementwise

STEP, FIRST, SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
ROUNDS = 1000
_log_factorial = np.vectorize(lambda k: math.lgamma(k + 1.0), otypes=[np.float64])


class _Numbers:
    """SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) for each of several elements."""

    def __init__(self, start: np.ndarray):
        self.state = np.array(start, np.float64).view(np.uint64)

    def next(self) -> np.ndarray:
        """A number within (0, 1) for each."""
        self.state = self.state + STEP
        z = self.state
        z = (z ^ (z >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        bits = ((z ^ (z >> np.uint64(31))) >> np.uint64(12)) | np.uint64(0x3FF << 52)
        return bits.view(np.float64) - (1.0 - 2.0**-53)

    def accepted(self, out: np.ndarray, wanted: np.ndarray, draw: Callable[[], tuple[Any, Any]]) -> np.ndarray:
        """`out` with the first numbers that were accepted where they are wanted."""
        for _ in range(ROUNDS):
            if not wanted.any():
                break
            value, fine = draw()
            out = np.where(wanted, value, out)
            wanted = wanted & ~fine
        return out


def _in_double(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A function of flat float64 arrays for broadcast arrays of any floats."""

    def computed(*arrays: np.ndarray) -> np.ndarray:
        wide = np.broadcast_arrays(*(a.astype(np.float64) for a in arrays))
        shape = wide[0].shape
        return function(*(np.ascontiguousarray(w).reshape(-1) for w in wide)).reshape(shape)

    return computed


@_in_double
def _gamma(a: np.ndarray, u: np.ndarray) -> np.ndarray:
    numbers = _Numbers(u)
    first, small = numbers.next(), a < 1.0
    d = np.where(small, a + 1.0, a) - 1.0 / 3.0
    c = 1.0 / (3.0 * np.sqrt(d))

    def draw() -> tuple[np.ndarray, np.ndarray]:
        x, y, w = numbers.next() * 2.0 - 1.0, numbers.next() * 2.0 - 1.0, numbers.next()
        square = x * x + y * y
        normal = x * np.sqrt(np.log(square) * -2.0 / square)
        v = (1.0 + c * normal) ** 3
        bound = normal * normal * 0.5 + d - d * v + d * np.log(v)
        return d * v, (square < 1.0) & (v > 0.0) & (np.log(w) < bound)

    drawn = numbers.accepted(np.where(a < 0.0, np.nan, a * 0.0), (a > 0.0) & (a < np.inf), draw)
    return np.where(small, drawn * np.exp(np.log(first) / a), drawn)


@_in_double
def _von_mises(k: np.ndarray, u: np.ndarray) -> np.ndarray:
    numbers = _Numbers(u)
    first = numbers.next()
    usual = (k >= 0.0) & (k < np.inf)
    k = np.where(usual, np.clip(k, 1e-30, 1e30), 1.0)
    root = np.sqrt(1.0 + 4.0 * k * k)
    tau = root + 1.0
    below = tau + np.sqrt(2.0 * tau)
    rho, rest = 2.0 * k / below, (1.0 / (root + 2.0 * k) + 1.0 + np.sqrt(2.0 * tau)) / below
    above = rest * rest / (2.0 * rho)

    def draw() -> tuple[np.ndarray, np.ndarray]:
        x, y, w = numbers.next() * 2.0 - 1.0, numbers.next() * 2.0 - 1.0, numbers.next()
        square = x * x + y * y
        z = x / np.sqrt(square)
        versine = above * (1.0 - z) / (above + 1.0 + z)
        c = k * (above + versine)
        return versine, (square < 1.0) & ((c * (2.0 - c) > w) | (np.log(c / w) + 1.0 >= c))

    angle = 2.0 * np.arcsin(np.sqrt(numbers.accepted(k * 0.0, usual, draw) * 0.5))
    return np.where(usual, np.where(first < 0.5, -angle, angle), np.nan)


def _transformed(numbers: _Numbers, slant: Any, width: Any, centre: Any) -> tuple[Any, Any, Any]:
    """(a count, distance from the end, a number)."""
    u, v = numbers.next() - 0.5, numbers.next()
    us = 0.5 - np.abs(u)
    return np.floor((2.0 * slant / us + width) * u + centre), us, v


def _counted(u: np.ndarray, probability: np.ndarray, ratio: Callable[[float], np.ndarray]) -> np.ndarray:
    """The count at which cumulated probabilities pass u."""
    count, total = np.zeros_like(u), probability
    for k in range(1, ROUNDS + 1):
        waiting = u > total
        if not waiting.any():
            break
        count = np.where(waiting, float(k), count)
        probability = probability * ratio(float(k))
        total = total + probability
    return count


@_in_double
def _poisson(rate: np.ndarray, u: np.ndarray) -> np.ndarray:
    numbers = _Numbers(u)
    usual = (rate >= 0.0) & (rate < np.inf)
    few = np.where(usual & (rate < 10.0), rate, 0.0)
    counted = _counted(numbers.next(), np.exp(-few), lambda k: few / k)
    many = usual & (rate >= 10.0)
    mean = np.where(many, rate, 10.0)
    width = 0.931 + 2.53 * np.sqrt(mean)
    slant = -0.059 + 0.02483 * width
    area, sure = np.log(1.1239 + 1.1328 / (width - 3.4)), 0.9277 - 3.6224 / (width - 2.0)

    def draw() -> tuple[np.ndarray, np.ndarray]:
        k, us, v = _transformed(numbers, slant, width, mean + 0.43)
        left = np.log(v) + area - np.log(slant / (us * us) + width)
        likely = left <= k * np.log(mean) - mean - _log_factorial(np.maximum(k, 0.0))
        return k, ((us >= 0.07) & (v <= sure)) | ((k >= 0.0) & likely)

    return np.where(usual, numbers.accepted(counted, many, draw), np.nan)


@_in_double
def _binomial(count: np.ndarray, probability: np.ndarray, u: np.ndarray) -> np.ndarray:
    numbers = _Numbers(u)
    usual = (count < np.inf) & (probability == probability)
    n = np.where(usual & (count > 0.0), np.floor(count), 0.0)
    given = np.where(usual, np.clip(probability, 0.0, 1.0), 0.0)
    p = np.where(given > 0.5, 1.0 - given, given)
    many = n * p >= 10.0
    start = np.exp(np.where(many, 0.0, n) * np.log1p(-p))
    counted = _counted(numbers.next(), start, lambda k: np.where(k > n, 0.0, (n + 1.0 - k) / k * (p / (1.0 - p))))
    trials, chance = np.where(many, n, 20.0), np.where(many, p, 0.5)
    deviation = np.sqrt(trials * chance * (1.0 - chance))
    width = 1.15 + 2.53 * deviation
    slant = -0.0873 + 0.0248 * width + 0.01 * chance
    area, sure = np.log((2.83 + 5.1 / width) * deviation), 0.92 - 4.2 / width
    mode = np.floor((trials + 1.0) * chance)
    highest = _log_factorial(mode) + _log_factorial(trials - mode)

    def draw() -> tuple[np.ndarray, np.ndarray]:
        k, us, v = _transformed(numbers, slant, width, trials * chance + 0.5)
        left = np.log(v) + area - np.log(slant / (us * us) + width)
        within = (k >= 0.0) & (k <= trials)
        inside = np.where(within, k, 0.0)
        rest = highest - _log_factorial(inside) - _log_factorial(trials - inside)
        likely = left <= rest + (k - mode) * np.log(chance / (1.0 - chance))
        return k, ((us >= 0.07) & (v <= sure)) | (within & likely)

    drawn = numbers.accepted(counted, many, draw)
    return np.where(usual, np.where(given > 0.5, n - drawn, drawn), np.nan)


def _series_slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    term, harmonic, total = 1.0 / a, 0.0 * a, 0.0 * a * x
    for n in range(1, 5000):
        term, harmonic = term * x / (a + n), harmonic + 1.0 / (a + n)
        following = total + term * harmonic
        if (following == total).all():
            break
        total = following
    return total


def _fraction_slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """By the derivative of each convergent, from the last one back."""
    value = slope = 0.0 * (a + x)
    for n in range(400, 0, -1):
        above, below = n * (a - n), x + 1.0 - a + 2.0 * n + value
        value, slope = above / below, n / below - above / (below * below) * (slope - 1.0)
    below = x + 1.0 - a + value
    return -(slope - 1.0) / (below * below)


def _declared(name: str, arity: int, reference: Any, doc: str, domain: tuple[float, float] = (0.5, 4.0)) -> Any:
    return declare_elementwise(name, arity, reference, (), doc, promotion="", domain=domain, cost=600)


gamma_draw = _declared("gamma_draw", 2, _gamma, "A gamma number of shape a, from a uniform number.")
von_mises_draw = _declared("von_mises_draw", 2, _von_mises, "An angle around 0 of a concentration, from a number.")
poisson_draw = _declared("poisson_draw", 2, _poisson, "A count of events at a rate, from a uniform number.")
binomial_draw = _declared("binomial_draw", 3, _binomial, "Successes among trials of a probability, from a number.")
gamma_series_slope = _declared(
    "gamma_series_slope", 2, _series_slope, "x/(a(a+1)) * 1/(a+1) + x²/(a(a+1)(a+2)) * (1/(a+1) + 1/(a+2)) + ..."
)
gamma_fraction_slope = _declared(
    "gamma_fraction_slope", 2, _fraction_slope, "The slope of gamma_fraction in a.", (0.5, 1.3)
)
