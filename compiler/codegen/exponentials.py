"""exp and its relatives.

exp(x) = 2^k exp(r) with k whole and |r| <= ln(2)/2; exp(r) is a minimax polynomial. sigmoid and the tanh of f64 divide
once and then correct the quotient by its remainder, which keeps them within one unit in the last place; the tanh of f32
is polynomials from a table.
"""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import Value
from eagerjit.compiler.codegen.numeric import (
    at_least,
    at_most,
    clamp,
    magnitude,
    nearest,
    polynomial,
    scale,
    two_sum,
    two_sum_any,
    with_sign,
)  # fmt: skip
from eagerjit.compiler.codegen.piecewise import odd_function
from eagerjit.compiler.codegen.piecewise_tables import TANH
from eagerjit.runtime.records import record


@record(frozen=True)
class _Format:
    """ln(2) as a sum of two; (exp(r)-1-r)/r^2 for relative error in exp and in exp-1; range of exp."""

    ln2_high: float
    ln2_low: float
    exp: tuple[float, ...]
    expm1: tuple[float, ...]
    lowest: float
    highest: float
    tanh_limit: float


LOG2_E = 1.4426950408889634
SHIFT = 1.5 * 2.0**23
"""An f32 plus this is rounded to an integer, which is in the lowest bits of the sum."""
EXP_F64 = (
    0.5, 0.16666666666666677, 0.0416666666666667, 0.008333333333321436, 0.0013888888888866444, 0.0001984126988667316,
    2.480158736132501e-05, 2.755724360915998e-06, 2.755724210516499e-07, 2.5109261861139077e-08, 2.0924645477732664e-09,
)  # fmt: skip
FORMATS = {
    "f32": _Format(
        ln2_high=0.6931471824645996,
        ln2_low=-1.9046542121259336e-09,
        exp=(0.4999999403953552, 0.1666651964187622, 0.041668400168418884, 0.008368851616978645, 0.0013814320554956794),
        expm1=(
            0.5, 0.1666666716337204, 0.04166635125875473, 0.00833327230066061, 0.0013941206270828843,
            0.00019914444419555366,
        ),
        lowest=-104.0,
        highest=89.0,
        tanh_limit=9.1,
    ),
    "f64": _Format(
        ln2_high=0.6931471805599453,
        ln2_low=2.3190468138462996e-17,
        exp=EXP_F64,
        expm1=EXP_F64,
        lowest=-746.0,
        highest=710.0,
        tanh_limit=19.1,
    ),
}  # fmt: skip


def _reduce(x: Value) -> tuple[Value, Value, Value]:
    """k and r as a sum of two, high + low, with x = k ln(2) + r; high is exact."""
    b, f = x.builder, FORMATS[x.dtype]
    k = nearest(x * LOG2_E)
    return k, b.fma(k, -f.ln2_high, x), k * -f.ln2_low


def _exp_tail(high: Value, low: Value, coefficients: tuple[float, ...]) -> Value:
    """exp(high + low) - 1 - high."""
    r = high + low
    return high.builder.fma(r * r, polynomial(r, coefficients), low)


def _scaled(power: Value, k: Value, x: Value, lowest: float) -> Value:
    """power * 2^k, which at the lowest x rounds to 0."""
    b = x.builder
    return scale(b.select(x <= lowest, 0.0, power) if b.underflows_slowly else power, k)


def exp(x: Value) -> Value:
    """e^x."""
    f = FORMATS[x.dtype]
    x = clamp(x, f.lowest, f.highest)
    k, high, low = _reduce(x)
    return _scaled(1.0 + (high + _exp_tail(high, low, f.exp)), k, x, f.lowest)


def exp_of_sum(x: Value, low: Value) -> Value:
    """e^(x + low) for small low."""
    f = FORMATS[x.dtype]
    x = clamp(x, f.lowest, f.highest)
    k, high, rest = _reduce(x)
    high, low = two_sum_any(high, rest + low)
    return _scaled(1.0 + (high + _exp_tail(high, low, f.exp)), k, x, f.lowest)


def exp2(x: Value, rest: Value | None = None) -> Value:
    """2^x, or 2^(x + rest) with the rounding error of x in rest."""
    b, f = x.builder, FORMATS[x.dtype]
    lowest = f.lowest * LOG2_E - 1.0
    x = clamp(x, lowest, f.highest * LOG2_E)
    k = nearest(x)
    fraction = x - k
    high = fraction * f.ln2_high
    low = b.fma(fraction, f.ln2_low, b.fma(fraction, f.ln2_high, -high))
    if rest:
        low = b.fma(rest, f.ln2_high, low)
    return _scaled(1.0 + (high + _exp_tail(high, low, f.exp)), k, x, lowest)


def expm1(x: Value) -> Value:
    """e^x - 1, relatively exact near 0."""
    b, f = x.builder, FORMATS[x.dtype]
    k, r, low = _reduce(clamp(x, -40.0, f.highest))
    t = _exp_tail(r, low, f.expm1)
    # 2^k (exp(r) - 1) + (2^k - 1), halved so that 2^k doesn't overflow.
    half = scale(b.constant(x.dtype, 0.5), k)
    whole, whole_low = two_sum(half, b.constant(x.dtype, -0.5))
    high, rest = two_sum(whole, half * r)
    large = (high + b.fma(half, t, rest + whole_low)) * 2.0
    return with_sign(b.select(k.eq(0.0), r + t, large), x)


