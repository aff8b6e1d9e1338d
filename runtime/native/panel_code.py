"""The machine code of `multiply_panel`: a tile of a product in registers, for every number of rows and vectors."""

from __future__ import annotations

import ast

from eagerjit.runtime.native.eights import local_variable
from eagerjit.runtime.native.expressions import ExpressionTranslator, Value

_ARGUMENTS = "i64", "i64", "i64", "ptr", "ptr", "i64", "ptr", "i64", "i64"


def multiply_panel(code: ExpressionTranslator, node: ast.Call) -> Value:
    """One loop over k for each number of rows and vectors; a switch picks one."""
    from eagerjit.runtime.native.tiles import TILE_ROWS, TILE_VECTORS  # asks LLVM for the processor

    if len(node.args) != len(_ARGUMENTS):
        code.fail(node, f"multiply_panel takes {len(_ARGUMENTS)} arguments, {len(node.args)} are given")
    given = [code.typed(argument, kind).text for argument, kind in zip(node.args, _ARGUMENTS, strict=True)]
    rows, vectors, *operands = given
    done, cases, blocks = code.label(), [], []
    count = TILE_ROWS
    while count:
        for wide in range(1, TILE_VECTORS + 1):
            blocks.append((code.label(), count, wide))
            cases.append(f"i64 {count * (TILE_VECTORS + 1) + wide}, label %{blocks[-1][0]}")
        count //= 2
    scaled = code.emit("i64", f"mul i64 {rows}, {TILE_VECTORS + 1}").text
    which = code.emit("i64", f"add i64 {scaled}, {vectors}").text
    code.lines.append(f"  switch i64 {which}, label %{done} [ {' '.join(cases)} ]")
    for label, count, wide in blocks:
        code.place(label)
        _tile(code, count, wide, *operands)
        code.jump(done)
    code.place(done)
    return Value("void", "")


def _tile(
    code: ExpressionTranslator, rows: int, vectors: int, k: str, a: str, b: str, b_row: str, c: str, c_row: str,
    add: str,
) -> None:  # fmt: skip
    """So many rows of so many vectors: over k, a number of A's times a run of B's; then C is that, or that more."""
    from eagerjit.runtime.native.tiles import LANES, TILE_ROWS

    kind = f"<{LANES} x float>"
    code.declare(f"declare {kind} @llvm.fmuladd.v{LANES}f32({kind}, {kind}, {kind})")
    sums = [[local_variable(code, kind, "zeroinitializer") for _ in range(vectors)] for _ in range(rows)]
    numbers, run, left = local_variable(code, "ptr", a), local_variable(code, "ptr", b), local_variable(code, "i64", k)
    again, body, finished = code.label(), code.label(), code.label()
    code.jump(again)
    code.place(again)
    count = code.emit("i64", f"load i64, ptr {left}").text
    code.branch(code.emit("i1", f"icmp sgt i64 {count}, 0"), body, finished)
    code.place(body)
    code.lines.append(f"  store i64 {code.emit('i64', f'sub i64 {count}, 1').text}, ptr {left}")
    at_a, at_b = (code.emit("ptr", f"load ptr, ptr {place}").text for place in (numbers, run))
    right = []
    for v in range(vectors):
        part = code.emit("ptr", f"getelementptr {kind}, ptr {at_b}, i64 {v}").text
        right.append(code.emit("vector", f"load {kind}, ptr {part}, align 4").text)
    for r in range(rows):
        place = code.emit("ptr", f"getelementptr float, ptr {at_a}, i64 {r}").text
        number = code.emit("float", f"load float, ptr {place}, align 4").text
        single = code.emit("vector", f"insertelement {kind} poison, float {number}, i64 0").text
        same = f"shufflevector {kind} {single}, {kind} poison, <{LANES} x i32> zeroinitializer"
        same = code.emit("vector", same).text
        for v in range(vectors):
            before = code.emit("vector", f"load {kind}, ptr {sums[r][v]}").text
            factors = f"{kind} {same}, {kind} {right[v]}, {kind} {before}"
            after = code.emit("vector", f"call {kind} @llvm.fmuladd.v{LANES}f32({factors})").text
            code.lines.append(f"  store {kind} {after}, ptr {sums[r][v]}")
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
            floats = code.emit("i64", f"mul i64 {c_row}, {r}").text
            line = code.emit("ptr", f"getelementptr float, ptr {c}, i64 {floats}").text
            for v in range(vectors):
                place = code.emit("ptr", f"getelementptr {kind}, ptr {line}, i64 {v}").text
                total = code.emit("vector", f"load {kind}, ptr {sums[r][v]}").text
                if adds:
                    before = code.emit("vector", f"load {kind}, ptr {place}, align 4").text
                    total = code.emit("vector", f"fadd {kind} {before}, {total}").text
                code.lines.append(f"  store {kind} {total}, ptr {place}, align 4")
        code.jump(end)
    code.place(end)
