"""The machine code of products of pairs: bfloat16 numbers k and k + 1 of a row times those of a column, added up.

Blocks are 16 rows of 16 pairs, 1,024 bytes, which fit a tile of AMX. Where a processor multiplies pairs in vectors
only, vectors hold a part of the sums at a time. Processors without either get no code.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from eagerjit.runtime.native.expressions import ExpressionTranslator, Value
from eagerjit.runtime.native.vector_code import Vectors, count, local_variable, loop, row_of

Factors = Callable[[], list[tuple[str, str]]]

_SIDE = 16
_BLOCK = 1024
_ROWS = 8  # whose sums fit the vectors that there are
_PAIRS = "<32 x bfloat>"
_DOT = "@llvm.x86.avx512bf16.dpbf16ps.512"
_NOTHING = Value("void", "")


def multiply_pairs(code: ExpressionTranslator, node: ast.Call) -> Value:
    """C of 32 rows and columns: two blocks of rows times two of columns, all along the blocks of k."""
    count(code, node, 7)
    kinds = "i64", "ptr", "ptr", "ptr", "ptr", "ptr", "i64"
    blocks, *starts, c, add = (code.typed(a, kind).text for a, kind in zip(node.args, kinds, strict=True))

    def factors() -> Factors:
        runs = [local_variable(code, "ptr", start) for start in starts]
        return lambda: [(_stepping(code, run, _BLOCK), "64") for run in runs]

    return _product(code, blocks, factors, c, str(2 * _SIDE * 4), add)


def multiply_seen_pairs(code: ExpressionTranslator, node: ast.Call) -> Value:
    """C of 32 rows and columns: two blocks of rows times what lies in planes of pairs at each of some places."""
    count(code, node, 8)
    kinds = "i64", "ptr", "ptr", "ptr", "i64", "ptr", "i64", "i64"
    places, a, b, table, plane, c, c_row, add = (
        code.typed(argument, kind).text for argument, kind in zip(node.args, kinds, strict=True)
    )

    def factors() -> Factors:
        run, offset = local_variable(code, "ptr", a), local_variable(code, "ptr", table)

        def following() -> list[tuple[str, str]]:
            rows = _stepping(code, run, 2 * _BLOCK)
            place = code.emit("i32", f"load i32, ptr {_stepping(code, offset, 4)}, align 4").text
            seen = code.emit("ptr", f"getelementptr i8, ptr {b}, i32 {place}").text
            below = code.emit("ptr", f"getelementptr i8, ptr {rows}, i64 {_BLOCK}").text
            beside = code.emit("ptr", f"getelementptr i8, ptr {seen}, i64 {_SIDE * 4}").text
            return [(rows, "64"), (below, "64"), (seen, plane), (beside, plane)]

        return following

    return _product(code, places, factors, c, code.emit("i64", f"mul i64 {c_row}, 4").text, add)


def _stepping(code: ExpressionTranslator, variable: str, size: int) -> str:
    """The address that a variable holds, which moves on by so many bytes."""
    at = code.emit("ptr", f"load ptr, ptr {variable}").text
    following = code.emit("ptr", f"getelementptr i8, ptr {at}, i64 {size}").text
    code.lines.append(f"  store ptr {following}, ptr {variable}")
    return at


def _product(
    code: ExpressionTranslator, steps: str, factors: Callable[[], Factors], c: str, c_row: str, add: str
) -> Value:
    """Adds up products in so many steps.

    `factors` begins a run over the steps: what it returns gives for each where two blocks of rows and two of columns
    lie, and the bytes from a row of theirs to the next.
    """
    from eagerjit.runtime.native.tiles import HAS_PAIRS  # asks LLVM for the processor

    if _are_tiles():
        _in_tiles(code, steps, factors(), c, c_row, add)
    elif HAS_PAIRS:
        for first in range(0, 2 * _SIDE, _ROWS):
            _in_vectors(code, steps, factors(), c, c_row, add, first)
    return _NOTHING


def _in_tiles(code: ExpressionTranslator, steps: str, factors: Factors, c: str, c_row: str, add: str) -> None:
    """Tiles 0 to 3 hold sums, 4 and 5 rows, 6 and 7 columns."""
    places = []
    lower = code.emit("i64", f"mul i64 {c_row}, {_SIDE}").text
    for tile in range(4):
        row = code.emit("ptr", f"getelementptr i8, ptr {c}, i64 {lower}").text if tile // 2 else c
        places.append(code.emit("ptr", f"getelementptr i8, ptr {row}, i64 {tile % 2 * _SIDE * 4}").text)
    more, alone, begin = (code.label() for _ in range(3))
    code.branch(code.emit("i1", f"icmp ne i64 {add}, 0"), more, alone)
    code.place(more)
    for tile, place in enumerate(places):
        _call(code, "tileloadd64", f"i8 {tile}", f"ptr {place}", f"i64 {c_row}")
    code.jump(begin)
    code.place(alone)
    for tile in range(4):
        _call(code, "tilezero", f"i8 {tile}")
    code.jump(begin)
    code.place(begin)
    with loop(code, steps):
        for tile, (at, row) in enumerate(factors(), 4):
            _call(code, "tileloadd64", f"i8 {tile}", f"ptr {at}", f"i64 {row}")
        for tile in range(4):
            _call(code, "tdpbf16ps", f"i8 {tile}", f"i8 {4 + tile // 2}", f"i8 {6 + tile % 2}")
    for tile, place in enumerate(places):
        _call(code, "tilestored64", f"i8 {tile}", f"ptr {place}", f"i64 {c_row}")


def _in_vectors(
    code: ExpressionTranslator, steps: str, factors: Factors, c: str, c_row: str, add: str, first: int
) -> None:  # fmt: skip
    """Some of the rows: two vectors hold the sums of each."""
    line = Vectors(code, "float", _SIDE)
    code.declare(f"declare {line.type} {_DOT}({line.type}, {_PAIRS}, {_PAIRS})")
    starts = [row_of(code, c, c_row, first + r, "i8") for r in range(_ROWS)]
    places = [[line.beside(start, v) for v in range(2)] for start in starts]
    sums = [[local_variable(code, line.type, "zeroinitializer") for _ in row] for row in places]
    more, begin = code.label(), code.label()
    code.branch(code.emit("i1", f"icmp ne i64 {add}, 0"), more, begin)
    code.place(more)
    for row, totals in zip(places, sums, strict=True):
        for place, total in zip(row, totals, strict=True):
            line.hold(line.load(place), total)
    code.jump(begin)
    code.place(begin)
    with loop(code, steps):
        *rows, left, right = factors()
        block = code.emit("ptr", f"getelementptr i8, ptr {rows[first // _SIDE][0]}, i64 {first % _SIDE * 64}").text
        with loop(code, str(_SIDE)) as pair:
            number = code.emit("ptr", f"getelementptr float, ptr {block}, i64 {pair}").text
            columns = [_pairs(code, line.load(_row(code, at, step, pair))) for at, step in (left, right)]
            for r, totals in enumerate(sums):
                place = code.emit("ptr", f"getelementptr i8, ptr {number}, i64 {r * 64}").text
                factor = _pairs(code, line.number(place))
                for column, total in zip(columns, totals, strict=True):
                    given = f"{line.type} {line.held(total)}, {_PAIRS} {column}, {_PAIRS} {factor}"
                    line.hold(code.emit("vector", f"call {line.type} {_DOT}({given})").text, total)
    for row, totals in zip(places, sums, strict=True):
        for place, total in zip(row, totals, strict=True):
            line.store(line.held(total), place)


def _row(code: ExpressionTranslator, start: str, step: str, number: str) -> str:
    before = code.emit("i64", f"mul i64 {step}, {number}").text
    return code.emit("ptr", f"getelementptr i8, ptr {start}, i64 {before}").text


def _pairs(code: ExpressionTranslator, vector: str) -> str:
    """What was read as floats, as pairs."""
    return code.emit("vector", f"bitcast <{_SIDE} x float> {vector} to {_PAIRS}").text


def _are_tiles() -> bool:
    """Whether the processor has tiles."""
    from eagerjit.runtime.native.tiles import HAS_TILES  # asks LLVM for the processor

    return HAS_TILES


def tiles_begin(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Tells the processor what its tiles are."""
    count(code, node, 1)
    if _are_tiles():
        _call(code, "ldtilecfg", f"ptr {code.typed(node.args[0], 'ptr').text}")
    return _NOTHING


def tiles_end(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Tiles with contents would be saved at every switch of threads."""
    count(code, node, 0)
    if _are_tiles():
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
