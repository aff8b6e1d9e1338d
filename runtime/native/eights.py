"""Emits the operations that `language` names on eight numbers side by side."""

from __future__ import annotations

import ast

from eagerjit.runtime.native.expressions import ExpressionTranslator, Value

_TURNED = "ptr", "i64", "ptr", "i64"


def count(code: ExpressionTranslator, node: ast.Call, least: int, most: int | None = None) -> None:
    """Raises the translation error of a call with more or fewer arguments than an operation takes."""
    if not least <= len(node.args) <= (least if most is None else most):
        code.fail(node, f"{ast.unparse(node.func)} takes {least} arguments, {len(node.args)} are given")


def local_variable(code: ExpressionTranslator, kind: str, value: str) -> str:
    """A variable of the function, with its first value."""
    name = code.name()
    code.entry.append(f"  {name} = alloca {kind}")
    code.lines.append(f"  store {kind} {value}, ptr {name}")
    return name


def row_of(code: ExpressionTranslator, matrix: str, row: str, number: int, kind: str = "float") -> str:
    """The address of a row of a matrix."""
    before = code.emit("i64", f"mul i64 {row}, {number}").text
    return code.emit("ptr", f"getelementptr {kind}, ptr {matrix}, i64 {before}").text


def transpose_tile(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Rows of eight in registers; each step exchanges what lies off the diagonal of squares of 2, 4 and 8."""
    count(code, node, 5)
    n_rows = code.constant(node.args[0], "the number of rows, 4 or 8")
    to, to_row, source, source_row = (code.typed(a, kind).text for a, kind in zip(node.args[1:], _TURNED, strict=True))
    rows = []
    for r in range(n_rows):
        rows.append(code.emit("vector", f"load <8 x float>, ptr {row_of(code, source, source_row, r)}, align 4").text)
    for step in (1, 2, 4) if n_rows == 8 else (1, 2):
        for r in range(n_rows):
            if r & step:
                continue
            pair = f"<8 x float> {rows[r]}, <8 x float> {rows[r + step]}"
            upper = [8 + lane - step if lane & step else lane for lane in range(8)]
            lower = [8 + lane if lane & step else lane + step for lane in range(8)]
            for row, lanes in ((r, upper), (r + step, lower)):
                mask = ", ".join(f"i32 {lane}" for lane in lanes)
                rows[row] = code.emit("vector", f"shufflevector {pair}, <8 x i32> <{mask}>").text
    for r in range(8):
        turned, place = rows[r % n_rows], row_of(code, to, to_row, r)
        if n_rows == 4:  # a register holds two columns
            half = ", ".join(f"i32 {r // 4 * 4 + lane}" for lane in range(4))
            pair = f"<8 x float> {turned}, <8 x float> poison"
            turned = code.emit("vector", f"shufflevector {pair}, <4 x i32> <{half}>").text
        code.lines.append(f"  store <{n_rows} x float> {turned}, ptr {place}, align 4")
    return Value("void", "")


def transpose_wide(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Rows of four in registers, as `transpose_tile` does."""
    count(code, node, 4)
    to, to_row, source, source_row = (code.typed(a, kind).text for a, kind in zip(node.args, _TURNED, strict=True))
    rows = []
    for r in range(4):
        place = row_of(code, source, source_row, r, "double")
        rows.append(code.emit("vector", f"load <4 x double>, ptr {place}, align 8").text)
    for step in (1, 2):
        for r in range(4):
            if r & step:
                continue
            pair = f"<4 x double> {rows[r]}, <4 x double> {rows[r + step]}"
            upper = [4 + lane - step if lane & step else lane for lane in range(4)]
            lower = [4 + lane if lane & step else lane + step for lane in range(4)]
            for row, lanes in ((r, upper), (r + step, lower)):
                mask = ", ".join(f"i32 {lane}" for lane in lanes)
                rows[row] = code.emit("vector", f"shufflevector {pair}, <4 x i32> <{mask}>").text
    for r in range(4):
        code.lines.append(f"  store <4 x double> {rows[r]}, ptr {row_of(code, to, to_row, r, 'double')}, align 8")
    return Value("void", "")


def less_of_eight(code: ExpressionTranslator, node: ast.Call) -> Value:
    """A bit for each comparison, counted."""
    count(code, node, 2)
    source, bound = code.typed(node.args[0], "ptr").text, code.typed(node.args[1], "i64").text
    first = code.emit("vector", f"insertelement <8 x i64> poison, i64 {bound}, i32 0").text
    everywhere = f"<8 x i64> {first}, <8 x i64> poison, <8 x i32> zeroinitializer"
    bounds = code.emit("vector", f"shufflevector {everywhere}").text
    values = code.emit("vector", f"load <8 x i64>, ptr {source}, align 8").text
    less = code.emit("vector", f"icmp slt <8 x i64> {values}, {bounds}").text
    bits = code.emit("i8", f"bitcast <8 x i1> {less} to i8").text
    word = code.emit("i64", f"zext i8 {bits} to i64").text
    return code.emit("i64", f"call i64 @llvm.ctpop.i64(i64 {word})")


def run_eight(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Totals and numbers are vectors; floats are widened on the way in and rounded on the way out."""
    count(code, node, 6)
    item, real, product = (code.constant(a, "what the numbers are") for a in node.args[:3])
    totals, to, source = (code.typed(a, "ptr").text for a in node.args[3:])
    total, number = "<8 x double>" if real else "<8 x i64>", "<8 x float>" if item == 4 else "<8 x double>"
    number = number if real else total
    value = code.emit("vector", f"load {number}, ptr {source}, align {item}").text
    if number != total:
        value = code.emit("vector", f"fpext {number} {value} to {total}").text
    before = code.emit("vector", f"load {total}, ptr {totals}, align 64").text
    verb = ("f" if real else "") + ("mul" if product else "add")
    value = code.emit("vector", f"{verb} {total} {before}, {value}").text
    code.lines.append(f"  store {total} {value}, ptr {totals}, align 64")
    if number != total:
        value = code.emit("vector", f"fptrunc {total} {value} to {number}").text
    code.lines.append(f"  store {number} {value}, ptr {to}, align {item}")
    return Value("void", "")
