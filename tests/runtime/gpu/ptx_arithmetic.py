"""What PTX's instructions on registers compute, for many threads at a time."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from eagerjit.runtime.gpu.interpreter import fused

Array = np.ndarray
DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "pred": np.bool_,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    **{f"{letter}{bits}": np.dtype(f"{kind}{bits // 8}").type for bits in (8, 16, 32, 64) for letter, kind in
       (("u", "u"), ("b", "u"), ("s", "i"))},
}  # fmt: skip


class Unknown(NotImplementedError):
    """An instruction, or a use of one, that no kernel had so far."""


def flushed(x: Array) -> Array:
    """Subnormal numbers as zeros of their sign."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def wide(x: Array) -> Array:
    """16-bit and 32-bit floats as float64."""
    return x.astype(np.float64)


def _rounded_once(x: Array, dtype: Any) -> Array:
    return x.astype(np.float32).astype(dtype) if dtype is ml_dtypes.bfloat16 else x.astype(dtype)


def _divided(a: Array, b: Array) -> tuple[Array, Array]:
    """Quotient towards 0 and remainder; all bits of a quotient by 0 are set."""
    zero, least = b == 0, np.zeros_like(b, np.bool_)
    if a.dtype.kind == "i":
        least = (b == -1) & (a == np.iinfo(a.dtype).min)
    divisor = np.where(zero | least, b.dtype.type(1), b)
    quotient, rest = np.floor_divide(a, divisor), np.remainder(a, divisor)
    upward = (rest != 0) & ((a < 0) != (divisor < 0))
    quotient, rest = quotient + upward.astype(a.dtype), rest - np.where(upward, divisor, b.dtype.type(0))
    return np.where(zero, ~b.dtype.type(0), quotient), np.where(zero, a, rest)


def _high(a: Array, b: Array) -> Array:
    """The upper half of a product."""
    if a.dtype.itemsize < 8:
        larger = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        return (a.astype(larger) * b.astype(larger) >> larger.type(8 * a.dtype.itemsize)).astype(a.dtype)
    x, y, half, low = a.view(np.uint64), b.view(np.uint64), np.uint64(32), np.uint64(0xFFFFFFFF)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    other = x0 * y1 + (middle & low)
    high = x1 * y1 + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return high.view(a.dtype)


def multiplied_wide(a: Array, b: Array) -> Array:
    larger = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
    return a.astype(larger) * b.astype(larger)


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    if a.dtype in (np.float32, np.float64):
        return fused(a, b, c).reshape(np.broadcast_shapes(a.shape, b.shape, c.shape))
    return _rounded_once(wide(a) * wide(b) + wide(c), a.dtype.type)


def smallest(a: Array, b: Array, largest: bool = False, passes: bool = False) -> Array:
    """min and max; of two zeros the negative one is less, and a NaN counts only where both are or it `passes`."""
    if a.dtype.kind in "iu":
        return np.maximum(a, b) if largest else np.minimum(a, b)
    negative = np.signbit(a) if not largest else ~np.signbit(a)
    first = np.where(a == b, negative, (a > b) if largest else (a < b))
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    chosen = np.where((first | nan_b) & ~nan_a, a, b)
    return np.where(nan_a | nan_b, a.dtype.type(np.nan), chosen) if passes else chosen


COMPARED: dict[str, Callable[[Array, Array], Array]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)), "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}  # fmt: skip


def compared(name: str, a: Array, b: Array) -> Array:
    """setp: floats are not comparable where one is NaN, unless the name ends in u."""
    if a.dtype.kind not in "iub" and name not in ("num", "nan"):
        unordered = np.isnan(a) | np.isnan(b)
        return COMPARED[name[:-1]](a, b) | unordered if name.endswith("u") else COMPARED[name](a, b) & ~unordered
    return COMPARED[name](a, b)


APPROXIMATE: dict[str, Callable[[Array], Array]] = {
    "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "rcp": lambda x: 1 / x,
}  # fmt: skip


def of_one_float(name: str, x: Array) -> Array:
    """Elementary functions, rounded from float64."""
    return APPROXIMATE[name](wide(x)).astype(x.dtype)


