"""Scans and orders along a dimension in Triton.

A scan takes a line in steps, the sum of what came before carried along. An order counts for every element those that
come before it, which is its place: stable, for every dtype, and in parallel over elements and lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from eagerjit.compiler.codegen.builder import FLOATS
from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import STEP, TILE, Shape
from eagerjit.compiler.codegen.triton.names import Name
from eagerjit.compiler.codegen.triton.operations import HALVES, Function
from eagerjit.compiler.codegen.triton.source import (
    INT32,
    TASKS,
    Launch,
    TritonSource,
    file_text,
    multiples,
    power_of_two,
)  # fmt: skip
from eagerjit.compiler.codegen.triton.tiles import DEFAULT
from eagerjit.compiler.loops import Along, Kernel

ELEMENTS = 128
"""Elements whose places one program finds."""
COMPARED = 32
"""Elements that these are compared with at a time."""
CONSTANTS = {True: ("TASKS", "LANES", "WIDE"), False: ("LANES", "STEP", "WIDE")}


class AlongText(KernelText):
    """Writes one such kernel."""

    def __init__(self, kernel: Kernel, statement: Along, is_scan: bool):
        super().__init__(kernel, Shape(is_scan, "loop"))
        self.statement, self.is_scan = statement, is_scan

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        self.emit("line = tl.program_id(0)")
        if not self.is_scan:
            self.emit(f"blocks = ({self.statement.extent} + LANES - 1) // LANES")
            self.emit("block = line % blocks")
            self.emit("line = line // blocks")
        self.emit("if WIDE:")
        self.emit("    line = line.to(tl.int64)")
        for line in self._scan() if self.is_scan else self._order():
            self.emit(line)
        return self.lines

    def _scan(self) -> list[str]:
        s = self.statement
        kind = "f64" if s.dtype in FLOATS else "i64"
        type_ = f"tl.{'float' if kind == 'f64' else 'int'}64"
        combine, start = f"{s.op}_{kind}", (0 if s.op == "add" else 1)
        both = self.operation(s.op, [Name("x", kind), Name("y", kind)], kind)
        self.functions[combine] = Function(combine, f"@triton.jit\ndef {combine}(x, y):\n    return {both}\n")
        return [
            "line = line * TASKS + tl.arange(0, TASKS)[:, None]",
            f"start = line // {s.inner} * ({s.extent} * {s.inner}) + line % {s.inner}",
            f"total = tl.full((TASKS, 1), {start}, {type_})",
            f"for first in range(0, {s.extent}, LANES):",
            "    i = first + tl.arange(0, LANES)[None, :]",
            f"    inside = (line < tasks) & (i < {s.extent})",
            f"    x = tl.load({s.x} + (start + i * {s.inner}), mask=inside, other={start}).to({type_})",
            f"    y = {combine}(total, tl.associative_scan(x, 1, {combine}))",
            f"    tl.store({s.out} + (start + i * {s.inner}), y, mask=inside)",
            f"    total = {combine}(total, tl.reduce(x, 1, {combine}, keep_dims=True))",
        ]

    def _order(self) -> list[str]:
        s = self.statement
        wide = ".to(tl.float32)" if s.dtype in HALVES else ""
        first, second = ("a", "b") if s.op == "ascending" else ("b", "a")
        less, equal = f"{first} < {second}", "a == b"
        if s.dtype in FLOATS:  # NaN comes after all numbers
            less = f"({less}) | (({second} != {second}) & ({first} == {first}))"
            equal = f"({equal}) | ((a != a) & (b != b))"
        self.functions["precedes"] = Function(
            "precedes",
            f"@triton.jit\ndef precedes(a, j, b, i):\n    return ({less}) | (({equal}) & (j < i))\n",
        )
        self.functions["add_i32"] = Function("add_i32", "@triton.jit\ndef add_i32(x, y):\n    return x + y\n")
        return [
            f"rest = line % {s.inner}",
            f"outer = line // {s.inner}",
            f"start = {s.x} + (outer * ({s.extent} * {s.inner}) + rest)",
            "i = block * LANES + tl.arange(0, LANES)[None, :]",
            f"b = tl.load(start + i * {s.inner}, mask=i < {s.extent}){wide}",
            "place = tl.full((LANES,), 0, tl.int32)",
            f"for first in range(0, {s.extent}, STEP):",
            "    j = first + tl.arange(0, STEP)[:, None]",
            f"    a = tl.load(start + j * {s.inner}, mask=j < {s.extent}){wide}",
            f"    before = precedes(a, j, b, i) & (j < {s.extent})",
            "    place += tl.reduce(before.to(tl.int32), 0, add_i32)",
            "at = block * LANES + tl.arange(0, LANES)",
            f"kept = (at < {s.extent}) & (place < {s.count})",
            f"tl.store({s.out} + (outer * ({s.count} * {s.inner}) + place * {s.inner} + rest), "
            "at.to(tl.int64), mask=kept)",
        ]


class AlongKernel:
    """A scan or an order of the IR for the GPU, used like a `TritonKernel`."""

    def __init__(self, kernel: Kernel, lines: Sequence[str] = ()):
        (statement,) = kernel.body
        assert isinstance(statement, Along)
        self.kernel, self.statement, self.lines = kernel, statement, tuple(lines)
        self.is_scan = statement.op in ("add", "mul")

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        writer = AlongText(self.kernel, self.statement, self.is_scan)
        writer.body()
        params = self.kernel.params + (TASKS,) * self.is_scan
        return (file_text(self.kernel, writer, params, CONSTANTS[self.is_scan], self.lines),)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and grid for so many lines of these sizes."""
        extent, inner = (sizes[x] if isinstance(x, str) else x for x in (self.statement.extent, self.statement.inner))
        lanes = min(power_of_two(extent), STEP if self.is_scan else ELEMENTS)
        constants = {"LANES": lanes, "WIDE": int((tasks + inner) * extent >= INT32)}
        source = self.sources[0]
        aligned = multiples(source, tasks, sizes)
        if not self.is_scan:
            constants["STEP"] = min(power_of_two(extent), COMPARED)
            return Launch(source, constants, 4, tasks * max(-(-extent // lanes), 1), aligned)
        constants["TASKS"] = rows = min(power_of_two(tasks), max(TILE // lanes, 1))
        return Launch(source, constants, 4, max(-(-tasks // rows), 1), aligned)
