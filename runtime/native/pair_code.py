"""The machine code of products of pairs: bfloat16 numbers k and k + 1 of a row times those of a column, added up.

Blocks are 16 rows of 16 pairs, 1,024 bytes, which fit a tile of AMX. Processors without tiles get no code.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from eagerjit.runtime.native.expressions import ExpressionTranslator, Value
from eagerjit.runtime.native.vector_code import count, local_variable

_SIDE = 16
_BLOCK = 1024
_NOTHING = Value("void", "")


def multiply_pairs(code: ExpressionTranslator, node: ast.Call) -> Value:
    """C of 32 rows and columns: two blocks of rows times two of columns, all along the blocks of k."""
    count(code, node, 7)
    kinds = "i64", "ptr", "ptr", "ptr", "ptr", "ptr", "i64"
    blocks, *starts, c, add = (code.typed(a, kind).text for a, kind in zip(node.args, kinds, strict=True))
    if not _are_there():
        return _NOTHING
    runs = [local_variable(code, "ptr", start) for start in starts]

    def factors() -> list[tuple[str, str]]:
        return [(_stepping(code, run, _BLOCK), "64") for run in runs]

    return _product(code, blocks, factors, c, str(2 * _SIDE * 4), add)


def multiply_seen_pairs(code: ExpressionTranslator, node: ast.Call) -> Value:
    """C of 32 rows and columns: two blocks of rows times what lies in planes of pairs at each of some places."""
    count(code, node, 8)
    kinds = "i64", "ptr", "ptr", "ptr", "i64", "ptr", "i64", "i64"
    places, a, b, table, plane, c, c_row, add = (
        code.typed(argument, kind).text for argument, kind in zip(node.args, kinds, strict=True)
    )
    if not _are_there():
        return _NOTHING
    run = local_variable(code, "ptr", a)
    offset = local_variable(code, "ptr", table)

    def factors() -> list[tuple[str, str]]:
        rows = _stepping(code, run, 2 * _BLOCK)
        place = code.emit("i32", f"load i32, ptr {_stepping(code, offset, 4)}, align 4").text
        seen = code.emit("ptr", f"getelementptr i8, ptr {b}, i32 {place}").text
        below = code.emit("ptr", f"getelementptr i8, ptr {rows}, i64 {_BLOCK}").text
        beside = code.emit("ptr", f"getelementptr i8, ptr {seen}, i64 {_SIDE * 4}").text
        return [(rows, "64"), (below, "64"), (seen, plane), (beside, plane)]

    return _product(code, places, factors, c, code.emit("i64", f"mul i64 {c_row}, 4").text, add)


def _stepping(code: ExpressionTranslator, variable: str, size: int) -> str:
    """The address that a variable holds, which moves on by so many bytes."""
    at = code.emit("ptr", f"load ptr, ptr {variable}").text
    following = code.emit("ptr", f"getelementptr i8, ptr {at}, i64 {size}").text
    code.lines.append(f"  store ptr {following}, ptr {variable}")
    return at


def _product(
    code: ExpressionTranslator, steps: str, factors: Callable[[], list[tuple[str, str]]], c: str, c_row: str, add: str
) -> Value:
    """Adds up products of tiles in so many steps: tiles 0 to 3 hold sums, 4 and 5 rows, 6 and 7 columns.

    `factors` gives for a step where the last four lie, and the bytes from a row of theirs to the next.
    """
    places = []
    lower = code.emit("i64", f"mul i64 {c_row}, {_SIDE}").text
    for tile in range(4):
        row = code.emit("ptr", f"getelementptr i8, ptr {c}, i64 {lower}").text if tile // 2 else c
        places.append(code.emit("ptr", f"getelementptr i8, ptr {row}, i64 {tile % 2 * _SIDE * 4}").text)
    more, alone, again, body, done = (code.label() for _ in range(5))
    left = local_variable(code, "i64", steps)
    code.branch(code.emit("i1", f"icmp ne i64 {add}, 0"), more, alone)
    code.place(more)
    for tile, place in enumerate(places):
        _call(code, "tileloadd64", f"i8 {tile}", f"ptr {place}", f"i64 {c_row}")
    code.jump(again)
    code.place(alone)
    for tile in range(4):
        _call(code, "tilezero", f"i8 {tile}")
    code.jump(again)
    code.place(again)
    number = code.emit("i64", f"load i64, ptr {left}").text
    code.branch(code.emit("i1", f"icmp sgt i64 {number}, 0"), body, done)
    code.place(body)
    code.lines.append(f"  store i64 {code.emit('i64', f'sub i64 {number}, 1').text}, ptr {left}")
    for tile, (at, row) in enumerate(factors(), 4):
        _call(code, "tileloadd64", f"i8 {tile}", f"ptr {at}", f"i64 {row}")
    for tile in range(4):
        _call(code, "tdpbf16ps", f"i8 {tile}", f"i8 {4 + tile // 2}", f"i8 {6 + tile % 2}")
    code.jump(again)
    code.place(done)
    for tile, place in enumerate(places):
        _call(code, "tilestored64", f"i8 {tile}", f"ptr {place}", f"i64 {c_row}")
    return _NOTHING


def _are_there() -> bool:
    """Whether the processor has tiles."""
    from eagerjit.runtime.native.tiles import HAS_PAIRS  # asks LLVM for the processor

    return HAS_PAIRS


def tiles_begin(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Tells the processor what its tiles are."""
    count(code, node, 1)
    if _are_there():
        _call(code, "ldtilecfg", f"ptr {code.typed(node.args[0], 'ptr').text}")
    return _NOTHING


