"""sin, cos and tan.

Multiples of pi/2 are subtracted in three steps that keep the remainder as a sum of two, then polynomials give its sine
and cosine. Arguments too large for that are rare: their lanes go one by one through `huge_argument`.
"""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import Value
from eagerjit.compiler.codegen.exponentials import quotient
from eagerjit.compiler.codegen.huge_argument import large_lanes
from eagerjit.compiler.codegen.numeric import flip_sign, polynomial, two_sum, two_sum_any

HALF_PI = {
    "f32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "f64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
LARGEST = {"f32": 100000.0, "f64": 1e9}
# (sin(r) - r) / r^3 in r^2, up to pi/4
SIN = {
    "f32": (-0.16666655242443085, 0.008332176133990288, -0.000195169763173908),
    "f64": (
        -0.16666666666666666, 0.008333333333333323, -0.00019841269841255064, 2.755731921418804e-06,
        -2.505210491095133e-08, 1.6058366544583212e-10, -7.578693669794688e-13,
    ),
}  # fmt: skip
# (cos(r) - 1 + r^2/2) / r^4 in r^2, up to pi/4
COS = {
    "f32": (0.04166664555668831, -0.0013887364184483886, 2.4438109903712757e-05),
    "f64": (
        0.0416666666666666, -0.0013888888888874064, 2.480158728944363e-05, -2.7557314340703003e-07,
        2.087572162947098e-09, -1.1359559614173035e-11,
    ),
}  # fmt: skip


def _round_shifter(x: Value) -> float:
    """Adding it leaves the nearest whole number in the low bits."""
    return 1.5 * 2.0 ** (23 if x.dtype == "f32" else 52)


def _reduce(x: Value) -> tuple[Value, Value, Value]:
    """The number n of quarter turns in x, in the low bits of an integer; x - n pi/2 as an unevaluated sum of two."""
    b, unit, shifter = x.builder, HALF_PI[x.dtype], _round_shifter(x)
    shifted = b.fma(x, 0.6366197723675814, shifter)
    n = shifted - shifter
    first = b.fma(n, -unit[0], x)
    product = n * -unit[1]
    product_low = b.fma(n, -unit[1], -product)
    r, low = two_sum_any(first, product)
    return shifted.bitcast("u32" if x.dtype == "f32" else "u64"), r, low + b.fma(n, -unit[2], product_low)


def sin_of(r: Value, low: Value) -> tuple[Value, Value]:
    """sin(r + low) for |r| up to pi/4, as a sum of two."""
    b = r.builder
    square = r * r
    return r, b.fma(square * r, polynomial(square, SIN[r.dtype]), low)


def cos_of(r: Value, low: Value) -> tuple[Value, Value]:
    """cos(r + low) for |r| up to pi/4, as a sum of two."""
    b = r.builder
    square = r * r
    half = square * 0.5
    start, start_low = two_sum(b.constant(r.dtype, 1.0), -half)
    return start, start_low + b.fma(square * square, polynomial(square, COS[r.dtype]), -(r * low))


def _wave(n: Value, r: Value, low: Value) -> Value:
    """sin(n pi/2 + r + low)."""
    b = r.builder
    (sine, sine_low), (cosine, cosine_low) = sin_of(r, low), cos_of(r, low)
    odd = (n & 1).ne(0)
    return flip_sign(b.select(odd, cosine, sine) + b.select(odd, cosine_low, sine_low), n >> 1)


def _cosine(n: Value, r: Value, low: Value) -> Value:
    """cos(n pi/2 + r + low)."""
    return _wave(n + 1, r, low)


def sin(x: Value) -> Value:
    """Sine of an angle in radians."""
    result = _wave(*_reduce(x))
    return large_lanes("sin", x, x.builder.select(x.eq(0.0), x, result), LARGEST[x.dtype], _wave)


def cos(x: Value) -> Value:
    """Cosine of an angle in radians."""
    n, r, low = _reduce(x)
    return large_lanes("cos", x, _cosine(n, r, low), LARGEST[x.dtype], _cosine)


def tan_of(n: Value, r: Value, low: Value) -> Value:
    """tan(n pi/2 + r + low): sin/cos, or -cos/sin after an odd number of quarter turns."""
    b = r.builder
    (sine, sine_low), (cosine, cosine_low) = (two_sum(*parts) for parts in (sin_of(r, low), cos_of(r, low)))
    # The rounding error of r*r in the cosine matters here.
    cosine_low = b.fma(b.fma(r, r, -(r * r)), -0.5, cosine_low)
    odd = (n & 1).ne(0)
    numerator, numerator_low = b.select(odd, -cosine, sine), b.select(odd, -cosine_low, sine_low)
    return quotient(numerator, numerator_low, b.select(odd, sine, cosine), b.select(odd, sine_low, cosine_low))


def tan(x: Value) -> Value:
    """Tangent of an angle in radians (f64)."""
    result = tan_of(*_reduce(x))
    return large_lanes("tan", x, x.builder.select(x.eq(0.0), x, result), LARGEST["f64"], tan_of)
