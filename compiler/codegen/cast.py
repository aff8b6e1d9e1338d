"""Conversions between dtypes, and the 16-bit float formats, which live in registers as rounded f32.

Out-of-range and NaN floats become what x86 gives PyTorch: the smallest i32 or i64, cut to the low bits for narrower
integers.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from eagerjit.compiler.codegen.builder import BITS, FLOATS, SIGNED, Builder, Value, round_to_single

HALF_FORMATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def literal(b: Builder, dtype: str, number: int | float | bool) -> Value:
    """A constant of any dtype, rounded to its format."""
    if dtype in HALF_FORMATS:
        single = np.float32(round_to_single(float(number)))
        with np.errstate(over="ignore"):
            number = float(single.astype(HALF_FORMATS[dtype]))
    return b.constant(dtype, number)


def round_to(value: Value, dtype: str) -> Value:
    """An f32 value rounded to f16 or bf16, still in f32 registers; other dtypes pass through."""
    if dtype == "bf16":
        return (_bf16_bits(value.view("f32")) << 16).bitcast("f32").view("bf16")
    if dtype == "f16":
        return _widened(to_f16_bits(value.view("f32")))
    return value


def _widened(bits: Value) -> Value:
    """f16 bits as f32 registers, which are known to stand for them."""
    value = from_f16_bits(bits)
    bits.builder.halves[value.text] = bits
    return value


def to_memory(value: Value) -> Value:
    """The form in which a value is stored: bool as u8, 16-bit floats as u16 bits."""
    b = value.builder
    if value.dtype == "bool":
        return b.convert("zext", value, "u8")
    if value.dtype == "bf16":
        return b.convert("trunc", value.bitcast("u32") >> 16, "u16")
    if value.dtype == "f16":
        return b.halves.get(value.text) or to_f16_bits(value.view("f32"))
    return value


def from_memory(value: Value, dtype: str) -> Value:
    """The register form of what was loaded."""
    b = value.builder
    if dtype == "bool":
        return value.ne(0)
    if dtype == "bf16":
        return (b.convert("zext", value, "u32") << 16).bitcast("f32").view("bf16")
    if dtype == "f16":
        return _widened(value)
    return value.view(dtype)


def memory_dtype(dtype: str) -> str:
    """The dtype of a value in memory."""
    return {"bool": "u8", "f16": "u16", "bf16": "u16"}.get(dtype, dtype)


def _bf16_bits(value: Value) -> Value:
    """The upper half of an f32, rounded to nearest even, as u32; NaN stays NaN."""
    bits = value.bitcast("u32")
    rounded = (bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16
    return value.builder.select(value.is_nan(), (bits >> 16) | 0x40, rounded)


def to_f16_bits(value: Value) -> Value:
    """f32 -> f16 bits as u16. CPUs with 256-bit vectors have the instruction; others use integers."""
    b = value.builder
    if b.width_bits >= 256:
        kind = b.type("u16", value.lanes)
        half = b.type("u16", value.lanes).replace("i16", "half")
        # Otherwise LLVM moves a sign copied in f64 behind both roundings and converts it alone, from f64 to f16
        # at once, by a function of a C library that is not there.
        value = b.intrinsic("arithmetic.fence", value)
        text = f"fptrunc {b.type('f32', value.lanes)} {value.text} to {half}"
        rounded = b.pure("u16", value.lanes, text, value.depth)
        return b.pure("u16", value.lanes, f"bitcast {half} {rounded.text} to {kind}", value.depth)
    bits = value.bitcast("u32")
    magnitude = bits & 0x7FFFFFFF
    # Adding 0.5 leaves a subnormal f16, rounded to nearest even by the FPU, in the low bits of the sum.
    small = (magnitude.bitcast("f32") + 0.5).bitcast("u32") - 0x3F000000
    normal = (magnitude - ((127 - 15) << 23) + (((bits >> 13) & 1) + 0xFFF)) >> 13
    large = b.select(magnitude > 0x7F800000, ((bits >> 13) & 0x3FF) | 0x7E00, b.constant("u32", 0x7C00))
    result = b.select(magnitude < 0x38800000, small, b.select(magnitude >= 0x47800000, large, normal))
    return b.convert("trunc", result | ((bits >> 16) & 0x8000), "u16")


def from_f16_bits(value: Value) -> Value:
    """f16 bits -> f32 registers."""
    b = value.builder
    if b.width_bits >= 256:
        kind = b.type("u16", value.lanes)
        half = kind.replace("i16", "half")
        cast = b.pure("u16", value.lanes, f"bitcast {kind} {value.text} to {half}", value.depth)
        wide = b.pure("f32", value.lanes, f"fpext {half} {cast.text} to {b.type('f32', value.lanes)}", value.depth)
        # Otherwise LLVM rounds and compares halves, for which there are no instructions, number by number.
        return b.intrinsic("arithmetic.fence", wide).view("f16")
    bits = b.convert("zext", value, "u32")
    magnitude = bits & 0x7FFF
    # Scaling by 2^112 rebiases the exponent, subnormals included; that of inf and NaN needs the rest of the way.
    scaled = (magnitude << 13).bitcast("f32") * 2.0**112
    special = (magnitude << 13) | 0x7F800000
    quiet = b.select(magnitude > 0x7C00, special | 0x400000, special)
    result = b.select(magnitude >= 0x7C00, quiet, scaled.bitcast("u32"))
    return (result | ((bits & 0x8000) << 16)).bitcast("f32").view("f16")


def cast(value: Value, dtype: str) -> Value:
    """`value` converted as Tensor.to does."""
    if value.dtype == dtype:
        return value
    b = value.builder
    if dtype == "bool":
        return value.ne(0)
    if value.is_float:
        return _float_to_float(value, dtype) if dtype in FLOATS else _float_to_int(value, dtype)
    if dtype in FLOATS:
        target = "f64" if dtype == "f64" else "f32"
        if (value.dtype, target) == ("i64", "f64") and value.lanes and b.width_bits == 256:
            return _double_by_halves(value)
        opcode = "sitofp" if value.dtype in SIGNED else "uitofp"
        return round_to(b.convert(opcode, value, target), dtype)
    return resize(value, dtype)


def _double_by_halves(value: Value) -> Value:
    """i64 -> f64 without an instruction for vectors: halves become the low bits of f64 numbers, and one sum rounds."""
    bits = value.view("u64") ^ (1 << 63)
    upper = ((bits >> 32) | 0x4530000000000000).bitcast("f64")  # 2^84 + 2^32 * half
    lower = ((bits & 0xFFFFFFFF) | 0x4330000000000000).bitcast("f64")  # 2^52 + half
    return (upper - (2.0**84 + 2.0**63 + 2.0**52)) + lower


def resize(value: Value, dtype: str) -> Value:
    """An integer or bool as another integer: cut, or extended by its own sign."""
    difference = BITS[dtype] - value.bits
    if not difference:
        return value.view(dtype)
    opcode = "trunc" if difference < 0 else "sext" if value.dtype in SIGNED else "zext"
    return value.builder.convert(opcode, value, dtype)


def _float_to_float(value: Value, dtype: str) -> Value:
    b = value.builder
    if dtype == "f64":
        return b.convert("fpext", value, "f64")
    if value.dtype == "f64":
        value = b.convert("fptrunc", value, "f32")
    return value.view("f32") if dtype == "f32" else round_to(value, dtype)


def _float_to_int(value: Value, dtype: str) -> Value:
    b = value.builder
    value = value if value.dtype == "f64" else value.view("f32")
    if dtype == "u64":
        upper = value >= 2.0**63
        return _float_to_int(b.select(upper, value - 2.0**63, value), "i64").view("u64") ^ b.select(
            upper, b.constant("u64", 1 << 63), 0
        )
    wide = dtype if dtype in ("i32", "i64") else "i64" if BITS[dtype] >= 32 else "i32"
    limit = 2.0 ** (BITS[wide] - 1)
    inside = b.intrinsic("fabs", value) < limit
    value = b.select(inside, value, -limit)
    if wide == "i64" and value.lanes and b.width_bits == 256:
        return resize(_integer_by_halves(value), dtype)
    return resize(b.convert("fptosi", value, wide), dtype)


def _integer_by_halves(value: Value) -> Value:
    """f32 or f64 -> i64 without an instruction for vectors: of exact halves, sums with powers of two show the bits."""
    b = value.builder
    whole = b.intrinsic("trunc", _float_to_float(value, "f64") if value.dtype == "f32" else value)
    upper = b.intrinsic("floor", whole * 2.0**-32)
    lower = whole - upper * 2.0**32
    bits = (upper + (2.0**52 + 2.0**51)).bitcast("u64") << 32
    return (bits | ((lower + 2.0**52).bitcast("u64") ^ 0x4330000000000000)).view("i64")
