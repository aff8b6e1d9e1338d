"""Weighted rows in Triton: a sparse matrix, given row by row, times a dense one.

A program takes rows of the result and a block of columns, and reads some entries of every row at a time. What they add
stays apart until a row ends: the order of its sum depends on how many rows, columns and entries there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import TILE, Shape, blocks_of, known
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
from eagerjit.compiler.codegen.triton.tiles import DEFAULT, power_of_two
from eagerjit.compiler.codegen.triton.values import TYPES
from eagerjit.compiler.loops import Kernel, Weighted

CONSTANTS = ("TASKS", "ENTRIES", "LANES", "WIDE")
COLUMNS = 128
"""Columns of a program, at most."""


class WeightedText(KernelText):
    """Writes one such kernel."""

    def __init__(self, kernel: Kernel, statement: Weighted):
        super().__init__(kernel, Shape(True, "loop"))
        self.statement = statement

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        s = self.statement
        for name, both in (("add", "x + y"), ("larger", "tl.maximum(x, y)")):
            self.functions[name] = Function(name, f"@triton.jit\ndef {name}(x, y):\n    return {both}\n")
        for line in (
            f"blocks = {blocks_of(str(s.columns), 'LANES')}",
            "block = tl.program_id(0) % blocks",
            "row = tl.program_id(0) // blocks * TASKS + tl.arange(0, TASKS)",
            "if WIDE:",
            "    row = row.to(tl.int64)",
            "i = (block * LANES + tl.arange(0, LANES))[None, None, :]",
            f"begin = tl.load({s.starts} + row, mask=row < tasks, other=0)",
            f"end = tl.load({s.starts} + row + 1, mask=row < tasks, other=0)",
            f"total = tl.full((TASKS, ENTRIES, LANES), 0.0, {TYPES[s.dtype]})",
            "for first in range(0, tl.reduce(end - begin, 0, larger), ENTRIES):",
            "    entry = (begin + first)[:, None] + tl.arange(0, ENTRIES)[None, :]",
            "    among = entry < end[:, None]",
            f"    weight = tl.load({s.weights} + entry, mask=among, other=0.0)[:, :, None]",
            f"    place = tl.load({s.places} + entry, mask=among, other=0)[:, :, None]",
            f"    inside = among[:, :, None] & (i < {s.columns})",
            f"    total += weight * tl.load({s.x} + (place * {s.columns} + i), mask=inside, other=0.0)",
            f"at = row[:, None, None] * {s.columns} + i",
            f"inside = (row < tasks)[:, None, None] & (i < {s.columns})",
            f"tl.store({s.out} + at, tl.reduce(total, 1, add, keep_dims=True), mask=inside)",
        ):
            self.emit(line)
        return self.lines


class WeightedKernel(StatementKernel[Weighted]):
    """Weighted rows of the IR for the GPU, used like a `TritonKernel`."""

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        return (self.file(WeightedText(self.kernel, self.statement), CONSTANTS, (TASKS,)),)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and grid for so many rows of these sizes: as many entries at a time as a row has on average."""
        s = self.statement
        columns, entries = known(s.columns, sizes), known(s.entries, sizes)
        lanes = min(power_of_two(columns), COLUMNS)
        together = min(power_of_two(entries // max(tasks, 1)), TILE // lanes)
        rows = min(power_of_two(tasks), TILE // (lanes * together))
        constants = {"TASKS": rows, "ENTRIES": together, "LANES": lanes, "WIDE": int(tasks * columns >= INT32)}
        programs = max(-(-tasks // rows) * -(-columns // lanes), 1)
        source = self.sources[0]
        return Launch(source, constants, warps_for(rows * together * lanes), programs, multiples(source, tasks, sizes))
