"""Searches in Triton: places in sorted rows, by halving, a block of values at a time; where flags hold.

Those that go along lines are in `running.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import Shape, known
from eagerjit.compiler.codegen.triton.operations import Function
from eagerjit.compiler.codegen.triton.running import ADD, RecurrenceText, RunningText, lines_of
from eagerjit.compiler.codegen.triton.source import (
    INT32,
    Launch,
    StatementKernel,
    TritonSource,
    multiples,
)  # fmt: skip
from eagerjit.compiler.codegen.triton.tiles import DEFAULT, power_of_two
from eagerjit.compiler.loops import FLAGS, PIECE, Kernel, Search

VALUES = 256
"""Values that one program looks up."""
ON_FLAGS = ("count flags", "positions")


class SearchText(KernelText):
    """Writes one such kernel."""

    def __init__(self, kernel: Kernel, statement: Search):
        super().__init__(kernel, Shape(statement.op not in ON_FLAGS, "loop"))
        self.statement = statement

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        self.emit("line = tl.program_id(0)")
        self.emit("if WIDE:")
        self.emit("    line = line.to(tl.int64)")
        if self.statement.op not in ON_FLAGS:
            lines = self._places()
        else:
            lines = self._positions() if self.statement.op == "positions" else self._count()
        for line in lines:
            self.emit(line)
        return self.lines

    def _places(self) -> list[str]:
        s = self.statement
        (out, row, values), (extent, per_row) = s.memory, s.sizes
        after = "other > value" if s.op.endswith("right") else "other >= value"
        return [
            "i = line * LANES + tl.arange(0, LANES)",
            "inside = i < tasks",
            f"value = tl.load({values} + i, mask=inside)",
            f"start = {row} + i // {per_row} * {extent}",
            "low = tl.full((LANES,), 0, tl.int64)",
            f"high = low + {extent}",
            "for _ in range(0, HALVINGS):",
            "    middle = (low + high) // 2",
            "    other = tl.load(start + middle, mask=inside & (low < high))",
            f"    after = {after}",
            "    low = tl.where((low < high) & ~after, middle + 1, low)",
            "    high = tl.where((low < high) & after, middle, high)",
            f"tl.store({out} + i, low, mask=inside)",
        ]

    def _flags(self) -> list[str]:
        (_, flags, *_), (extent, *_) = self.statement.memory, self.statement.sizes
        self.functions["add"] = Function("add", ADD)
        return [
            "i = line * LANES + tl.arange(0, LANES)",
            f"flag = tl.load({flags} + i, mask=i < {extent}, other=0).to(tl.int64)",
        ]

    def _count(self) -> list[str]:
        return [*self._flags(), f"tl.store({self.statement.memory[0]} + line, tl.reduce(flag, 0, add))"]

    def _positions(self) -> list[str]:
        (out, _, counts, sums), (_, count) = self.statement.memory, self.statement.sizes
        return [
            *self._flags(),
            "if SCANNED:",
            f"    before = tl.load({sums} + line - 1, mask=line > 0, other=0)",
            "else:",
            "    earlier = tl.full((LANES,), 0, tl.int64)",
            "    for first in range(0, line, LANES):",
            "        block = first + tl.arange(0, LANES)",
            f"        earlier += tl.load({counts} + block, mask=block < line, other=0)",
            "    before = tl.reduce(earlier, 0, add)",
            "place = before + tl.associative_scan(flag, 0, add) - 1",
            f"tl.store({out} + place, i.to(tl.int64), mask=(flag != 0) & (place < {count}))",
        ]


WRITERS: dict[str, Callable[[Kernel, Search], KernelText]] = {"running": RunningText, "recurrence": RecurrenceText}


class SearchKernel(StatementKernel[Search]):
    """A search of the IR for the GPU, used like a `TritonKernel`."""

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        writer = WRITERS.get(self.statement.op.split()[0], SearchText)
        text = writer(self.kernel, self.statement)
        return (self.file_as_named(text, ("TASKS", "LANES", "HALVINGS", "SCANNED", "WIDE")),)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and grid for so many values or lines of these sizes."""
        extent, *others = (known(x, sizes) for x in self.statement.sizes)
        source = self.sources[0]
        aligned = multiples(source, tasks, sizes)
        if self.statement.op in ON_FLAGS:
            constants = {"LANES": FLAGS, "WIDE": int(extent + FLAGS >= INT32)}
            if "SCANNED" in source.constants:
                constants["SCANNED"] = int(tasks >= PIECE)
            return Launch(source, constants, 4, tasks, aligned)
        if self.statement.op.startswith("search"):
            lanes = min(power_of_two(tasks), VALUES)
            wide = int((tasks + others[0]) * extent >= INT32)
            constants = {"LANES": lanes, "HALVINGS": extent.bit_length(), "WIDE": wide}
            return Launch(source, constants, 4, max(-(-tasks // lanes), 1), aligned)
        along = lines_of(self.statement)
        lines = along.lines(tasks, extent)
        constants, programs = along.programs(lines, extent, others[0])
        constants["WIDE"] = int((lines + others[0]) * extent >= INT32)
        return Launch(source, constants, 4, programs, aligned)
