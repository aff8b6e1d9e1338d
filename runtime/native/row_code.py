"""The machine code of `add_scaled_rows`: rows scaled and added up in registers."""

from __future__ import annotations

import ast

from eagerjit.runtime.native.expressions import ExpressionTranslator, Value
from eagerjit.runtime.native.vector_code import Vectors, count, local_variable, loop

_ARGUMENTS = "i64", "ptr", "ptr", "ptr", "i64", "ptr", "i64"


def add_scaled_rows(code: ExpressionTranslator, node: ast.Call) -> Value:
    """One loop over the entries; the last vector is masked where it is not full."""
    from eagerjit.runtime.native.tiles import LANES  # asks LLVM for the processor

    count(code, node, 9)
    item, vectors = (code.constant(a, "the size of an element and the vectors of a row") for a in node.args[:2])
    given = [code.typed(a, kind) for a, kind in zip(node.args[2:], _ARGUMENTS, strict=True)]
    entries, weights, places, x, step, out, used = (value.text for value in given)
    row = Vectors(code, "float", LANES) if item == 4 else Vectors(code, "double", LANES // 2)
    last = None if given[-1].constant == row.lanes else _Masked(row, used)
    totals = [local_variable(code, row.type, "zeroinitializer") for _ in range(vectors)]
    with loop(code, entries) as at:
        place = code.emit("ptr", f"getelementptr i64, ptr {places}, i64 {at}").text
        number = code.emit("i64", f"load i64, ptr {place}, align 8").text
        bytes_ = code.emit("i64", f"mul i64 {number}, {step}").text
        line = code.emit("ptr", f"getelementptr i8, ptr {x}, i64 {bytes_}").text
        weight = row.number(code.emit("ptr", f"getelementptr {row.scalar}, ptr {weights}, i64 {at}").text)
        each = [(total, last if last and v == vectors - 1 else row, v) for v, total in enumerate(totals)]
        for total, part, v in each:
            value = part.load(row.beside(line, v))
            row.hold(row.sum(weight, value, row.held(total)), total)
    for total, part, v in each:
        part.store(row.held(total), row.beside(out, v))
    return Value("void", "")


class _Masked:
    """The first lanes of vectors in memory."""

    def __init__(self, whole: Vectors, used: str):
        code, lanes = whole.code, whole.lanes
        numbers = Vectors(code, "i64", lanes)
        self.whole, self.mask_type = whole, f"<{lanes} x i1>"
        first = f"<{', '.join(f'i64 {lane}' for lane in range(lanes))}>"
        self.mask = numbers.of("icmp slt", first, numbers.each(used))
        name, kind = f"@llvm.masked.{{}}.{whole.suffix}.p0", whole.type
        self._load, self._store = name.format("load"), name.format("store")
        code.declare(f"declare {kind} {self._load}(ptr, i32, {self.mask_type}, {kind})")
        code.declare(f"declare void {self._store}({kind}, ptr, i32, {self.mask_type})")

    def load(self, address: str) -> str:
        kind = self.whole.type
        given = f"ptr {address}, i32 {self.whole.item}, {self.mask_type} {self.mask}, {kind} zeroinitializer"
        return self.whole.code.emit("vector", f"call {kind} {self._load}({given})").text

    def store(self, value: str, address: str) -> None:
        given = f"{self.whole.type} {value}, ptr {address}, i32 {self.whole.item}, {self.mask_type} {self.mask}"
        self.whole.code.lines.append(f"  call void {self._store}({given})")
