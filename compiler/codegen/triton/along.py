"""Scans along a dimension in Triton: a line in steps, the sum of what came before carried along."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from eagerjit.compiler.codegen.builder import FLOATS
from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import STEP, TILE, Shape, known
from eagerjit.compiler.codegen.triton.names import Name
from eagerjit.compiler.codegen.triton.operations import Function
from eagerjit.compiler.codegen.triton.source import INT32, TASKS, Launch, StatementKernel, TritonSource, multiples
from eagerjit.compiler.codegen.triton.tiles import DEFAULT, power_of_two
from eagerjit.compiler.loops import Along, Kernel

CONSTANTS = ("TASKS", "LANES", "WIDE")


class AlongText(KernelText):
    """Writes one such kernel."""

    def __init__(self, kernel: Kernel, statement: Along):
        super().__init__(kernel, Shape(True, "loop"))
        self.statement = statement

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        self.emit("line = tl.program_id(0)")
        self.emit("if WIDE:")
        self.emit("    line = line.to(tl.int64)")
        for line in self._scan():
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


class AlongKernel(StatementKernel[Along]):
    """A scan of the IR for the GPU, used like a `TritonKernel`."""

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        return (self.file(AlongText(self.kernel, self.statement), CONSTANTS, (TASKS,)),)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and grid for so many lines of these sizes."""
        extent, inner = known(self.statement.extent, sizes), known(self.statement.inner, sizes)
        lanes = min(power_of_two(extent), STEP)
        constants = {"LANES": lanes, "WIDE": int((tasks + inner) * extent >= INT32)}
        source = self.sources[0]
        aligned = multiples(source, tasks, sizes)
        constants["TASKS"] = rows = min(power_of_two(tasks), max(TILE // lanes, 1))
        return Launch(source, constants, 4, max(-(-tasks // rows), 1), aligned)