def sigmoid(x: Value) -> Value:
    """1 / (1 + e^-x)."""
    if x.dtype == "f32":
        return _sigmoid_single(x)
    b, f = x.builder, FORMATS[x.dtype]
    a = at_least(-magnitude(x), f.lowest)
    k, r, low = _reduce(a)
    p, p_low = two_sum(b.constant(x.dtype, 1.0), r + _exp_tail(r, low, f.exp))
    z, z_low = _scaled(p, k, a, f.lowest), _scaled(p_low, k, a, f.lowest)
    d, d_low = two_sum(b.constant(x.dtype, 1.0), z)
    numerator = b.select(x < 0.0, z, 1.0)
    numerator_low = b.select(x < 0.0, z_low, 0.0)
    return quotient(numerator, numerator_low, d, d_low + z_low)


def _sigmoid_single(x: Value) -> Value:
    """sigmoid(-|x|) = s / (s + exp(r)) with |x| = k ln(2) + r and s = 2^-k, for f32.

    The divisor is `near` + `tail` almost exactly, and the quotient is corrected by its remainder. What takes turns is
    kept short rather than few: processors wait for results here, not for places to compute them.
    """
    b, f = x.builder, FORMATS[x.dtype]
    a = at_most(magnitude(x), -f.lowest)
    shifted = b.fma(a, -LOG2_E, SHIFT + 126.0)
    minus_k = shifted - (SHIFT + 126.0)
    r, low = b.fma(minus_k, f.ln2_high, a), minus_k * f.ln2_low
    s = _small_power_of_two(shifted)
    whole, whole_low = two_sum(b.constant(x.dtype, 1.0), s)
    near, near_low = two_sum(whole, r)
    square = r * r
    c0, c1, c2, c3, c4 = f.exp
    p = b.fma(square, b.fma(square, c4, b.fma(r, c3, c2)), b.fma(r, c1, c0))
    tail = b.fma(square, p, near_low + (whole_low + b.fma(low, r, low)))
    inverse = 1.0 / (near + tail)
    remainder = b.fma(-inverse, tail, b.fma(-inverse, near, 1.0))
    ratio = b.fma(remainder, inverse, inverse)
    return b.select(x.bitcast("i32") < 0, ratio * s, b.fma(-ratio, s, 1.0))


def _small_power_of_two(shifted: Value) -> Value:
    """2^k for SHIFT + 126 + k with -150 <= k <= 0: below 2^-126 that number's bits, shifted to the right."""
    b = shifted.builder
    normal = at_least(shifted, SHIFT).bitcast("u32")
    beyond = normal - shifted.bitcast("u32")
    return ((normal << 23) + (b.broadcast(b.constant("u32", 1 << 23), shifted.lanes) >> beyond)).bitcast("f32")


def quotient(n: Value, n_low: Value, d: Value, d_low: Value) -> Value:
    """(n + n_low) / (d + d_low), almost correctly rounded."""
    b = n.builder
    inverse = 1.0 / d
    q = n * inverse
    rest = b.fma(-q, d_low, b.fma(-q, d, n) + n_low)
    return b.fma(rest, inverse, q)


def tanh(x: Value) -> Value:
    """(e^2x - 1) / (e^2x + 1) (f64), numerator and denominator scaled by 2^-k / 2; a table of polynomials (f32)."""
    if x.dtype == "f32":
        return odd_function(x, "tanh", TANH, 9.1)
    b, f = x.builder, FORMATS[x.dtype]
    a = at_most(magnitude(x), f.tanh_limit)
    minus_k = nearest(a * (-2.0 * LOG2_E))
    y = b.fma(minus_k, f.ln2_low / 2, b.fma(minus_k, f.ln2_high / 2, a))
    # expm1(2y) / 2 = y + t
    t = y * y * polynomial(y, [c * 2.0 ** (i + 1) for i, c in enumerate(f.expm1)])
    s = scale(b.constant(x.dtype, 0.5), minus_k)
    h, h_low = two_sum(b.constant(x.dtype, 0.5), y)
    t = t + h_low
    n, n_low = two_sum(h, -s)
    d, d_low = two_sum(h, s)
    n, n_low = two_sum(n, n_low + t)
    d, d_low = two_sum(d, d_low + t)
    return with_sign(quotient(n, n_low, d, d_low), x)


def sinh(x: Value) -> Value:
    """(e^x - e^-x) / 2, from t = e^|x| - 1: (t + t/(t + 1)) / 2."""
    b = x.builder
    a = magnitude(x)
    t = expm1(a)
    small = (t + t / (t + 1.0)) * 0.5
    return with_sign(b.select(a > 20.0, _half_exp(a), small), x)


def cosh(x: Value) -> Value:
    """(e^x + e^-x) / 2."""
    half = _half_exp(magnitude(x))
    return half + 0.25 / half


def _half_exp(x: Value) -> Value:
    """e^x / 2 without early overflow."""
    f = FORMATS[x.dtype]
    k, high, low = _reduce(at_most(x, f.highest + 1.0))
    return scale(1.0 + (high + _exp_tail(high, low, f.exp)), k - 1.0)
