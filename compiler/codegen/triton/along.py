"""Scans along a dimension in Triton: a line in steps, the sum of what came before carried along.

Of a long line that programs share, one kernel adds up all pieces but the last, the next one adds those before its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from eagerjit.compiler.codegen.builder import FLOATS
from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.lines import Lines
from eagerjit.compiler.codegen.triton.mapping import Shape, known
from eagerjit.compiler.codegen.triton.names import Name
from eagerjit.compiler.codegen.triton.operations import Function
from eagerjit.compiler.codegen.triton.source import (
    INT32,
    TASKS,
    Launch,
    StatementKernel,
    TritonSource,
    multiples,
    warps_for,
)  # fmt: skip
from eagerjit.compiler.codegen.triton.tiles import DEFAULT
from eagerjit.compiler.loops import Along, Kernel

CONSTANTS = ("TASKS", "LANES", "WIDE")


def _lines(s: Along) -> Lines:
    return Lines(s.extent, s.inner, bool(s.totals), not s.out)


class AlongText(KernelText):
    """Writes one such kernel."""

    def __init__(self, kernel: Kernel, statement: Along):
        super().__init__(kernel, Shape(True, "loop"))
        self.statement, self.along = statement, _lines(statement)
        self.kind = "f64" if statement.dtype in FLOATS else "i64"
        self.combine, self.start = f"{statement.op}_{self.kind}", int(statement.op == "mul")

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        op = self.statement.op
        both = self.operation(op, [Name("x", self.kind), Name("y", self.kind)], self.kind)
        self.functions[self.combine] = Function(
            self.combine, f"@triton.jit\ndef {self.combine}(x, y):\n    return {both}\n"
        )
        self.emit("line = tl.program_id(0)")
        self.emit("if WIDE:")
        self.emit("    line = line.to(tl.int64)")
        for line in [*self.along.head(), *(self._scan() if self.statement.out else self._total())]:
            self.emit(line)
        return self.lines

    def _started(self, columns: str) -> str:
        return f"tl.full((TASKS, {columns}), {self.start}, {self._type})"

    @property
    def _type(self) -> str:
        return f"tl.{'float' if self.kind == 'f64' else 'int'}64"

    def _steps(self) -> list[str]:
        """The start of a loop over steps, with their elements."""
        s = self.statement
        place = f"{s.x} + (start + i * {s.inner})"
        return [
            self.along.steps(),
            "    i = first + tl.arange(0, LANES)[None, :]",
            f"    inside = (line < {self.along.count}) & (i < {s.extent})",
            f"    x = tl.load({place}, mask=inside, other={self.start}).to({self._type})",
        ]

    def _scan(self) -> list[str]:
        s, combine = self.statement, self.combine
        return [
            f"total = {self._started('1')}",
            *(self._before() if s.totals else []),
            *self._steps(),
            f"    y = {combine}(total, tl.associative_scan(x, 1, {combine}))",
            f"    tl.store({s.out} + (start + i * {s.inner}), y, mask=inside)",
            f"    total = {combine}(total, tl.reduce(x, 1, {combine}, keep_dims=True))",
        ]

    def _before(self) -> list[str]:
        """What all pieces before this one come to."""
        s, combine = self.statement, self.combine
        return [
            "for first in range(0, piece, LANES):",
            "    other = first + tl.arange(0, LANES)[None, :]",
            "    among = (line < tasks) & (other < piece)",
            f"    x = tl.load({s.totals} + (other * tasks + line), mask=among, other={self.start})",
            f"    total = {combine}(total, tl.reduce(x, 1, {combine}, keep_dims=True))",
        ]

    def _total(self) -> list[str]:
        """What a piece comes to, lane by lane before lanes are combined."""
        s, combine = self.statement, self.combine
        return [
            f"total = {self._started('LANES')}",
            *self._steps(),
            f"    total = {combine}(total, x)",
            f"total = tl.reduce(total, 1, {combine}, keep_dims=True)",
            f"tl.store({s.totals} + (piece * lines + line), total, mask=line < lines)",
        ]


class AlongKernel(StatementKernel[Along]):
    """A scan of the IR for the GPU, used like a `TritonKernel`."""

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        return (self.file(AlongText(self.kernel, self.statement), CONSTANTS, (TASKS,)),)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and grid for so many lines of these sizes; of totals there are more tasks, if a line is long."""
        extent, inner = known(self.statement.extent, sizes), known(self.statement.inner, sizes)
        along = _lines(self.statement)
        lines = along.lines(tasks, extent)
        constants, programs = along.programs(lines, extent, inner)
        constants["WIDE"] = int((lines + inner) * extent >= INT32)
        source = self.sources[0]
        warps = warps_for(2 * constants["TASKS"] * constants["LANES"])  # numbers of two registers each
        return Launch(source, constants, warps, programs, multiples(source, tasks, sizes))
