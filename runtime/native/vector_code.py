"""What functions of machine code are put together from: variables, rows of matrices, arithmetic on vectors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from eagerjit.runtime.native.expressions import ExpressionTranslator


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


@contextmanager
def loop(code: ExpressionTranslator, count: str) -> Iterator[str]:
    """What is emitted within the block runs for every index below a number; gives the index."""
    counter = local_variable(code, "i64", "0")
    again, body, done = code.label(), code.label(), code.label()
    code.jump(again)
    code.place(again)
    at = code.emit("i64", f"load i64, ptr {counter}").text
    code.branch(code.emit("i1", f"icmp slt i64 {at}, {count}"), body, done)
    code.place(body)
    yield at
    following = code.emit("i64", f"add i64 {at}, 1").text
    code.lines.append(f"  store i64 {following}, ptr {counter}")
    code.jump(again)
    code.place(done)


class Vectors:
    """Arithmetic on vectors of one type: so many lanes of `float`, `double` or `i64`."""

    def __init__(self, code: ExpressionTranslator, scalar: str, lanes: int):
        self.code, self.scalar, self.lanes = code, scalar, lanes
        self.item = 4 if scalar == "float" else 8
        self.type = f"<{lanes} x {scalar}>"
        self.suffix = f"v{lanes}{scalar if scalar == 'i64' else f'f{8 * self.item}'}"

    def beside(self, address: str, number: int) -> str:
        """The address so many vectors on."""
        return self.code.emit("ptr", f"getelementptr {self.type}, ptr {address}, i64 {number}").text

    def load(self, address: str) -> str:
        return self.code.emit("vector", f"load {self.type}, ptr {address}, align {self.item}").text

    def store(self, value: str, address: str) -> None:
        self.code.lines.append(f"  store {self.type} {value}, ptr {address}, align {self.item}")

    def held(self, variable: str) -> str:
        """What a variable of the function holds."""
        return self.code.emit("vector", f"load {self.type}, ptr {variable}").text

    def hold(self, value: str, variable: str) -> None:
        self.code.lines.append(f"  store {self.type} {value}, ptr {variable}")

    def each(self, number: str) -> str:
        """A number in every lane."""
        first = f"insertelement {self.type} poison, {self.scalar} {number}, i64 0"
        first = self.code.emit("vector", first).text
        return self.of("shufflevector", first, f"{self.type} poison, <{self.lanes} x i32> zeroinitializer")

    def number(self, address: str) -> str:
        """A number in memory, in every lane."""
        text = f"load {self.scalar}, ptr {address}, align {self.item}"
        return self.each(self.code.emit(self.scalar, text).text)

    def of(self, verb: str, a: str, b: str) -> str:
        return self.code.emit("vector", f"{verb} {self.type} {a}, {b}").text

    def sum(self, a: str, b: str, c: str) -> str:
        """a * b + c."""
        name = f"@llvm.fmuladd.{self.suffix}"
        self.code.declare(f"declare {self.type} {name}({self.type}, {self.type}, {self.type})")
        text = f"call {self.type} {name}({self.type} {a}, {self.type} {b}, {self.type} {c})"
        return self.code.emit("vector", text).text

    def shuffled(self, a: str, b: str, lanes: list[int]) -> str:
        """The named lanes of two vectors, the second's numbered after the first's."""
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.of("shufflevector", a, f"{self.type} {b}, <{len(lanes)} x i32> <{mask}>")

    def total(self, value: str) -> str:
        """The sum of a vector's lanes, half of which are added to the others at a time."""
        lanes = self.lanes
        while lanes > 1:
            half = Vectors(self.code, self.scalar, lanes // 2)
            whole = Vectors(self.code, self.scalar, lanes)
            low, high = (whole.shuffled(value, "poison", list(range(at, at + lanes // 2))) for at in (0, lanes // 2))
            value, lanes = half.of("fadd", low, high), lanes // 2
        return self.code.emit(self.scalar, f"extractelement <1 x {self.scalar}> {value}, i64 0").text

    def turned(self, rows: list[str]) -> list[str]:
        """Rows in registers, those of every square in them as its columns.

        Each step exchanges what lies off the diagonal of squares of 2, 4 and 8.
        """
        rows, step = list(rows), 1
        while step < len(rows):
            for r in range(len(rows)):
                if r & step:
                    continue
                pair, lanes = (rows[r], rows[r + step]), range(self.lanes)
                rows[r] = self.shuffled(*pair, [self.lanes + k - step if k & step else k for k in lanes])
                rows[r + step] = self.shuffled(*pair, [self.lanes + k if k & step else k + step for k in lanes])
            step *= 2
        return rows
