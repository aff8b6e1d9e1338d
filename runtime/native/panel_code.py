"""The machine code of `multiply_panel`, `multiply_squares` and `multiply_runs`: products that stay in registers.

A panel's tile has any number of rows and vectors, and reads B's columns side by side. The others read B's columns as
runs. Squares of these are turned in registers: for few rows that takes less than to pack B. One row is multiplied with
them as they lie, and what the lanes of a register hold is added at the end.
"""

from __future__ import annotations

import ast

from eagerjit.runtime.native.expressions import ExpressionTranslator, Value
from eagerjit.runtime.native.vector_code import Vectors, count, local_variable, loop, row_of

_ARGUMENTS = "i64", "i64", "i64", "ptr", "ptr", "i64", "ptr", "i64", "i64"


def multiply_panel(code: ExpressionTranslator, node: ast.Call) -> Value:
    """One loop over k for each number of rows and vectors; a switch picks one."""
    from eagerjit.runtime.native.tiles import TILE_ROWS, TILE_VECTORS  # asks LLVM for the processor

    count(code, node, len(_ARGUMENTS))
    given = [code.typed(argument, kind).text for argument, kind in zip(node.args, _ARGUMENTS, strict=True)]
    rows, vectors, *operands = given
    done, cases, blocks = code.label(), [], []
    high = TILE_ROWS
    while high:
        for wide in range(1, TILE_VECTORS + 1):
            blocks.append((code.label(), high, wide))
            cases.append(f"i64 {high * (TILE_VECTORS + 1) + wide}, label %{blocks[-1][0]}")
        high //= 2
    scaled = code.emit("i64", f"mul i64 {rows}, {TILE_VECTORS + 1}").text
    which = code.emit("i64", f"add i64 {scaled}, {vectors}").text
    code.lines.append(f"  switch i64 {which}, label %{done} [ {' '.join(cases)} ]")
    for label, high, wide in blocks:
        code.place(label)
        _tile(code, high, wide, *operands)
        code.jump(done)
    code.place(done)
    return Value("void", "")


def _tile(
    code: ExpressionTranslator, rows: int, vectors: int, k: str, a: str, b: str, b_row: str, c: str, c_row: str,
    add: str,
) -> None:  # fmt: skip
    """So many rows of so many vectors: over k, a number of A's times a run of B's; then C is that, or that more."""
    from eagerjit.runtime.native.tiles import LANES, TILE_ROWS

    line = Vectors(code, "float", LANES)
    sums = [[local_variable(code, line.type, "zeroinitializer") for _ in range(vectors)] for _ in range(rows)]
    numbers, run, left = local_variable(code, "ptr", a), local_variable(code, "ptr", b), local_variable(code, "i64", k)
    again, body, finished = code.label(), code.label(), code.label()
    code.jump(again)
    code.place(again)
    count = code.emit("i64", f"load i64, ptr {left}").text
    code.branch(code.emit("i1", f"icmp sgt i64 {count}, 0"), body, finished)
    code.place(body)
    code.lines.append(f"  store i64 {code.emit('i64', f'sub i64 {count}, 1').text}, ptr {left}")
    at_a, at_b = (code.emit("ptr", f"load ptr, ptr {place}").text for place in (numbers, run))
    right = [line.load(line.beside(at_b, v)) for v in range(vectors)]
    for r in range(rows):
        left = line.number(code.emit("ptr", f"getelementptr float, ptr {at_a}, i64 {r}").text)
        for factor, total in zip(right, sums[r], strict=True):
            line.hold(line.sum(left, factor, line.held(total)), total)
    for place, step in ((numbers, TILE_ROWS), (run, b_row)):
        at = at_a if place == numbers else at_b
        following = code.emit("ptr", f"getelementptr float, ptr {at}, i64 {step}").text
        code.lines.append(f"  store ptr {following}, ptr {place}")
    code.jump(again)
    code.place(finished)
    _put(code, line, sums, c, c_row, add)


def _put(code: ExpressionTranslator, line: Vectors, sums: list[list[str]], c: str, c_row: str, add: str) -> None:
    """The sums become rows of C, or are added to them."""
    more, alone, end = code.label(), code.label(), code.label()
    code.branch(code.emit("i1", f"icmp ne i64 {add}, 0"), more, alone)
    for label, adds in ((more, True), (alone, False)):
        code.place(label)
        for r, row in enumerate(sums):
            start = row_of(code, c, c_row, r)
            for v, variable in enumerate(row):
                place, total = line.beside(start, v), line.held(variable)
                line.store(line.of("fadd", line.load(place), total) if adds else total, place)
        code.jump(end)
    code.place(end)


