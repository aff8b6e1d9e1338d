"""Sine, cosine and tangent of arguments up to the largest f64, one at a time.

The argument is a whole number m times 2^e, so only a window of the bits of 2/pi decides m*2^e * 2/pi modulo 4. What
lies above it contributes multiples of four turns of pi/2, what lies below is too small. 192 bits leave 124 correct.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from eagerjit.compiler.codegen.builder import Builder, Value
from eagerjit.compiler.codegen.numeric import magnitude, two_sum

TWO_OVER_PI = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
    0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)  # fmt: skip
Finish = Callable[[Value, Value, Value], Value]
TABLE = "@eagerjit.two_over_pi"


def large_lanes(function: str, x: Value, result: Value, largest: float, finish: Finish) -> Value:
    """`result`, with the lanes where |x| exceeds `largest` computed one by one by a helper named after `function`.

    `finish` gives the result from the number of quarter turns and the rest of the angle, for one f64.
    """
    b = x.builder
    large = magnitude(x) > largest
    if b.huge_argument is not None:
        return b.huge_argument(x, large, result, finish)
    b.helpers |= {_table(), _helper(function, finish, x.dtype)}
    before, rare, done = b.block, b.name("rare"), b.name("done")
    seldom = '!prof !{!"branch_weights", i32 1, i32 4000}'
    b.emit(f"br i1 {b.any_lane(large).text}, label %{rare}, label %{done}, {seldom}")
    kept = set(b.frames[-1].known)
    b.label(rare)
    kind, slow = b.type(x.dtype, x.lanes), Value(b, x.dtype, x.lanes, b.name("%v"), b.depth)
    slot = b.alloca(kind)
    b.emit(f"store {kind} {x.text}, ptr {slot}")
    b.emit(f"call void @eagerjit.huge_{function}_{x.dtype}(ptr {slot}, i64 {x.lanes or 1})")
    b.emit(f"{slow.text} = load {kind}, ptr {slot}")
    mixed = b.select(large, slow, result)
    b.emit(f"br label %{done}")
    b.forget_since(kept)
    b.label(done)
    return b.phi(x.dtype, x.lanes, [(result.text, before), (mixed.text, rare)], b.depth)


@functools.cache
def _table() -> str:
    words = ", ".join(f"i64 {word - (1 << 64) if word >> 63 else word}" for word in TWO_OVER_PI)
    return f"{TABLE} = internal constant [{len(TWO_OVER_PI)} x i64] [{words}]"


@functools.cache
def _helper(function: str, finish: Finish, dtype: str) -> str:
    """The definition of the helper, which replaces `count` numbers in memory.

    It is compiled without optimisation (optnone), for it rarely runs, but every kernel with the function carries it.
    """
    b = Builder(128)
    element = b.type(dtype, 0)
    i, following, place = (Value(b, "i64", 0, name, 1) for name in ("%i", "%following", "%place"))
    loaded = Value(b, dtype, 0, "%loaded", 1)
    b.open_loop()
    x = loaded if dtype == "f64" else b.convert("fpext", loaded, "f64")
    result = finish(*_reduce(b, x))
    result = b.select(magnitude(x) < float("inf"), result, float("nan"))
    result = result if dtype == "f64" else b.convert("fptrunc", result, "f32")
    return "\n".join([
        f"define internal void @eagerjit.huge_{function}_{dtype}(ptr %values, i64 %count) noinline optnone cold #0 {{",
        "entry:", "  br label %lane", "lane:",
        f"  {i.text} = phi i64 [ 0, %entry ], [ {following.text}, %lane ]",
        f"  {place.text} = getelementptr {element}, ptr %values, i64 {i.text}",
        f"  {loaded.text} = load {element}, ptr {place.text}",
        *b.lines,
        f"  store {element} {result.text}, ptr {place.text}",
        f"  {following.text} = add i64 {i.text}, 1",
        f"  %more = icmp slt i64 {following.text}, %count",
        "  br i1 %more, label %lane, label %done", "done:", "  ret void", "}",
    ])  # fmt: skip


def _reduce(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """The quarter turns in x (modulo 4), and what is left as a sum of two."""
    bits = x.bitcast("u64")
    # Other lanes come along: small numbers, NaN and inf must stay inside the table.
    field = b.intrinsic("umin", b.intrinsic("umax", (bits >> 52) & 0x7FF, 1075 + 2 - 64), 0x7FE)
    mantissa = (bits & 0xFFFFFFFFFFFFF) | 0x10000000000000
    position = field - (1075 + 2 - 64)
    first, shift = position >> 6, position & 63
    words = [_load_word(b, first + i) for i in range(4)]
    window = [b.intrinsic("fshl", words[i], words[i + 1], shift) for i in range(3)]
    wide = [b.convert("zext", word, "u128") for word in (mantissa, *window)]
    product = ((wide[0] * wide[1]) << 64) + wide[0] * wide[2] + ((wide[0] * wide[3]) >> 64)
    quarter = b.convert("trunc", product >> 126, "i64")
    fraction = product << 2
    high = b.convert("trunc", fraction >> 64, "i64")
    quarter = b.select(high < 0, quarter + 1, quarter)
    low = b.convert("trunc", fraction, "u64")
    parts = (high >> 32, high & 0xFFFFFFFF, (low >> 32).view("i64"), (low & 0xFFFFFFFF).view("i64"))
    a0, a1, a2, a3 = (b.convert("sitofp", part, "f64") * 2.0 ** (-32 * (i + 1)) for i, part in enumerate(parts))
    s, e0 = two_sum(a0, a1)
    s, e1 = two_sum(s, a2 + a3)
    s, rest = two_sum(s, e0 + e1)
    r = s * 1.5707963267948966
    r_low = b.fma(s, 1.5707963267948966, -r) + b.fma(s, 6.123233995736766e-17, rest * 1.5707963267948966)
    negative = bits >> 63
    r, r_low = (b.select(negative.ne(0), -v, v) for v in (r, r_low))
    return b.select(negative.ne(0), -quarter, quarter), r, r_low


def _load_word(b: Builder, index: Value) -> Value:
    place, word = b.name("%p"), Value(b, "u64", 0, b.name("%v"), b.depth)
    b.emit(f"{place} = getelementptr i64, ptr {TABLE}, i64 {index.text}")
    b.emit(f"{word.text} = load i64, ptr {place}")
    return word
