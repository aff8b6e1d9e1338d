"""Random numbers that are drawn until one is accepted: gamma, Poisson and binomial ones and angles, computed in f64.

Every element draws from numbers of its own: those of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), begun at the bits
of a uniform number that comes with it. An element that has accepted keeps what it has, so that none depends on others.
"""

from __future__ import annotations

from collections.abc import Callable

from eagerjit.compiler.codegen.arcs import asin
from eagerjit.compiler.codegen.builder import Value
from eagerjit.compiler.codegen.exponentials import exp
from eagerjit.compiler.codegen.incomplete_gamma import flag
from eagerjit.compiler.codegen.logarithms import log, log1p
from eagerjit.compiler.codegen.numeric import NAN, clamp

STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""The generator's increment and multipliers."""
ROUNDS = 1000.0
"""The most draws: each is accepted with a probability above 1/2, so this many are never needed."""
FEW = 10.0
"""Means below are found by adding up probabilities, those above by rejection from a transformed uniform number."""
LOG_SQRT_TAU = 0.9189385332046727
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680)
SHIFT = 8


def _wide(function: Callable[..., Value]) -> Callable[..., Value]:
    """A function of f64 values for any floats."""

    def computed(*operands: Value) -> Value:
        b, dtype = operands[0].builder, operands[0].dtype
        operands = b.align(*operands)
        if dtype == "f64":
            return function(*operands)
        return b.convert("fptrunc", function(*(b.convert("fpext", v, "f64") for v in operands)), dtype)

    return computed


def _next(state: Value) -> tuple[Value, Value]:
    """The state after a draw; a uniform number within (0, 1): an odd multiple of 2^-53."""
    b = state.builder
    state = state + b.constant("u64", STEP)
    z = (state ^ (state >> 30)) * b.constant("u64", FIRST)
    z = (z ^ (z >> 27)) * b.constant("u64", SECOND)
    bits = ((z ^ (z >> 31)) >> 12) | b.constant("u64", 0x3FF << 52)
    return state, bits.bitcast("f64") - (1.0 - 2.0**-53)


def _accepted(
    state: Value, start: Value, wanted: Value, draw: Callable[[Value], tuple[Value, Value, Value]]
) -> Value:
    """The first number that `draw` (state -> the next one, a number, whether it is accepted) has accepted.

    `start` where none is wanted.
    """
    b = state.builder

    def step(state: Value, count: Value, value: Value, more: Value) -> tuple[list[Value], Value]:
        following, drawn, accepted = draw(state)
        going = more.ne(0.0) & ~accepted & (count < ROUNDS)
        return [following, count + 1.0, b.select(more.ne(0.0), drawn, value), flag(going, value)], going

    zero = b.broadcast(b.constant("f64", 0.0), state.lanes)
    return b.repeat((state, zero, start, flag(wanted, start)), step)[2]


@_wide
def gamma(a: Value, u: Value) -> Value:
    """Gamma numbers of shape a; NaN where it is none.

    Marsaglia and Tsang, A Simple Method for Generating Gamma Variables, 2000.
    """
    b = a.builder
    state, first = _next(u.bitcast("u64"))
    small = a < 1.0
    d = b.select(small, a + 1.0, a) - 1.0 / 3.0
    c = 1.0 / (3.0 * b.intrinsic("sqrt", d))

    def draw(state: Value) -> tuple[Value, Value, Value]:
        (state, x), (state, y), (state, w) = _several(state, 3)
        x, y = x * 2.0 - 1.0, y * 2.0 - 1.0
        square = x * x + y * y
        normal = x * b.intrinsic("sqrt", log(square) * -2.0 / square)
        v = 1.0 + c * normal
        v = v * v * v
        bound = normal * normal * 0.5 + d - d * v + d * log(v)
        return state, d * v, (square < 1.0) & (v > 0.0) & (log(w) < bound)

    drawn = _accepted(state, b.select(a < 0.0, NAN, a * 0.0), (a > 0.0) & (a < float("inf")), draw)
    return b.select(small, drawn * exp(log(first) / a), drawn)


@_wide
def von_mises(k: Value, u: Value) -> Value:
    """Angles around 0 of concentration k, from -pi to pi; NaN where it is none. Differences are kept from cancelling.

    Best and Fisher, Efficient Simulation of the von Mises Distribution, 1979.
    """
    b = k.builder
    state, first = _next(u.bitcast("u64"))
    usual = (k >= 0.0) & (k < float("inf"))
    k = b.select(usual, clamp(k, 1e-30, 1e30), 1.0)
    root = b.intrinsic("sqrt", 1.0 + 4.0 * k * k)
    tau = root + 1.0
    below = tau + b.intrinsic("sqrt", 2.0 * tau)
    rho = 2.0 * k / below
    rest = (1.0 / (root + 2.0 * k) + 1.0 + b.intrinsic("sqrt", 2.0 * tau)) / below
    above = rest * rest / (2.0 * rho)

    def draw(state: Value) -> tuple[Value, Value, Value]:
        (state, x), (state, y), (state, w) = _several(state, 3)
        x, y = x * 2.0 - 1.0, y * 2.0 - 1.0
        square = x * x + y * y
        z = x / b.intrinsic("sqrt", square)
        versine = above * (1.0 - z) / (above + 1.0 + z)
        c = k * (above + versine)
        likely = (c * (2.0 - c) > w) | (log(c / w) + 1.0 >= c)
        return state, versine, (square < 1.0) & likely

    versine = _accepted(state, k * 0.0, usual, draw)
    angle = 2.0 * asin(b.intrinsic("sqrt", versine * 0.5))
    return b.select(usual, b.select(first < 0.5, -angle, angle), NAN)