def shifted(name: str, x: Array, by: Array) -> Array:
    """shl and shr: by more than all bits leaves zeros, or signs."""
    bits = 8 * x.dtype.itemsize
    if name == "shr" and x.dtype.kind == "i":
        return x >> np.minimum(by, bits - 1).astype(x.dtype)
    amount = np.minimum(by, bits - 1).astype(x.dtype)
    moved = x << amount if name == "shl" else x >> amount
    return np.where(by >= bits, x.dtype.type(0), moved)


def funnel(left: bool, wraps: bool, low: Array, high: Array, by: Array) -> Array:
    """shf: a part of two words."""
    by = (by & 31 if wraps else np.minimum(by, 32)).astype(np.uint64)
    both = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
    moved = (both << by) >> np.uint64(32) if left else both >> by
    return moved.astype(np.uint32)


def field(x: Array, start: Array, length: Array) -> Array:
    """bfe: so many bits from a place on, with the sign of the last one for signed numbers."""
    bits = 8 * x.dtype.itemsize
    unsigned = x.view(f"u{x.dtype.itemsize}")
    start, length = (start & 255).astype(unsigned.dtype), (length & 255).astype(unsigned.dtype)
    cut = shifted("shr", unsigned, start)
    gap = np.maximum(bits - length.astype(np.int64), 0).astype(unsigned.dtype)
    if x.dtype.kind != "i":
        return shifted("shr", shifted("shl", cut, gap), gap)
    if (start.astype(np.int64) + length.astype(np.int64) > bits).any():
        raise Unknown("a field beyond the word")
    return shifted("shr", shifted("shl", cut, gap).view(x.dtype), gap)


def inserted(part: Array, whole: Array, start: Array, length: Array) -> Array:
    """bfi: bits of one word replaced by another's."""
    one = whole.dtype.type(1)
    ones = shifted("shl", np.broadcast_to(one, length.shape).copy(), length & 255) - one
    mask = shifted("shl", ones, start & 255)
    return whole & ~mask | shifted("shl", part, start & 255) & mask


def permuted(a: Array, b: Array, selector: Array) -> Array:
    """prmt: four of eight bytes, or their signs."""
    both = b.astype(np.uint64) << np.uint64(32) | a.astype(np.uint64)
    made = np.zeros(np.broadcast_shapes(a.shape, selector.shape), np.uint32)
    for byte in range(4):
        choice = selector >> np.uint32(4 * byte) & np.uint32(15)
        found = (both >> ((choice & np.uint32(7)).astype(np.uint64) * np.uint64(8))).astype(np.uint32) & np.uint32(255)
        sign = np.where(found >= 128, np.uint32(255), np.uint32(0))
        made |= np.where(choice >= 8, sign, found) << np.uint32(8 * byte)
    return made


def counted(name: str, x: Array) -> Array:
    """popc, clz, brev and bfind of words."""
    size = 8 * x.dtype.itemsize
    bits = x[..., None] >> np.arange(size).astype(x.dtype) & x.dtype.type(1)
    if name == "popc":
        return bits.sum(-1).astype(np.uint32)
    if name == "brev":
        weights = x.dtype.type(1) << np.arange(size - 1, -1, -1).astype(x.dtype)
        return (bits * weights).sum(-1).astype(x.dtype)
    highest = np.where(bits.any(-1), size - 1 - np.argmax(bits[..., ::-1], -1), -1)
    return (size - 1 - highest if name == "clz" else highest).astype(np.int64).astype(np.uint32)


ROUNDED = {"rni": np.rint, "rmi": np.floor, "rpi": np.ceil, "rzi": np.trunc}


