"""sin, cos and tan.

sin and cos reduce by multiples of pi, tan by multiples of pi/2, in three steps that keep the remainder as a sum of two, then
evaluate polynomials. Arguments too large for that are rare: their lanes go one by one through `huge_argument`.
"""

from __future__ import annotations

from eagerjit.compiler.codegen.builder import Value
from eagerjit.compiler.codegen.huge_argument import large_lanes
from eagerjit.compiler.codegen.numeric import flip_sign, polynomial, two_sum, two_sum_any

PI = {
    "f32": (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15),
    "f64": (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
}
LARGEST = {"f32": 100000.0, "f64": 1e9}
# (sin(r) - r) / r^3 in r^2, up to pi/2
SIN = {
    "f32": (-0.16666659712791443, 0.008333087898790836, -0.00019811054517049342, 2.6087905098393094e-06),
    "f64": (
        -0.16666666666666666, 0.008333333333333333, -0.0001984126984126969, 2.755731922394396e-06, -2.5052108378934244e-08,
        1.605904322676071e-10, -7.647128487796481e-13, 2.8102294625312133e-15, -7.983772160256693e-18,
    ),
}  # fmt: skip
# (sin(r) - r) / r^3 and (cos(r) - 1 + r^2/2) / r^4 in r^2, up to pi/4
SIN_QUARTER = (
    -0.16666666666666666, 0.008333333333333323, -0.00019841269841255064, 2.755731921418804e-06, -2.505210491095133e-08,
    1.6058366544583212e-10, -7.578693669794688e-13,
)  # fmt: skip
COS_QUARTER = (
    0.0416666666666666, -0.0013888888888874064, 2.480158728944363e-05, -2.7557314340703003e-07, 2.087572162947098e-09,
    -1.1359559614173035e-11,
)  # fmt: skip


def _round_shifter(x: Value) -> float:
    """Adding it leaves the nearest whole number in the low bits."""
    return 1.5 * 2.0 ** (23 if x.dtype == "f32" else 52)


def _remainder(x: Value, n: Value, unit: tuple[float, float, float]) -> tuple[Value, Value]:
    """x - n*unit as an unevaluated sum of two."""
    b = x.builder
    first = b.fma(n, -unit[0], x)
    product = n * -unit[1]
    product_low = b.fma(n, -unit[1], -product)
    r, low = two_sum_any(first, product)
    return r, low + b.fma(n, -unit[2], product_low)


def _sin_of(r: Value, low: Value) -> Value:
    """sin(r + low) for |r| up to pi/2."""
    b = r.builder
    square = r * r
    correction = low * b.fma(square, -0.5, 1.0)
    return r + b.fma(square * r, polynomial(square, SIN[r.dtype]), correction)


def _parity(shifted: Value) -> Value:
    return shifted.bitcast("u32" if shifted.dtype == "f32" else "u64")


def sin(x: Value) -> Value:
    """Sine of an angle in radians."""
    b = x.builder
    shifter = _round_shifter(x)
    shifted = b.fma(x, 0.3183098861837907, shifter)
    r, low = _remainder(x, shifted - shifter, PI[x.dtype])
    result = flip_sign(_sin_of(r, low), _parity(shifted))
    result = b.select(x.eq(0.0), x, result)
    return large_lanes("sin", x, result, LARGEST[x.dtype])


def cos(x: Value) -> Value:
    """Cosine of an angle in radians: the sine of what is left after (n + 1/2) pi."""
    b = x.builder
    shifter = _round_shifter(x)
    shifted = b.fma(x, 0.3183098861837907, -0.5) + shifter
    r, low = _remainder(x, (shifted - shifter) + 0.5, PI[x.dtype])
    result = flip_sign(_sin_of(r, low), _parity(shifted) + 1)
    return large_lanes("cos", x, result, LARGEST[x.dtype])


def sin_cos_quarter(r: Value, low: Value) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    """sin and cos of r + low for |r| up to pi/4 (f64), each with its rounding error."""
    b = r.builder
    square = r * r
    sine = two_sum(r, b.fma(square * r, polynomial(square, SIN_QUARTER), low))
    half = square * 0.5
    start, start_low = two_sum(b.constant(r.dtype, 1.0), -half)
    square_low = b.fma(r, r, -square)
    rest = b.fma(square * square, polynomial(square, COS_QUARTER), -(r * low)) + b.fma(square_low, -0.5, start_low)
    return sine, two_sum(start, rest)


def tan(x: Value) -> Value:
    """Tangent of an angle in radians (f64): sin/cos, or -cos/sin after an odd number of quarter turns."""
    from eagerjit.compiler.codegen.exponentials import quotient

    b = x.builder
    shifter = _round_shifter(x)
    shifted = b.fma(x, 0.6366197723675814, shifter)
    unit = tuple(0.5 * part for part in PI["f64"])
    r, low = _remainder(x, shifted - shifter, (unit[0], unit[1], unit[2]))
    (sine, sine_low), (cosine, cosine_low) = sin_cos_quarter(r, low)
    odd = (_parity(shifted) & 1).ne(0)
    result = quotient(
        b.select(odd, -cosine, sine), b.select(odd, -cosine_low, sine_low),
        b.select(odd, sine, cosine), b.select(odd, sine_low, cosine_low),
    )  # fmt: skip
    result = b.select(x.eq(0.0), x, result)
    return large_lanes("tan", x, result, LARGEST["f64"])
