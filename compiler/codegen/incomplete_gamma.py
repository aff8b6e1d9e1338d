"""What incomplete gamma functions are made of: a power series and a continued fraction, of as many terms as it takes.

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
        return [n, following, b.select(more.ne(0.0), larger, total), _flag(going, total)], going

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
        return [n + 1.0, above, below, b.select(more.ne(0.0), following, total), _flag(going, total)], going

    one, large = (b.broadcast(b.constant(a.dtype, v), a.lanes) for v in (1.0, 1.0 / TINY))
    return b.repeat((one, large, inverse, inverse, one), step)[3]


def _flag(condition: Value, like: Value) -> Value:
    """A condition as a number, which a loop can carry."""
    b = like.builder
    return b.select(condition, b.constant(like.dtype, 1.0), 0.0)


def _nonzero(x: Value) -> Value:
    return x.builder.select(x.eq(0.0), TINY, x)