def converted(x: Array, target: str, modifiers: list[str]) -> Array:
    """cvt to another type: floats to integers stop at the ends, and a NaN is 0."""
    dtype = np.dtype(DTYPES[target])
    rounding = next((ROUNDED[m] for m in modifiers if m in ROUNDED), None)
    is_float = x.dtype.kind not in "iub"
    if dtype.kind in "iu":
        if not is_float:
            if "sat" in modifiers:
                x = np.clip(x, np.iinfo(dtype).min, np.iinfo(dtype).max)
            return x.astype(dtype)
        return _integers((rounding or np.trunc)(wide(x)), dtype)
    if is_float and rounding is not None:
        return rounding(x).astype(dtype)
    if "rz" in modifiers or "rm" in modifiers or "rp" in modifiers:
        return _toward(x, dtype, next(m for m in modifiers if m in ("rz", "rm", "rp")))
    if (dtype.itemsize == 2 and not is_float) or (dtype == ml_dtypes.bfloat16 and x.dtype == np.float64):
        return x.astype(np.float32).astype(dtype)
    return x.astype(dtype)


def _integers(x: Array, dtype: Any) -> Array:
    ends = np.iinfo(dtype)
    inside = np.where((x >= float(ends.min)) & (x < float(ends.max) + (dtype.itemsize < 8)), x, 0)
    made = inside.astype(dtype)
    made = np.where(x >= float(ends.max), dtype.type(ends.max), made)
    made = np.where(x <= float(ends.min), dtype.type(ends.min), made)
    return np.where(np.isnan(x), dtype.type(0), made).astype(dtype)


def _toward(x: Array, dtype: Any, direction: str) -> Array:
    """A float that is nearest from one side."""
    near = x.astype(dtype)
    back = near.astype(x.dtype)
    if direction == "rz":
        beyond, end = np.abs(back) > np.abs(x), dtype.type(0)
    elif direction == "rm":
        beyond, end = back > x, dtype.type(-np.inf)
    else:
        beyond, end = back < x, dtype.type(np.inf)
    if x.dtype.kind in "iu":
        raise Unknown("an integer rounded to one side")
    return np.where(beyond, np.nextafter(near, end), near).astype(dtype)


TWO: dict[str, Callable[[Array, Array], Array]] = {
    "add": operator.add, "sub": operator.sub, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip


def computed(parts: list[str], values: list[Array]) -> Array:
    """What an instruction makes of its operands, given the parts of its name but the type."""
    name, rest = parts[0], parts[1:]
    floats = values[0].dtype.kind not in "iub"
    if "ftz" in rest and floats and values[0].dtype == np.float32:
        return flushed(_of_values(name, rest, [flushed(v) if v.dtype == np.float32 else v for v in values], floats))
    return _of_values(name, rest, values, floats)


def _of_values(name: str, rest: list[str], values: list[Array], floats: bool) -> Array:
    match name:
        case "add" | "sub" if floats and values[0].dtype.itemsize == 2:
            return _rounded_once(TWO[name](wide(values[0]), wide(values[1])), values[0].dtype.type)
        case "add" | "sub" | "and" | "or" | "xor":
            return TWO[name](*values)
        case "not":
            return ~values[0]
        case "neg":
            return -values[0]
        case "abs":
            return np.abs(values[0])
        case "copysign":
            return np.copysign(values[1], values[0])
        case "min" | "max":
            return smallest(*values[:2], name == "max", "NaN" in rest)
        case "mul" if floats:
            return _rounded_once(wide(values[0]) * wide(values[1]), values[0].dtype.type) if (
                values[0].dtype.itemsize == 2) else values[0] * values[1]
        case "mul":
            if "wide" in rest:
                return multiplied_wide(*values)
            return _high(*values) if "hi" in rest else values[0] * values[1]
        case "mad":
            if "wide" in rest:
                return multiplied_wide(*values[:2]) + values[2]
            return (_high(*values[:2]) if "hi" in rest else values[0] * values[1]) + values[2]
        case "fma":
            return fused_multiply_add(*values)
        case "div" if floats:
            return values[0] / values[1]
        case "div":
            return _divided(*values)[0]
        case "rem":
            return _divided(*values)[1]
        case "sqrt" | "rcp" if "rn" in rest:
            return np.sqrt(values[0]) if name == "sqrt" else values[0].dtype.type(1) / values[0]
        case "shl" | "shr":
            return shifted(name, *values)
        case "popc" | "clz" | "brev" | "bfind":
            return counted(name, values[0])
        case _ if name in APPROXIMATE:
            return of_one_float(name, values[0])
    raise Unknown(f"PTX's {name}")
