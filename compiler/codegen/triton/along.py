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
from eagerjit.compiler.codegen.triton.scaled import FUNCTIONS
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
            *self._pieces(),
            f"    x = tl.load({s.totals} + (other * tasks + line), mask=among, other={self.start})",
            f"    total = {combine}(total, tl.reduce(x, 1, {combine}, keep_dims=True))",
        ]

    def _pieces(self) -> list[str]:
        """The start of a loop over the pieces before this one."""
        return [
            "for first in range(0, piece, LANES):",
            "    other = first + tl.arange(0, LANES)[None, :]",
            "    among = (line < tasks) & (other < piece)",
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


class ScaledText(AlongText):
    """Writes one of products of floats: what some of them come to may be beyond all floats where a line's is not."""

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        self.functions |= FUNCTIONS
        return super().body()

    def _scan(self) -> list[str]:
        s = self.statement
        return [
            *self._nothing("1"),
            *(self._before() if s.totals else []),
            *self._steps(),
            "    x, i_x = split(x)",
            "    y, i_y = tl.associative_scan((x, i_x), 1, times)",
            "    y, i_y = times(total, power, y, i_y)",
            f"    tl.store({s.out} + (start + i * {s.inner}), joined(y, i_y), mask=inside)",
            *self._carry(),
        ]

    def _before(self) -> list[str]:
        at = "(other * tasks + line), mask=among"
        return [
            *self._pieces(),
            f"    x = tl.load({self.statement.totals} + {at}, other=1.0)",
            f"    i_x = tl.load({self.statement.powers} + {at}, other=0)",
            *self._carry(),
        ]

    def _total(self) -> list[str]:
        s = self.statement
        at = "(piece * lines + line)"
        return [
            *self._nothing("LANES"),
            *self._steps(),
            "    x, i_x = split(x)",
            "    total, power = times(total, power, x, i_x)",
            "total, power = tl.reduce((total, power), 1, times, keep_dims=True)",
            f"tl.store({s.totals} + {at}, total, mask=line < lines)",
            f"tl.store({s.powers} + {at}, power, mask=line < lines)",
        ]

    def _nothing(self, columns: str) -> list[str]:
        """The product of no elements."""
        return [f"total = {self._started(columns)}", f"power = tl.full((TASKS, {columns}), 0, tl.int64)"]

    def _carry(self) -> list[str]:
        """What a step comes to joins what came before."""
        return [
            "    x, i_x = tl.reduce((x, i_x), 1, times, keep_dims=True)",
            "    total, power = times(total, power, x, i_x)",
        ]


class AlongKernel(StatementKernel[Along]):
    """A scan of the IR for the GPU, used like a `TritonKernel`."""

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        scaled = self.statement.op == "mul" and self.statement.dtype in FLOATS
        writer = ScaledText if scaled else AlongText
        return (self.file(writer(self.kernel, self.statement), CONSTANTS, (TASKS,)),)

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