def tiles_end(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Tiles with contents would be saved at every switch of threads."""
    count(code, node, 0)
    if _are_there():
        _call(code, "tilerelease")
    return _NOTHING


def _call(code: ExpressionTranslator, name: str, *arguments: str) -> None:
    """Calls an intrinsic of tiles, whose bytes are the numbers of tiles."""
    types = ", ".join(a.split()[0].replace("i8", "i8 immarg") for a in arguments)
    code.declare(f"declare void @llvm.x86.{name}({types})")
    code.lines.append(f"  call void @llvm.x86.{name}({', '.join(arguments)})")



def alternate_halves(code: ExpressionTranslator, node: ast.Call) -> Value:
    """16 numbers of two bytes and 16 others by turns."""
    count(code, node, 3)
    to, *sources = (code.typed(argument, "ptr").text for argument in node.args)
    first, second = (code.emit("vector", f"load <16 x i16>, ptr {source}, align 1").text for source in sources)
    mask = ", ".join(f"i32 {lane // 2 + lane % 2 * 16}" for lane in range(32))
    joined = code.emit("vector", f"shufflevector <16 x i16> {first}, <16 x i16> {second}, <32 x i32> <{mask}>").text
    code.lines.append(f"  store <32 x i16> {joined}, ptr {to}, align 1")
    return _NOTHING


def alternate_upper_halves(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Of 16 floats and of 16 others: little-endian words whose lower halves are the first's."""
    count(code, node, 3)
    to, *sources = (code.typed(argument, "ptr").text for argument in node.args)
    first, second = (code.emit("vector", f"load <16 x i32>, ptr {source}, align 1").text for source in sources)
    low = code.emit("vector", f"lshr <16 x i32> {first}, {_all_of(16, 16)}").text
    high = code.emit("vector", f"and <16 x i32> {second}, {_all_of(16, -65536)}").text
    joined = code.emit("vector", f"or <16 x i32> {low}, {high}").text
    code.lines.append(f"  store <16 x i32> {joined}, ptr {to}, align 1")
    return _NOTHING


def upper_halves(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Of 32 floats."""
    count(code, node, 2)
    to, source = (code.typed(argument, "ptr").text for argument in node.args)
    words = code.emit("vector", f"load <32 x i32>, ptr {source}, align 1").text
    high = code.emit("vector", f"lshr <32 x i32> {words}, {_all_of(32, 16)}").text
    halves = code.emit("vector", f"trunc <32 x i32> {high} to <32 x i16>").text
    code.lines.append(f"  store <32 x i16> {halves}, ptr {to}, align 1")
    return _NOTHING


def _all_of(lanes: int, number: int) -> str:
    return f"<{', '.join([f'i32 {number}'] * lanes)}>"


def round_sixteen(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Rounds to nearest even by integer arithmetic: the hardware instruction would flush subnormal numbers."""
    count(code, node, 2)
    to, source = (code.typed(argument, "ptr").text for argument in node.args)
    words, halves = "<16 x i32>", "<16 x i16>"
    value = code.emit("vector", f"load <16 x float>, ptr {source}, align 1").text
    bits = code.emit("vector", f"bitcast <16 x float> {value} to {words}").text
    high = code.emit("vector", f"lshr {words} {bits}, {_all_of(16, 16)}").text
    odd = code.emit("vector", f"and {words} {high}, {_all_of(16, 1)}").text
    bias = code.emit("vector", f"add {words} {odd}, {_all_of(16, 32767)}").text
    rounded = code.emit("vector", f"add {words} {bits}, {bias}").text
    rounded = code.emit("vector", f"lshr {words} {rounded}, {_all_of(16, 16)}").text
    quiet = code.emit("vector", f"or {words} {high}, {_all_of(16, 64)}").text
    is_nan = code.emit("vector", f"fcmp uno <16 x float> {value}, zeroinitializer").text
    chosen = code.emit("vector", f"select <16 x i1> {is_nan}, {words} {quiet}, {words} {rounded}").text
    short = code.emit("vector", f"trunc {words} {chosen} to {halves}").text
    code.lines.append(f"  store {halves} {short}, ptr {to}, align 1")
    return _NOTHING
