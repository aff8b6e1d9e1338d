"""The machine code of `multiply_tile` and `multiply_seen`: tiles of products whose factors lie where tables say."""

from __future__ import annotations

import ast
from collections.abc import Callable

from eagerjit.runtime.native.expressions import ExpressionTranslator, Value
from eagerjit.runtime.native.vector_code import Vectors, count, local_variable, loop, row_of


def multiply_tile(code: ExpressionTranslator, node: ast.Call) -> Value:
    """A's numbers side by side, B's runs apart."""
    from eagerjit.runtime.native.tiles import TILE_ROWS  # asks LLVM for the processor

    count(code, node, 7, 8)
    vectors = code.constant(node.args[0], "the vectors of a tile")
    k = code.typed(node.args[1], "i64").text
    a, b, places, c = (code.typed(argument, "ptr").text for argument in node.args[2:6])
    c_row = code.typed(node.args[6], "i64").text
    adds = code.condition(node.args[7]).text if len(node.args) > 7 else "true"

    def operands(at: str) -> tuple[str, list[str]]:
        offset = _table_entry(code, places, at)
        numbers = code.emit("ptr", f"getelementptr [{TILE_ROWS} x float], ptr {a}, i64 {at}").text
        each = [code.emit("ptr", f"getelementptr float, ptr {numbers}, i64 {r}").text for r in range(TILE_ROWS)]
        return code.emit("ptr", f"getelementptr i8, ptr {b}, i32 {offset}").text, each

    return _tile(code, vectors, k, operands, c, c_row, adds)


def multiply_seen(code: ExpressionTranslator, node: ast.Call) -> Value:
    """A's numbers apart, B's runs at equal distances."""
    from eagerjit.runtime.native.tiles import TILE_ROWS

    count(code, node, 9)
    vectors = code.constant(node.args[0], "the vectors of a tile")
    k = code.typed(node.args[1], "i64").text
    a, rows, places, b = (code.typed(argument, "ptr").text for argument in node.args[2:6])
    b_row = code.typed(node.args[6], "i64").text
    c = code.typed(node.args[7], "ptr").text
    c_row = code.typed(node.args[8], "i64").text
    starts = []
    for r in range(TILE_ROWS):
        offset = _table_entry(code, rows, str(r))
        starts.append(code.emit("ptr", f"getelementptr i8, ptr {a}, i32 {offset}").text)

    def operands(at: str) -> tuple[str, list[str]]:
        offset = _table_entry(code, places, at)
        each = [code.emit("ptr", f"getelementptr i8, ptr {start}, i32 {offset}").text for start in starts]
        floats = code.emit("i64", f"mul i64 {at}, {b_row}").text
        return code.emit("ptr", f"getelementptr float, ptr {b}, i64 {floats}").text, each

    return _tile(code, vectors, k, operands, c, c_row)


def _table_entry(code: ExpressionTranslator, table: str, at: str) -> str:
    place = code.emit("ptr", f"getelementptr i32, ptr {table}, i64 {at}").text
    return code.emit("i32", f"load i32, ptr {place}, align 4").text


def _tile(
    code: ExpressionTranslator, vectors: int, k: str, operands: Callable[[str], tuple[str, list[str]]], c: str,
    c_row: str, adds: str = "true",
) -> Value:  # fmt: skip
    """TILE_ROWS rows of so many vectors, kept in registers: to each, over k, a number of A's times a run of B's.

    `operands` gives for an index below k the address of the run and those of the numbers. `adds`: to what C holds.
    """
    from eagerjit.runtime.native.tiles import LANES, TILE_ROWS

    line = Vectors(code, "float", LANES)
    starts = [row_of(code, c, c_row, r) for r in range(TILE_ROWS)]
    places = [[line.beside(start, v) for v in range(vectors)] for start in starts]
    sums = [[local_variable(code, line.type, _if(adds, line, place)) for place in row] for row in places]
    with loop(code, k) as at:
        run, numbers = operands(at)
        right = [line.load(line.beside(run, v)) for v in range(vectors)]
        for r in range(TILE_ROWS):
            left = line.number(numbers[r])
            for factor, total in zip(right, sums[r], strict=True):
                line.hold(line.sum(left, factor, line.held(total)), total)
    for totals, row in zip(sums, places, strict=True):
        for total, place in zip(totals, row, strict=True):
            line.store(line.held(total), place)
    return Value("void", "")


def _if(adds: str, line: Vectors, place: str) -> str:
    """What lies at a place, zeros where nothing is added to it."""
    chosen = f"select i1 {adds}, {line.type} {line.load(place)}, {line.type} zeroinitializer"
    return line.code.emit("vector", chosen).text
