"""The machine code of `add_scaled_rows`: rows scaled and added up in registers."""

from __future__ import annotations

import ast

from eagerjit.runtime.native.eights import count
from eagerjit.runtime.native.expressions import ExpressionTranslator, Value

_ARGUMENTS = "i64", "ptr", "ptr", "ptr", "i64", "ptr", "i64"


def add_scaled_rows(code: ExpressionTranslator, node: ast.Call) -> Value:
    """One loop over the entries; the last vector is masked where it is not full."""
    from eagerjit.runtime.native.tiles import LANES  # asks LLVM for the processor

    count(code, node, 9)
    item, vectors = (code.constant(a, "the size of an element and the vectors of a row") for a in node.args[:2])
    given = [code.typed(a, kind) for a, kind in zip(node.args[2:], _ARGUMENTS, strict=True)]
    entries, weights, places, x, step, out, used = (value.text for value in given)
    number, lanes = ("float", LANES) if item == 4 else ("double", LANES // 2)
    vector, suffix = f"<{lanes} x {number}>", f"v{lanes}f{8 * item}"
    mask = "" if given[-1].constant == lanes else _first_lanes(code, lanes, used)

    code.declare(f"declare {vector} @llvm.fmuladd.{suffix}({vector}, {vector}, {vector})")
    if mask:
        code.declare(f"declare {vector} @llvm.masked.load.{suffix}.p0(ptr, i32, <{lanes} x i1>, {vector})")
        code.declare(f"declare void @llvm.masked.store.{suffix}.p0({vector}, ptr, i32, <{lanes} x i1>)")
    sums = [code.name() for _ in range(vectors)]
    counter = code.name()
    code.entry.append(f"  {counter} = alloca i64")
    code.lines.append(f"  store i64 0, ptr {counter}")
    for total in sums:
        code.entry.append(f"  {total} = alloca {vector}")
        code.lines.append(f"  store {vector} zeroinitializer, ptr {total}")
    again, body, done = code.label(), code.label(), code.label()
    code.jump(again)
    code.place(again)
    at = code.emit("i64", f"load i64, ptr {counter}").text
    code.branch(code.emit("i1", f"icmp slt i64 {at}, {entries}"), body, done)
    code.place(body)
    place = code.emit("ptr", f"getelementptr i64, ptr {places}, i64 {at}").text
    row = code.emit("i64", f"load i64, ptr {place}, align 8").text
    bytes_ = code.emit("i64", f"mul i64 {row}, {step}").text
    line = code.emit("ptr", f"getelementptr i8, ptr {x}, i64 {bytes_}").text
    place = code.emit("ptr", f"getelementptr {number}, ptr {weights}, i64 {at}").text
    weight = code.emit(number, f"load {number}, ptr {place}, align {item}").text
    single = code.emit("vector", f"insertelement {vector} poison, {number} {weight}, i64 0").text
    same = f"shufflevector {vector} {single}, {vector} poison, <{lanes} x i32> zeroinitializer"
    same = code.emit("vector", same).text
    for v, total in enumerate(sums):
        part = code.emit("ptr", f"getelementptr {vector}, ptr {line}, i64 {v}").text
        if mask and v == vectors - 1:
            rest = f"ptr {part}, i32 {item}, <{lanes} x i1> {mask}, {vector} zeroinitializer"
            value = code.emit("vector", f"call {vector} @llvm.masked.load.{suffix}.p0({rest})").text
        else:
            value = code.emit("vector", f"load {vector}, ptr {part}, align {item}").text
        before = code.emit("vector", f"load {vector}, ptr {total}").text
        factors = f"{vector} {same}, {vector} {value}, {vector} {before}"
        after = code.emit("vector", f"call {vector} @llvm.fmuladd.{suffix}({factors})").text
        code.lines.append(f"  store {vector} {after}, ptr {total}")
    following = code.emit("i64", f"add i64 {at}, 1").text
    code.lines.append(f"  store i64 {following}, ptr {counter}")
    code.jump(again)
    code.place(done)
    for v, total in enumerate(sums):
        part = code.emit("ptr", f"getelementptr {vector}, ptr {out}, i64 {v}").text
        value = code.emit("vector", f"load {vector}, ptr {total}").text
        if mask and v == vectors - 1:
            rest = f"{vector} {value}, ptr {part}, i32 {item}, <{lanes} x i1> {mask}"
            code.lines.append(f"  call void @llvm.masked.store.{suffix}.p0({rest})")
        else:
            code.lines.append(f"  store {vector} {value}, ptr {part}, align {item}")
    return Value("void", "")


def _first_lanes(code: ExpressionTranslator, lanes: int, used: str) -> str:
    """The mask of so many lanes."""
    kind = f"<{lanes} x i64>"
    single = code.emit("vector", f"insertelement {kind} poison, i64 {used}, i64 0").text
    same = f"shufflevector {kind} {single}, {kind} poison, <{lanes} x i32> zeroinitializer"
    numbers = ", ".join(f"i64 {lane}" for lane in range(lanes))
    return code.emit("mask", f"icmp slt {kind} <{numbers}>, {code.emit('vector', same).text}").text
