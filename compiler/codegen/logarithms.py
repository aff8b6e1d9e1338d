"""Logarithms: x = 2^e m with m between sqrt(1/2) and sqrt(2); a polynomial in m - 1 (f32) or in (m-1)/(m+1) (f64)."""

from __future__ import annotations

import struct

from eagerjit.compiler.codegen.builder import Value
from eagerjit.compiler.codegen.numeric import INF, NAN, polynomial, two_sum, with_sign

ROOT_HALF = 0.7071067811865476
LN2 = {"f32": (0.6931471824645996, -1.9046542121259336e-09), "f64": (0.6931471805599453, 2.3190468138462996e-17)}
# log(1+r) = r - r^2/2 + r^3 p(r)
LOG_F32 = (
    0.3333331048488617, -0.25, 0.20002229511737823, -0.1666852980852127, 0.14218026399612427, -0.12396278232336044,
    0.11889337003231049, -0.11727224290370941, 0.06804803758859634,
)  # fmt: skip
# log(1+r) = 2s + s^3 p(s^2), s = r/(2+r)
LOG_F64 = (
    0.6666666666666666, 0.400000000000067, 0.285714285689403, 0.22222222668749333, 0.18181773907393045,
    0.15387167682989317, 0.13248382594053293, 0.132671183737171,
)  # fmt: skip


def mantissa_bits(x: Value) -> int:
    """Explicit bits of the mantissa."""
    return 23 if x.dtype == "f32" else 52


def _integer(x: Value) -> str:
    return "i32" if x.dtype == "f32" else "i64"


def _bits(dtype: str, number: float) -> int:
    code = ("<f", "<i") if dtype == "f32" else ("<d", "<q")
    return int(struct.unpack(code[1], struct.pack(code[0], number))[0])


def exponent_bits(x: Value, lowest: float = ROOT_HALF) -> Value:
    """e << mantissa bits, where x = 2^e m and lowest <= m < 2 lowest, for positive normal x."""
    above = x.bitcast(_integer(x)) - _bits(x.dtype, lowest)
    return above & -(1 << mantissa_bits(x))


def split(x: Value, lowest: float = ROOT_HALF) -> tuple[Value, Value]:
    """e and m for positive x, subnormals included."""
    b = x.builder
    smallest = 2.0**-126 if x.dtype == "f32" else 2.0**-1022
    subnormal = x < smallest
    x = b.select(subnormal, x * 2.0 ** (mantissa_bits(x) + 1), x)
    shifted = exponent_bits(x, lowest)
    m = (x.bitcast(shifted.dtype) - shifted).bitcast(x.dtype)
    e = b.convert("sitofp", shifted >> mantissa_bits(x), x.dtype)
    return b.select(subnormal, e - float(mantissa_bits(x) + 1), e), m


def _tail(r: Value) -> Value:
    """log(1+r) - r."""
    b = r.builder
    if r.dtype == "f32":
        square = r * r
        return b.fma(square, -0.5, square * r * polynomial(r, LOG_F32))
    s = r / (2.0 + r)
    square = s * s
    half_square = r * r * 0.5
    return b.fma(s, b.fma(square, polynomial(square, LOG_F64), half_square), -half_square)


def _special(x: Value, result: Value, pole: float) -> Value:
    """-inf at the pole, NaN below it, and inf and NaN themselves."""
    b = x.builder
    result = b.select(x < INF, result, x)
    result = b.select(x < pole, NAN, result)
    return b.select(x.eq(pole), -INF, result)


def log(x: Value) -> Value:
    """The natural logarithm."""
    b = x.builder
    e, m = split(x)
    r = m - 1.0
    high, low = LN2[x.dtype]
    return _special(x, b.fma(e, high, r + b.fma(e, low, _tail(r))), 0.0)


def log1p(x: Value) -> Value:
    """log(1 + x), relatively exact near 0."""
    b = x.builder
    shifted = exponent_bits(1.0 + x)
    # r = x 2^-e + (2^-e - 1): 1 + x itself would lose the low bits of x. 2^-e is kept times 4, which is always normal.
    scaled = (x.bitcast(shifted.dtype) - shifted).bitcast(x.dtype)
    inverse = (_bits(x.dtype, 4.0) - shifted).bitcast(x.dtype)
    r, r_low = two_sum(b.fma(inverse, 0.25, -1.0), scaled)
    e = b.convert("sitofp", shifted >> mantissa_bits(x), x.dtype)
    high, low = LN2[x.dtype]
    result = b.fma(e, high, r + (b.fma(e, low, r_low) + _tail(r)))
    return with_sign(_special(x, result, -1.0), x)


def _in_base(x: Value, per_e: tuple[float, float], high: float, low: float) -> Value:
    """e * per_e + log(m) * (high + low), with the products' rounding errors kept."""
    b = x.builder
    e, m = split(x)
    r = m - 1.0
    total, rest = two_sum(r, _tail(r))
    product = total * high
    error = b.fma(total, high, -product) + b.fma(total, low, rest * high)
    start, start_error = two_sum(e * per_e[0], product)
    return _special(x, start + (start_error + b.fma(e, per_e[1], error)), 0.0)


def log2(x: Value) -> Value:
    """The logarithm to base 2; exact for powers of two."""
    if x.dtype == "f32":
        return _in_base(x, (1.0, 0.0), 1.4426950216293335, 1.925963033500011e-08)
    return _in_base(x, (1.0, 0.0), 1.4426950408889634, 2.0355273740931033e-17)


def log10(x: Value) -> Value:
    """The logarithm to base 10."""
    if x.dtype == "f32":
        return _in_base(x, (0.301025390625, 4.605039066518657e-06), 0.4342944920063019, -1.0103049952192578e-08)
    return _in_base(x, (0.30102999566395283, 2.8363394551044964e-14), 0.4342944819032518, 1.098319650216765e-17)
