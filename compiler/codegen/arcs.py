"""Inverse trigonometric functions on f64."""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import Value
from eagerjit.compiler.codegen.numeric import INF, magnitude, polynomial, with_sign

PI = (3.141592653589793, 1.2246467991473532e-16)
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
QUARTER_PI = (0.7853981633974483, 3.061616997868383e-17)
TAN_EIGHTH_PI = 0.41421356237309503
# (atan(t)/t - 1) / t^2 in t^2, up to tan(pi/8)
ATAN = (
    -0.33333333333333326, 0.1999999999999767, -0.14285714285388154, 0.11111111088186165, -0.09090908144807767,
    0.07692282764540352, -0.06666226838546306, 0.05877022542512518, -0.05218408876250004, 0.04503566484640248,
    -0.03347482715522588, 0.015195502574876495,
)  # fmt: skip
# (asin(t)/t - 1) / t^2 in t^2, up to 1/2
ASIN = (
    0.16666666666666763, 0.07499999999970088, 0.044642857175295945, 0.03038194267485307, 0.022372215916618306,
    0.01735159532930728, 0.01398102034795335, 0.011397279929945535, 0.010789386247968774, 0.0036719670706529396,
    0.021791118225140977, -0.02111731218524582, 0.032702492132535385,
)  # fmt: skip


def atan(x: Value) -> Value:
    """The angle whose tangent is x."""
    return with_sign(_angle(magnitude(x), x.builder.constant(x.dtype, 1.0)), x)


def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), from -pi to pi."""
    b = x.builder
    a, c = magnitude(y), magnitude(x)
    infinite = a.eq(INF) & c.eq(INF)
    a, c = b.select(infinite, 1.0, a), b.select(infinite, 1.0, c)
    huge = (a > 1e300) | (c > 1e300)
    a, c = b.select(huge, a * 0.25, a), b.select(huge, c * 0.25, c)
    # The angle of a zero y is 0, also where x is zero.
    angle = _angle(a, b.select(a.eq(0.0) & c.eq(0.0), 1.0, c))
    negative = x.bitcast("i64") < 0
    return with_sign(b.select(negative, PI[0] - (angle - PI[1]), angle), y)


def _angle(y: Value, x: Value) -> Value:
    """atan(y / x) for y, x >= 0: 0, a quarter or half of pi, and the arc tangent of a small quotient."""
    b = x.builder
    large, middle = y > x * 2.414213562373095, y > x * TAN_EIGHTH_PI
    numerator = b.select(large, -x, b.select(middle, y - x, y))
    denominator = b.select(large, y, b.select(middle, y + x, x))
    quarter, quarter_low = (b.select(middle, b.constant("f64", part), 0.0) for part in QUARTER_PI)
    start, start_low = b.select(large, HALF_PI[0], quarter), b.select(large, HALF_PI[1], quarter_low)
    t = numerator / denominator
    square = t * t
    return start + (t + b.fma(t * square, polynomial(square, ATAN), start_low))


def _arc(x: Value) -> tuple[Value, Value, Value, Value]:
    """Whether |x| <= 1/2; t = |x| or sqrt((1 - |x|)/2); asin(t) - t; the part of the root that rounding lost."""
    b = x.builder
    a = magnitude(x)
    small = a <= 0.5
    square = b.select(small, a * a, b.fma(a, -0.5, 0.5))
    root = b.intrinsic("sqrt", square)
    t = b.select(small, a, root)
    lost = b.fma(root, -root, square) / (root + root)
    lost = b.select(small | root.eq(0.0), 0.0, lost)
    return small, t, t * square * polynomial(square, ASIN), lost


def asin(x: Value) -> Value:
    """The angle, from -pi/2 to pi/2, whose sine is x."""
    b = x.builder
    small, t, rest, lost = _arc(x)
    # pi/2 - 2 asin(t), the small parts first
    large = HALF_PI[0] - (2.0 * t + (2.0 * (rest + lost) - HALF_PI[1]))
    return with_sign(b.select(small, t + rest, large), x)


def acos(x: Value) -> Value:
    """The angle, from 0 to pi, whose cosine is x."""
    b = x.builder
    small, t, rest, lost = _arc(x)
    signed, signed_rest = with_sign(t, x), b.select(x < 0.0, -rest, rest)
    middle = HALF_PI[0] - (signed + (signed_rest - HALF_PI[1]))
    double = 2.0 * (t + (rest + lost))
    return b.select(small, middle, b.select(x < 0.0, PI[0] - (double - PI[1]), double))
