"""pow: exp(y log|x|) with a logarithm of twice the precision, and C99's special cases."""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import Value
from eagerjit.compiler.codegen.exponentials import exp2, exp_of_sum
from eagerjit.compiler.codegen.logarithms import LN2, split
from eagerjit.compiler.codegen.numeric import INF, NAN, magnitude, polynomial, two_product, two_sum, two_sum_any
from eagerjit.compiler.codegen.piecewise import lookup

TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
# (2 atanh(s) - 2s - 2/3 s^3) / s^5 in s^2
LOG_TAIL = (0.400000000000067, 0.285714285689403, 0.22222222668749333, 0.18181773907393045, 0.15387167682989317,
            0.13248382594053293, 0.132671183737171)  # fmt: skip
# f32: 1 / c for a c in each of 32 parts of 0.703125..1.40625, exact; -log2 of it in two parts, of which the first has
# 15 bits behind the point; finally (log2(1+r) - r/ln(2) + r^2/2/ln(2)) / r^3 in r
LOWEST = 0.703125
INVERSE = (
    1.0, 0.953125, 0.921875, 0.90625, 0.875, 0.859375, 0.828125, 0.8125, 0.796875, 0.765625, 0.75, 0.734375, 0.71875,
    1.40625, 1.375, 1.34375, 1.3125, 1.296875, 1.265625, 1.25, 1.21875, 1.203125, 1.171875, 1.15625, 1.125, 1.109375,
    1.09375, 1.078125, 1.0625, 1.046875, 1.03125, 1.0,
)  # fmt: skip
LOG2_HIGH = (
    0.0, 0.06927490234375, 0.11737060546875, 0.14202880859375, 0.192657470703125, 0.2186279296875, 0.2720947265625,
    0.299560546875, 0.32757568359375, 0.385284423828125, 0.4150390625, 0.445404052734375, 0.4764404296875,
    -0.491851806640625, -0.459442138671875, -0.42626953125, -0.392303466796875, -0.375030517578125, -0.33984375,
    -0.321929931640625, -0.285400390625, -0.26678466796875, -0.22882080078125, -0.209442138671875, -0.169921875,
    -0.149749755859375, -0.1292724609375, -0.1085205078125, -0.08746337890625, -0.06610107421875, -0.044403076171875,
    0.0,
)  # fmt: skip
LOG2_LOW = (
    0.0, -1.2239907e-05, -1.3654831e-05, -9.803722e-06, -1.2392761e-05, 1.2356788e-05, -1.51811255e-05, -2.650161e-07,
    -1.0255652e-06, 5.7320567e-06, -1.5632212e-06, 7.095588e-06, -2.3857444e-06, -1.2896891e-06, 1.0520034e-05,
    4.776548e-06, -1.3955982e-05, -8.913768e-06, -6.2528848e-06, 1.8367533e-06, -1.8282373e-06, -1.8727261e-06,
    2.1102853e-06, -1.1226957e-05, -3.1264424e-06, 2.6363548e-06, -1.05560075e-05, -3.9489655e-06, 5.376559e-07,
    1.1883761e-05, 8.956814e-06, 0.0,
)  # fmt: skip
LOG2_TAIL = (0.48089832067489624, -0.36067572236061096, 0.28867655992507935, -0.23582880198955536)
PER_LN2 = (1.4426950216293335, 1.925963033500011e-08)
MINUS_HALF_PER_LN2 = (-0.7213475108146667, -9.629815167500055e-09)


def power(x: Value, y: Value) -> Value:
    """x ** y."""
    b = x.builder
    x, y = b.align(x, y)
    single = x.dtype == "f32"
    high, low = _log2_single(magnitude(x)) if single else _log(magnitude(x))
    product, product_low = two_product(_with_limits(magnitude(x), high), y)
    product_low = b.fma(low, y, product_low)
    # Where the product is infinite or far out of range its rounding error is NaN or useless.
    product_low = b.select(magnitude(product) < (1e3 if single else 1e4), product_low, 0.0)
    result = exp2(product, product_low) if single else exp_of_sum(product, product_low)
    return _special(x, y, result)


def _log2_single(x: Value) -> tuple[Value, Value]:
    """log2(x) of positive finite f32 as a sum of two, to some 34 bits."""
    b = x.builder
    e, m = split(x, LOWEST)
    part = m.bitcast("u32") >> 18
    r = b.fma(m, lookup("inverse", INVERSE, part), -1.0)
    # Exact products of r/ln(2) and of the square keep the digits that cancel when y is large and x near 1.
    first = r * PER_LN2[0]
    first_low = b.fma(r, PER_LN2[1], b.fma(r, PER_LN2[0], -first))
    square, square_low = two_product(r, r)
    second = square * MINUS_HALF_PER_LN2[0]
    second_low = b.fma(square, MINUS_HALF_PER_LN2[0], -second)
    second_low = b.fma(square, MINUS_HALF_PER_LN2[1], b.fma(square_low, MINUS_HALF_PER_LN2[0], second_low))
    third = square * r * polynomial(r, LOG2_TAIL)
    high, high_low = two_sum_any(e + lookup("log2_high", LOG2_HIGH, part), first)
    high, second_rest = two_sum(high, second)
    low = (first_low + second_low) + (lookup("log2_low", LOG2_LOW, part) + third)
    return two_sum(high, (high_low + second_rest) + low)


def _with_limits(x: Value, log: Value) -> Value:
    """log(x), -inf at 0, and inf and NaN themselves."""
    b = x.builder
    return b.select(x.eq(0.0), -INF, b.select(x < INF, log, x))


def _log(x: Value) -> tuple[Value, Value]:
    """log(x) of positive finite f64 as a sum of two, to some 66 bits."""
    b = x.builder
    e, m = split(x)
    r = m - 1.0
    d, d_low = two_sum(b.constant("f64", 2.0), r)
    inverse = 1.0 / d
    s = r * inverse
    s_low = b.fma(-s, d_low, b.fma(-s, d, r)) * inverse
    square, square_low = two_product(s, s)
    square_low = b.fma(s + s, s_low, square_low)
    tail = square * polynomial(square, LOG_TAIL)
    c, c_low = two_sum(b.constant("f64", TWO_THIRDS[0]), tail)
    c_low = c_low + TWO_THIRDS[1]
    # s^3 c = s (s^2 c)
    p, p_low = two_product(square, c)
    p_low = b.fma(square, c_low, b.fma(square_low, c, p_low))
    cube, cube_low = two_product(s, p)
    cube_low = b.fma(s, p_low, b.fma(s_low, p, cube_low))
    log, log_low = two_sum(s + s, cube)
    log_low = log_low + (cube_low + (s_low + s_low))
    start, start_low = two_product(e, b.constant("f64", LN2["f64"][0]))
    high, high_low = two_sum(start, log)
    low = high_low + (b.fma(e, LN2["f64"][1], start_low) + log_low)
    return two_sum(high, low)


def _special(x: Value, y: Value, result: Value) -> Value:
    """The signs and exceptions of C99's pow."""
    b = x.builder
    whole = b.intrinsic("trunc", y).eq(y)
    half = y * 0.5
    odd = whole & b.intrinsic("trunc", half).ne(half)
    integer = "i32" if x.dtype == "f32" else "i64"
    negative = x.bitcast(integer) < 0
    result = b.select(negative & odd, -result, result)
    result = b.select((x < 0.0) & (x > -INF) & ~whole, NAN, result)
    one = x.eq(1.0) | y.eq(0.0) | (x.eq(-1.0) & magnitude(y).eq(INF))
    return b.select(one, 1.0, result)
