"""The machine code of products of pairs: bfloat16 numbers k and k + 1 of a row times those of a column, added up.

Blocks are 16 rows of 16 pairs, 1,024 bytes, which fit a tile of AMX. Processors without tiles get no code.
"""

from __future__ import annotations

import ast

from eagerjit.runtime.native.eights import count, local_variable
from eagerjit.runtime.native.expressions import ExpressionTranslator, Value

_SIDE = 16
_BLOCK = 1024
_NOTHING = Value("void", "")


def multiply_pairs(code: ExpressionTranslator, node: ast.Call) -> Value:
    """C of 32 rows and columns: two blocks of rows times two of columns, all along the blocks of k.

    Tiles 0 to 3 hold sums, 4 and 5 rows, 6 and 7 columns.
    """
    count(code, node, 7)
    kinds = "i64", "ptr", "ptr", "ptr", "ptr", "ptr", "i64"
    given = [code.typed(argument, kind).text for argument, kind in zip(node.args, kinds, strict=True)]
    blocks, *starts, c, add = given
    if not _are_there():
        return _NOTHING
    places = []
    for tile in range(4):
        offset = (tile // 2 * _SIDE * 2 * _SIDE + tile % 2 * _SIDE) * 4
        places.append(code.emit("ptr", f"getelementptr i8, ptr {c}, i64 {offset}").text)
    more, alone, again, body, done = (code.label() for _ in range(5))
    runs = [local_variable(code, "ptr", start) for start in starts]
    left = local_variable(code, "i64", blocks)
    code.branch(code.emit("i1", f"icmp ne i64 {add}, 0"), more, alone)
    code.place(more)
    for tile, place in enumerate(places):
        _call(code, "tileloadd64", f"i8 {tile}", f"ptr {place}", f"i64 {2 * _SIDE * 4}")
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
    for tile, run in enumerate(runs, 4):
        at = code.emit("ptr", f"load ptr, ptr {run}").text
        _call(code, "tileloadd64", f"i8 {tile}", f"ptr {at}", "i64 64")
        following = code.emit("ptr", f"getelementptr i8, ptr {at}, i64 {_BLOCK}").text
        code.lines.append(f"  store ptr {following}, ptr {run}")
    for tile in range(4):
        _call(code, "tdpbf16ps", f"i8 {tile}", f"i8 {4 + tile // 2}", f"i8 {6 + tile % 2}")
    code.jump(again)
    code.place(done)
    for tile, place in enumerate(places):
        _call(code, "tilestored64", f"i8 {tile}", f"ptr {place}", f"i64 {2 * _SIDE * 4}")
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
