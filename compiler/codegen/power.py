"""pow: exp(y log|x|) with a logarithm of twice the precision, and C99's special cases."""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import Value
from eagerjit.compiler.codegen.exponentials import exp_of_sum
from eagerjit.compiler.codegen.logarithms import LN2, split
from eagerjit.compiler.codegen.numeric import INF, NAN, magnitude, polynomial, two_product, two_sum

TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
# (2 atanh(s) - 2s - 2/3 s^3) / s^5 in s^2
LOG_TAIL = (0.400000000000067, 0.285714285689403, 0.22222222668749333, 0.18181773907393045, 0.15387167682989317,
            0.13248382594053293, 0.132671183737171)  # fmt: skip
# (2 atanh(s) - 2s) / s^3 in s^2, to 44 bits
LOG_SHORT = (0.666666666762735, 0.3999999544123438, 0.28572130186827555, 0.22175238392931576, 0.19598777715839874)


def power(x: Value, y: Value) -> Value:
    """x ** y."""
    b = x.builder
    x, y = b.align(x, y)
    if x.dtype == "f32":
        a, exponent = b.convert("fpext", magnitude(x), "f64"), b.convert("fpext", y, "f64")
        e, r = split(a)
        s = r / (2.0 + r)
        square = s * s
        log = b.fma(e, LN2["f64"][0], b.fma(square * s, polynomial(square, LOG_SHORT), s + s))
        result = b.convert("fptrunc", exp_of_sum(_with_limits(a, log) * exponent, b.constant("f64", 0.0)), "f32")
    else:
        high, low = _log(magnitude(x))
        product, product_low = two_product(_with_limits(magnitude(x), high), y)
        product_low = b.fma(low, y, product_low)
        result = exp_of_sum(product, b.select(magnitude(product) < 1e4, product_low, 0.0))
    return _special(x, y, result)


def _with_limits(x: Value, log: Value) -> Value:
    """log(x), -inf at 0, and inf and NaN themselves."""
    b = x.builder
    return b.select(x.eq(0.0), -INF, b.select(x < INF, log, x))


def _log(x: Value) -> tuple[Value, Value]:
    """log(x) of positive finite f64 as a sum of two, to some 66 bits."""
    b = x.builder
    e, r = split(x)
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
