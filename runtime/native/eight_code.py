"""Emits the operations that `language` names on eight numbers side by side."""

from __future__ import annotations

import ast

from eagerjit.runtime.native.expressions import ExpressionTranslator, Value
from eagerjit.runtime.native.vector_code import Vectors, count, row_of

_TURNED = "ptr", "i64", "ptr", "i64"


def transpose_tile(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Rows of eight in registers."""
    count(code, node, 5)
    n_rows = code.constant(node.args[0], "the number of rows, 4 or 8")
    to, to_row, source, source_row = (code.typed(a, kind).text for a, kind in zip(node.args[1:], _TURNED, strict=True))
    wide, narrow = Vectors(code, "float", 8), Vectors(code, "float", n_rows)
    rows = wide.turned([wide.load(row_of(code, source, source_row, r)) for r in range(n_rows)])
    for r in range(8):
        turned, place = rows[r % n_rows], row_of(code, to, to_row, r)
        if n_rows == 4:  # a register holds two columns
            turned = wide.shuffled(turned, "poison", [r // 4 * 4 + lane for lane in range(4)])
        narrow.store(turned, place)
    return Value("void", "")


def transpose_wide(code: ExpressionTranslator, node: ast.Call) -> Value:
    """Rows of four in registers."""
    count(code, node, 4)
    to, to_row, source, source_row = (code.typed(a, kind).text for a, kind in zip(node.args, _TURNED, strict=True))
    four = Vectors(code, "double", 4)
    rows = four.turned([four.load(row_of(code, source, source_row, r, "double")) for r in range(4)])
    for r, turned in enumerate(rows):
        four.store(turned, row_of(code, to, to_row, r, "double"))
    return Value("void", "")


def less_of_eight(code: ExpressionTranslator, node: ast.Call) -> Value:
    """A bit for each comparison, counted."""
    count(code, node, 2)
    source, bound = code.typed(node.args[0], "ptr").text, code.typed(node.args[1], "i64").text
    eight = Vectors(code, "i64", 8)
    bounds = eight.each(bound)
    less = eight.of("icmp slt", eight.load(source), bounds)
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