def multiply_squares(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Squares of as many columns and steps of k as a register has lanes, then single steps."""
    from eagerjit.runtime.native.tiles import LANES, TILE_ROWS

    count(code, node, 8)
    rows = code.constant(node.args[0], "the rows of a tile")
    kinds = ("i64", "ptr", "ptr", "i64", "ptr", "i64", "i64")
    given = (code.typed(argument, kind).text for argument, kind in zip(node.args[1:], kinds, strict=True))
    k, a, b, b_column, c, c_row, add = given
    line = Vectors(code, "float", LANES)
    sums = [[local_variable(code, line.type, "zeroinitializer")] for _ in range(rows)]

    def take(column: str, at: str) -> None:
        """A step of k: the numbers of a vector's columns times those of the rows."""
        numbers = code.emit("ptr", f"getelementptr [{TILE_ROWS} x float], ptr {a}, i64 {at}").text
        for r, (total,) in enumerate(sums):
            left = line.number(code.emit("ptr", f"getelementptr float, ptr {numbers}, i64 {r}").text)
            line.hold(line.sum(left, column, line.held(total)), total)

    squares = code.emit("i64", f"sdiv i64 {k}, {LANES}").text
    whole = code.emit("i64", f"mul i64 {squares}, {LANES}").text
    with loop(code, squares) as square:
        begin = code.emit("i64", f"mul i64 {square}, {LANES}").text
        corner = code.emit("ptr", f"getelementptr float, ptr {b}, i64 {begin}").text
        runs = [line.load(row_of(code, corner, b_column, j)) for j in range(LANES)]
        for step, column in enumerate(line.turned(runs)):
            take(column, code.emit("i64", f"add i64 {begin}, {step}").text)
    with loop(code, code.emit("i64", f"sub i64 {k}, {whole}").text) as single:
        at = code.emit("i64", f"add i64 {whole}, {single}").text
        place = code.emit("ptr", f"getelementptr float, ptr {b}, i64 {at}").text
        column = "poison"
        for j in range(LANES):
            number = code.emit("float", f"load float, ptr {row_of(code, place, b_column, j)}, align 4").text
            column = code.emit("vector", f"insertelement {line.type} {column}, float {number}, i64 {j}").text
        take(column, at)
    _put(code, line, sums, c, c_row, add)
    return Value("void", "")


def multiply_runs(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Products of one run and several: whole vectors, their lanes, then single numbers."""
    from eagerjit.runtime.native.tiles import LANES

    count(code, node, 6)
    columns = code.constant(node.args[0], "the columns of a product")
    kinds = ("i64", "ptr", "ptr", "i64", "ptr")
    k, a, b, b_column, c = (code.typed(x, kind).text for x, kind in zip(node.args[1:], kinds, strict=True))
    line = Vectors(code, "float", LANES)
    starts = [row_of(code, b, b_column, j) for j in range(columns)]
    sums = [local_variable(code, line.type, "zeroinitializer") for _ in starts]
    vectors = code.emit("i64", f"sdiv i64 {k}, {LANES}").text
    whole = code.emit("i64", f"mul i64 {vectors}, {LANES}").text
    with loop(code, vectors) as at:
        left, *right = (
            line.load(code.emit("ptr", f"getelementptr {line.type}, ptr {run}, i64 {at}").text) for run in (a, *starts)
        )
        for factor, total in zip(right, sums, strict=True):
            line.hold(line.sum(left, factor, line.held(total)), total)
    totals = [local_variable(code, "float", line.total(line.held(lanes))) for lanes in sums]
    single = Vectors(code, "float", 1)
    with loop(code, code.emit("i64", f"sub i64 {k}, {whole}").text) as after:
        at = code.emit("i64", f"add i64 {whole}, {after}").text
        left, *right = (
            single.load(code.emit("ptr", f"getelementptr float, ptr {run}, i64 {at}").text) for run in (a, *starts)
        )
        for factor, total in zip(right, totals, strict=True):
            single.hold(single.sum(left, factor, single.held(total)), total)
    for j, total in enumerate(totals):
        single.store(single.held(total), single.beside(c, j))
    return Value("void", "")
