"""Division of floats to whole quotients: exact remainders by repeated subtraction of multiples."""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import Value
from eagerjit.compiler.codegen.numeric import INF, NAN, magnitude, with_sign


def fmod(a: Value, c: Value) -> Value:
    """The exact remainder of a / c with the sign of a; NaN for an infinite a or a zero c."""
    b = a.builder
    a, c = b.align(a, c)
    divisor = magnitude(c)
    valid = (magnitude(a) < INF) & (divisor > 0.0)
    start = b.select(valid, magnitude(a), 0.0)
    rest = _subtract_multiples(start, b.select(valid, divisor, 1.0))
    result = b.select(divisor.eq(INF), a, with_sign(rest, a))
    return b.select(valid | a.is_nan() | c.is_nan(), b.select(a.is_nan() | c.is_nan(), a + c, result), NAN)


def _subtract_multiples(rest: Value, divisor: Value) -> Value:
    """rest mod divisor for rest >= 0, divisor > 0.

    rest - n * divisor with n = trunc(rest / divisor) as rounded is exact in one fused multiply-add, since it is so much
    smaller than rest (a large power of two times the divisor stands in where n would overflow). It may be negative; it
    is within the divisor when the quotient was small, else the loop goes on.
    """
    b = rest.builder
    huge = 2.0 ** (100 if rest.dtype == "f32" else 1000)

    def step(left: Value) -> tuple[list[Value], Value]:
        size = magnitude(left)
        unit = divisor
        for _ in range(2):
            unit = b.select(size * (1.0 / huge) > unit, unit * huge, unit)
        n = b.intrinsic("trunc", left / unit)
        remaining = b.fma(-n, unit, left)
        return [remaining], magnitude(remaining) >= divisor

    (remaining,) = b.repeat((rest,), step)
    return b.select(remaining < 0.0, remaining + divisor, remaining)


def remainder(a: Value, c: Value) -> Value:
    """a - floor(a / c) * c, with the sign of c."""
    b = a.builder
    rest = fmod(a, c)
    return b.select(rest.ne(0.0) & ((c < 0.0).ne(rest < 0.0)), rest + c, rest)


def floor_divide(a: Value, c: Value) -> Value:
    """floor(a / c), exact where a / c itself would round up to a whole number."""
    b = a.builder
    rest = fmod(a, c)
    quotient = (a - rest) / c
    quotient = b.select(rest.ne(0.0) & ((c < 0.0).ne(rest < 0.0)), quotient - 1.0, quotient)
    floor = b.intrinsic("floor", quotient)
    floor = b.select(quotient - floor > 0.5, floor + 1.0, floor)
    plain = a / c
    floor = b.select(quotient.ne(0.0), floor, with_sign(b.constant(a.dtype, 0.0), plain))
    return b.select(c.eq(0.0), plain, floor)
