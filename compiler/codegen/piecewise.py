"""Odd, saturating functions of f32 (tanh, erf) as polynomials per interval: no exponential, no division.

The polynomial's coefficients come from tables: of 32 numbers per quarter of an octave, looked up by the argument's
leading bits, or of 8 per half, where the function needs no more. Where vector registers can be permuted by other
registers the tables live in registers.
"""

from __future__ import annotations

import functools

from eagerjit.compiler.codegen.builder import Value, float_text, round_to_single
from eagerjit.compiler.codegen.numeric import at_least, at_most, by_registers, magnitude, with_sign

Table = tuple[tuple[float, ...], ...]
FIRST = 0.125
"""Below, f(x) = x + x p(x); from here on f(x) = f(centre) + (x - centre) p(x - centre)."""
FIRST_HALF = 0.5
HALVES = 1.5 * 2.0**22
"""An f32 plus this is rounded to a whole number of halves, which is in the lowest bits of the sum."""


def odd_function(x: Value, name: str, table: Table, limit: float) -> Value:
    """The function whose coefficients per quarter of an octave are in `table`; it is constant beyond `limit`."""
    a = at_most(magnitude(x), limit)
    column = at_least(a, FIRST * 0.96).bitcast("u32") >> 21
    return with_sign(_by_table(a, a < FIRST, name, table, column), x)


def odd_function_of_halves(x: Value, name: str, table: Table) -> Value:
    """The function whose coefficients for 0 to 1/2, 1/2 to 1 and so on are in `table`; it is constant from 4 on."""
    a = at_most(magnitude(x), 4.0 - 2.0**-20)
    column = ((a - FIRST_HALF / 2) + HALVES).bitcast("u32")
    return with_sign(_by_table(a, a <= FIRST_HALF, name, table, column), x)


def _by_table(a: Value, first: Value, name: str, table: Table, column: Value) -> Value:
    """The function of a magnitude, which lies in the first interval or has the centre that the table says."""
    b = a.builder
    columns = [lookup(f"{name}{power}", row, column) for power, row in enumerate(table)]
    d = a - columns[0]
    result = columns[-1]
    for coefficient in reversed(columns[2:-1]):
        result = b.fma(d, result, coefficient)
    return b.fma(d, result, b.select(first, a, columns[1]))


def lookup(name: str, table: tuple[float, ...], index: Value) -> Value:
    """table[index modulo its 8 or 32 numbers], f32."""
    b, size = index.builder, len(table)
    if b.lookup is not None:
        return b.lookup(name, table, index)
    if b.width_bits == 512 and index.lanes and index.lanes % 16 == 0:
        return by_registers(lambda i: _permute_32(table, i) if size == 32 else _permute_16(table * 2, i), 16, index)
    if b.width_bits == 256 and index.lanes and index.lanes % 8 == 0:
        return by_registers(lambda i: _permute_8s(table, i) if size == 32 else _permute_8(table, i), 8, index)
    return _load(name, table, index & (size - 1))


@functools.cache
def _elements(numbers: tuple[float, ...]) -> str:
    """The elements of a vector or array constant."""
    return ", ".join(f"float {float_text(round_to_single(number))}" for number in numbers)


def _literal(numbers: tuple[float, ...]) -> str:
    """A vector constant with its type."""
    return f"<{len(numbers)} x float> <{_elements(numbers)}>"


def _permute_32(table: tuple[float, ...], index: Value) -> Value:
    operands = f"{_literal(table[:16])}, <16 x i32> {index.text}, {_literal(table[16:])}"
    text = f"call <16 x float> @llvm.x86.avx512.vpermi2var.ps.512({operands})"
    return index.builder.pure("f32", 16, text, index.depth)


def _permute_16(table: tuple[float, ...], index: Value) -> Value:
    text = f"call <16 x float> @llvm.x86.avx512.permvar.sf.512({_literal(table)}, <16 x i32> {index.text})"
    return index.builder.pure("f32", 16, text, index.depth)


def _permute_8(table: tuple[float, ...], index: Value) -> Value:
    text = f"call <8 x float> @llvm.x86.avx2.permps({_literal(table)}, <8 x i32> {index.text})"
    return index.builder.pure("f32", 8, text, index.depth)


def _permute_8s(table: tuple[float, ...], index: Value) -> Value:
    """Four permutations, and the next two bits of the index choose among them."""
    b = index.builder
    parts = [_permute_8(table[start : start + 8], index) for start in range(0, 32, 8)]
    upper, uppermost = (index & 8).ne(0), (index & 16).ne(0)
    return b.select(uppermost, b.select(upper, parts[3], parts[2]), b.select(upper, parts[1], parts[0]))


def _load(name: str, table: tuple[float, ...], index: Value) -> Value:
    """Through memory."""
    b = index.builder
    b.helpers.add(f"@eagerjit.{name} = internal constant [{len(table)} x float] [{_elements(table)}], align 64")
    kind = b.type("ptr", index.lanes)
    text = f"getelementptr float, ptr @eagerjit.{name}, {b.type('u32', index.lanes)} {index.text}"
    place = b.pure("ptr", index.lanes, text, index.depth)
    if not index.lanes:
        return b.pure("f32", 0, f"load float, ptr {place.text}", index.depth)
    lanes = index.lanes
    operands = f"{kind} {place.text}, i32 4, <{lanes} x i1> splat (i1 true), <{lanes} x float> zeroinitializer"
    text = f"call <{lanes} x float> @llvm.masked.gather.v{lanes}f32.v{lanes}p0({operands})"
    return b.pure("f32", lanes, text, index.depth)