@_wide
def poisson(rate: Value, u: Value) -> Value:
    """Counts of a rate; NaN where it is none: by adding up probabilities, or Hörmann's PTRS.

    Hörmann, The Transformed Rejection Method for Generating Poisson Random Variables, 1993.
    """
    b = rate.builder
    state, first = _next(u.bitcast("u64"))
    usual = (rate >= 0.0) & (rate < float("inf"))
    few = usual & (rate < FEW)
    start = b.select(few, rate, 0.0)
    counted = _counted(first, exp(-start), lambda k: start / k)
    many = usual & (rate >= FEW)
    mean = b.select(many, rate, FEW)
    deviation, logarithm = b.intrinsic("sqrt", mean), log(mean)
    width = 0.931 + 2.53 * deviation
    slant = -0.059 + 0.02483 * width
    area = log(1.1239 + 1.1328 / (width - 3.4))
    sure = 0.9277 - 3.6224 / (width - 2.0)

    def draw(state: Value) -> tuple[Value, Value, Value]:
        state, k, inner, us, v = _transformed(state, slant, width, mean + 0.43)
        left = log(v) + area - log(slant / (us * us) + width)
        likely = left <= k * logarithm - mean - _log_factorial(k)
        return state, k, (inner & (v <= sure)) | ((k >= 0.0) & likely)

    drawn = _accepted(state, counted, many, draw)
    return b.select(usual, drawn, NAN)


@_wide
def binomial(count: Value, probability: Value, u: Value) -> Value:
    """Successes among trials: by adding up probabilities, or Hörmann's BTRS. Numbers are cut to what makes sense.

    Hörmann, The Generation of Binomial Random Variates, 1993.
    """
    b = count.builder
    state, first = _next(u.bitcast("u64"))
    usual = (count < float("inf")) & probability.eq(probability)
    n = b.select(usual & (count > 0.0), b.intrinsic("floor", count), 0.0)
    given = b.select(usual, clamp(probability, 0.0, 1.0), 0.0)
    swapped = given > 0.5
    p = b.select(swapped, 1.0 - given, given)
    odds = p / (1.0 - p)
    many = n * p >= FEW
    start = exp(b.select(many, 0.0, n) * log1p(-p))
    counted = _counted(first, start, lambda k: b.select(k > n, 0.0, (n + 1.0 - k) / k * odds))
    trials, chance = b.select(many, n, 2.0 * FEW), b.select(many, p, 0.5)
    deviation = b.intrinsic("sqrt", trials * chance * (1.0 - chance))
    width = 1.15 + 2.53 * deviation
    slant = -0.0873 + 0.0248 * width + 0.01 * chance
    area = log((2.83 + 5.1 / width) * deviation)
    sure = 0.92 - 4.2 / width
    mode = b.intrinsic("floor", (trials + 1.0) * chance)
    logarithm = log(chance / (1.0 - chance))
    highest = _log_factorial(mode) + _log_factorial(trials - mode)

    def draw(state: Value) -> tuple[Value, Value, Value]:
        state, k, inner, us, v = _transformed(state, slant, width, trials * chance + 0.5)
        left = log(v) + area - log(slant / (us * us) + width)
        within = (k >= 0.0) & (k <= trials)
        rest = b.select(within, trials - k, 0.0)
        likely = left <= highest - _log_factorial(k) - _log_factorial(rest) + (k - mode) * logarithm
        return state, k, (inner & (v <= sure)) | (within & likely)

    drawn = _accepted(state, counted, many, draw)
    return b.select(usual, b.select(swapped, n - drawn, drawn), NAN)


def _several(state: Value, count: int) -> list[tuple[Value, Value]]:
    """As many draws, each with the state after it."""
    drawn = [_next(state)]
    while len(drawn) < count:
        drawn.append(_next(drawn[-1][0]))
    return drawn


def _transformed(state: Value, slant: Value, width: Value, centre: Value) -> tuple[Value, Value, Value, Value, Value]:
    """(the next state, a count, whether it lies where nearly all are accepted, distance from the end, a number)."""
    b = state.builder
    (_, u), (state, v) = _several(state, 2)
    u = u - 0.5
    us = 0.5 - b.intrinsic("fabs", u)
    k = b.intrinsic("floor", (2.0 * slant / us + width) * u + centre)
    return state, k, us >= 0.07, us, v


def _counted(u: Value, first: Value, ratio: Callable[[Value], Value]) -> Value:
    """The count at which cumulated probabilities pass u: `first` is that of 0, `ratio` leads from k - 1 to k."""
    b = u.builder

    def step(k: Value, probability: Value, total: Value) -> tuple[list[Value], Value]:
        waiting = (u > total) & (k < ROUNDS)
        k = b.select(waiting, k + 1.0, k)
        following = probability * ratio(b.select(waiting, k, 1.0))
        larger = total + following
        probability = b.select(waiting, following, probability)
        return [k, probability, b.select(waiting, larger, total)], waiting & (u > larger)

    zero = b.broadcast(b.constant("f64", 0.0), u.lanes)
    return b.repeat((zero, first, first), step)[0]


def _log_factorial(k: Value) -> Value:
    """log(k!) for k >= 0, by Stirling's series moved up by 8."""
    x = k + float(SHIFT + 1)
    product = k + 1.0
    for i in range(2, SHIFT + 1):
        product = product * (k + float(i))
    inverse = 1.0 / x
    square = inverse * inverse
    series = square * STIRLING[3] + STIRLING[2]
    series = (series * square + STIRLING[1]) * square + STIRLING[0]
    return (x - 0.5) * log(x) - x + LOG_SQRT_TAU + series * inverse - log(product)
