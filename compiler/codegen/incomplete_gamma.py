"""What incomplete gamma functions are made of: a power series and a continued fraction, of as many terms as it takes.

Their slopes in the first argument are computed term by term beside them.

A lane that is done keeps what it has, so that no result depends on its neighbours.
"""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import Value

TERMS = 5000.0
"""The most terms that are followed: arguments of about 10^6 need so many."""

EPSILON = {"f32": 2.0**-23, "f64": 2.0**-52}
"""A fraction's factor that is as near to 1 is the last."""

TINY = 1e-30
"""Stands for a zero that would be divided by."""


def series(a: Value, x: Value) -> Value:
    """1/a + x/(a(a+1)) + x²/(a(a+1)(a+2)) + ..., until the sum stays what it is."""
    b = a.builder
    a, x = b.align(a, x)
    first = 1.0 / a

    def step(count: Value, term: Value, total: Value, more: Value) -> tuple[list[Value], Value]:
        n = count + 1.0
        following = term * x / (a + n)
        larger = total + following
        going = more.ne(0.0) & larger.ne(total) & larger.eq(larger) & (n < TERMS)
        return [n, following, b.select(more.ne(0.0), larger, total), flag(going, total)], going

    zero, one = (b.broadcast(b.constant(a.dtype, v), a.lanes) for v in (0.0, 1.0))
    return b.repeat((zero, first, first, one), step)[2]


def fraction(a: Value, x: Value) -> Value:
    """1/(x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))) by Lentz's method, until a factor is 1."""
    b = a.builder
    a, x = b.align(a, x)
    start = x + 1.0 - a
    inverse = 1.0 / _nonzero(start)

    def step(n: Value, c: Value, d: Value, total: Value, more: Value) -> tuple[list[Value], Value]:
        numerator = n * (a - n)
        denominator = start + n * 2.0
        below = 1.0 / _nonzero(numerator * d + denominator)
        above = _nonzero(denominator + numerator / c)
        factor = below * above
        following = total * factor
        going = more.ne(0.0) & (b.intrinsic("fabs", factor - 1.0) > EPSILON[a.dtype]) & (n < TERMS)
        return [n + 1.0, above, below, b.select(more.ne(0.0), following, total), flag(going, total)], going

    one, large = (b.broadcast(b.constant(a.dtype, v), a.lanes) for v in (1.0, 1.0 / TINY))
    return b.repeat((one, large, inverse, inverse, one), step)[3]


def series_slope(a: Value, x: Value) -> Value:
    """The sum over n of x^n/(a(a+1)...(a+n)) * (1/(a+1) + ... + 1/(a+n)), until it stays what it is.

    With 1/a times the series it is what the series falls by where a grows.
    """
    b = a.builder
    a, x = b.align(a, x)

    def step(n: Value, term: Value, harmonic: Value, total: Value, more: Value) -> tuple[list[Value], Value]:
        n = n + 1.0
        below = a + n
        term, harmonic = term * x / below, harmonic + 1.0 / below
        larger = total + term * harmonic
        going = more.ne(0.0) & larger.ne(total) & larger.eq(larger) & (n < TERMS)
        return [n, term, harmonic, b.select(more.ne(0.0), larger, total), flag(going, total)], going

    zero, one = (b.broadcast(b.constant(a.dtype, v), a.lanes) for v in (0.0, 1.0))
    return b.repeat((zero, 1.0 / a, zero, zero, one), step)[3]


def fraction_slope(a: Value, x: Value) -> Value:
    """The derivative of `fraction` in a: every step of Lentz's method with its own, until neither changes."""
    b = a.builder
    a, x = b.align(a, x)
    start = x + 1.0 - a
    inverse = 1.0 / _nonzero(start)

    def step(*carried: Value) -> tuple[list[Value], Value]:
        n, c, c_slope, d, d_slope, total, slope, more = carried
        numerator, denominator = n * (a - n), start + n * 2.0
        below = 1.0 / _nonzero(numerator * d + denominator)
        below_slope = (1.0 - n * d - numerator * d_slope) * below * below
        above = _nonzero(denominator + numerator / c)
        above_slope = (n - numerator * c_slope / c) / c - 1.0
        factor = below * above
        following = slope * factor + total * (below_slope * above + below * above_slope)
        change = b.intrinsic("fabs", following - slope) > b.intrinsic("fabs", following) * EPSILON[a.dtype]
        change = change | (b.intrinsic("fabs", factor - 1.0) > EPSILON[a.dtype])
        on = more.ne(0.0)
        going = on & change & (n < TERMS)
        after = [b.select(on, total * factor, total), b.select(on, following, slope)]
        return [n + 1.0, above, above_slope, below, below_slope, *after, flag(going, total)], going

    zero, one, large = (b.broadcast(b.constant(a.dtype, v), a.lanes) for v in (0.0, 1.0, 1.0 / TINY))
    square = inverse * inverse
    return b.repeat((one, large, zero, inverse, square, inverse, square, one), step)[6]


def flag(condition: Value, like: Value) -> Value:
    """A condition as a number, which a loop can carry."""
    b = like.builder
    return b.select(condition, b.constant(like.dtype, 1.0), 0.0)


def _nonzero(x: Value) -> Value:
    return x.builder.select(x.eq(0.0), TINY, x)
