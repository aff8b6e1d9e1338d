"""The machine code of `multiply_panel`: a tile of a product in registers, for every number of rows and vectors."""

from __future__ import annotations

import ast

from eagerjit.runtime.native.expressions import ExpressionTranslator, Value
from eagerjit.runtime.native.vector_code import Vectors, count, local_variable, row_of

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
    more, alone, end = code.label(), code.label(), code.label()
    code.branch(code.emit("i1", f"icmp ne i64 {add}, 0"), more, alone)
    for label, adds in ((more, True), (alone, False)):
        code.place(label)
        for r in range(rows):
            start = row_of(code, c, c_row, r)
            for v in range(vectors):
                place, total = line.beside(start, v), line.held(sums[r][v])
                line.store(line.of("fadd", line.load(place), total) if adds else total, place)
        code.jump(end)
    code.place(end)
