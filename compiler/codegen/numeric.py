"""Building blocks of elementary functions on f32 and f64 values: polynomials, scaling by powers of two, signs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eagerjit.compiler.codegen.builder import Value

INF = float("inf")
NAN = float("nan")


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """c0 + c1*x + c2*x^2 + ... by Horner's rule with fused multiply-adds."""
    b = x.builder
    result: Value | float = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        result = b.fma(x, result, c)
    assert isinstance(result, Value)
    return result


def clamp(x: Value, low: float, high: float) -> Value:
    """x cut to low..high; NaN stays NaN."""
    return at_least(at_most(x, high), low)


def at_most(x: Value, high: float) -> Value:
    """The smaller of x and a number; NaN stays NaN."""
    return x.builder.at_most(x, high)


def at_least(x: Value, low: float) -> Value:
    """The larger of x and a number; NaN stays NaN."""
    return x.builder.at_least(x, low)


def magnitude(x: Value) -> Value:
    """|x|."""
    return x.builder.intrinsic("fabs", x)


def with_sign(x: Value, sign: Value) -> Value:
    """|x| with the sign of `sign`."""
    return x.builder.intrinsic("copysign", x, sign)


def flip_sign(x: Value, condition_bits: Value) -> Value:
    """x negated where the lowest bit of an integer of the same width is set."""
    return (x.bitcast(condition_bits.dtype) ^ (condition_bits << (x.bits - 1))).bitcast(x.dtype)


def nearest(x: Value) -> Value:
    """x rounded to an integer, halves to even, for |x| < 2^22 (f32) or 2^51 (f64)."""
    return x.builder.nearest(x)


def two_sum(a: Value, c: Value) -> tuple[Value, Value]:
    """a + c and its rounding error, for |a| >= |c| or a = 0."""
    total = a + c
    return total, (a - total) + c


def two_sum_any(a: Value, c: Value) -> tuple[Value, Value]:
    """a + c and its rounding error, whichever is larger."""
    total = a + c
    kept = total - a
    return total, (a - (total - kept)) + (c - kept)


def two_product(a: Value, c: Value) -> tuple[Value, Value]:
    """a * c and its rounding error."""
    product = a * c
    return product, a.builder.fma(a, c, -product)


def scale(x: Value, exponent: Value) -> Value:
    """x * 2^exponent, rounded once; `exponent` is a whole number of the same dtype, |exponent| < 2^(exponent bits)."""
    b = x.builder
    x, exponent = b.align(x, exponent)
    per_register = 512 // x.bits
    if b.width_bits == 512 and x.lanes and x.lanes % per_register == 0:
        return by_registers(_scale_instruction, per_register, x, exponent)
    bits, bias = (23, 127) if x.dtype == "f32" else (52, 1023)
    whole = b.lowest_bits(exponent)  # of a NaN any number: the NaN in x decides
    half = whole >> 1
    factors = []
    for part in (half, whole - half):
        biased = part + bias if x.dtype == "f32" else b.convert("sext", part + bias, "i64")
        factors.append((biased << bits).bitcast(x.dtype))
    return x * factors[0] * factors[1]


def _scale_instruction(x: Value, exponent: Value) -> Value:
    b = x.builder
    kind, suffix, mask = b.type(x.dtype, x.lanes), {"f32": "ps", "f64": "pd"}[x.dtype], f"i{x.lanes}"
    operands = f"{kind} {x.text}, {kind} {exponent.text}, {kind} zeroinitializer, {mask} -1, i32 4"
    text = f"call {kind} @llvm.x86.avx512.mask.scalef.{suffix}.512({operands})"
    return b.pure(x.dtype, x.lanes, text, max(x.depth, exponent.depth))


def by_registers(emit: Callable[..., Value], size: int, *operands: Value) -> Value:
    """`emit` on each group of `size` lanes of operands with equal lanes."""
    count = operands[0].lanes
    if count == size:
        return emit(*operands)
    half = count // 2
    parts = [by_registers(emit, size, *(lanes(v, start, half) for v in operands)) for start in (0, half)]
    b, dtype = parts[0].builder, parts[0].dtype
    kind = b.type(dtype, half)
    order = ", ".join(f"i32 {i}" for i in range(count))
    text = f"shufflevector {kind} {parts[0].text}, {kind} {parts[1].text}, <{count} x i32> <{order}>"
    return b.pure(dtype, count, text, max(p.depth for p in parts))


def lanes(value: Value, start: int, count: int) -> Value:
    """`count` lanes from `start` on."""
    b = value.builder
    kind = b.type(value.dtype, value.lanes)
    order = ", ".join(f"i32 {start + i}" for i in range(count))
    text = f"shufflevector {kind} {value.text}, {kind} poison, <{count} x i32> <{order}>"
    return b.pure(value.dtype, count, text, value.depth)
