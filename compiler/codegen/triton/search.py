"""Searches in Triton: places in sorted rows, extremes and linear recurrences along lines, where flags hold.

A place is found by halving, a block of values at a time. What goes along lines is a scan of pairs, taken in steps with
the pair of all that came before carried along.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from eagerjit.compiler.codegen.builder import FLOATS
from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import STEP, TILE, Shape, known
from eagerjit.compiler.codegen.triton.operations import Function
from eagerjit.compiler.codegen.triton.source import (
    INT32,
    Launch,
    StatementKernel,
    TritonSource,
    multiples,
)  # fmt: skip
from eagerjit.compiler.codegen.triton.tiles import DEFAULT, power_of_two
from eagerjit.compiler.loops import FLAGS, Kernel, Search

VALUES = 256
"""Values that one program looks up."""
ON_FLAGS = ("count flags", "positions")

AFFINE = '''@triton.jit
def then(a, b, c, d):
    return a * c, b * c + d
'''
EXTREME = '''@triton.jit
def then(a, i, b, j):
    later = {later}
    return tl.where(later, b, a), tl.where(later, j, i)
'''
ADD = "@triton.jit\ndef add(x, y):\n    return x + y\n"


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
        if self.statement.op.startswith("search"):
            lines = self._places()
        elif self.statement.op in ON_FLAGS:
            lines = self._positions() if self.statement.op == "positions" else self._count()
        else:
            lines = self._running() if self.statement.op.startswith("running") else self._recurrence()
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

    def _along(self) -> list[str]:
        """The start of a kernel along lines."""
        extent, inner = self.statement.sizes
        return [
            "line = line * TASKS + tl.arange(0, TASKS)[:, None]",
            f"start = line // {inner} * ({extent} * {inner}) + line % {inner}",
        ]

    def _steps(self) -> list[str]:
        extent, inner = self.statement.sizes
        return [
            f"for first in range(0, {extent}, LANES):",
            "    lane = tl.arange(0, LANES)[None, :]",
            "    i = first + lane",
            "    last = lane == LANES - 1",
            f"    inside = (line < tasks) & (i < {extent})",
            f"    at = start + i * {inner}",
        ]

    def _running(self) -> list[str]:
        s = self.statement
        out, x = s.memory
        later = "b >= a" if s.op.endswith("max") else "b <= a"
        if s.dtype in FLOATS:
            later = f"({later}) | (b != b)"
        self.functions |= {"then": Function("then", EXTREME.format(later=later)), "add": Function("add", ADD)}
        return [
            *self._along(),
            f"best = tl.load({x} + start, mask=line < tasks)",
            "place = line.to(tl.int64) * 0",
            *self._steps(),
            f"    value = tl.load({x} + at, mask=inside)",
            "    places = i.to(tl.int64) + line * 0",
            "    values, found = tl.associative_scan((value, places), 1, then)",
            "    values, found = then(best, place, values, found)",
            f"    tl.store({out} + at, found, mask=inside)",
            "    place = tl.reduce(tl.where(last, found, 0), 1, add, keep_dims=True)",
            f"    best = tl.load({x} + start + place * {s.sizes[1]}, mask=line < tasks)",
        ]

    def _recurrence(self) -> list[str]:
        out, a, b = self.statement.memory
        self.functions |= {"then": Function("then", AFFINE), "add": Function("add", ADD)}
        return [
            *self._along(),
            "total = tl.full((TASKS, 1), 0.0, tl.float64)",
            *self._steps(),
            f"    a = tl.load({a} + at, mask=inside, other=1.0)",
            f"    b = tl.load({b} + at, mask=inside, other=0.0)",
            "    factors, totals = tl.associative_scan((a, b), 1, then)",
            "    totals = factors * total + totals",
            f"    tl.store({out} + at, totals, mask=inside)",
            "    total = tl.reduce(tl.where(last, totals, 0.0), 1, add, keep_dims=True)",
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
        (out, _, counts), (_, count) = self.statement.memory, self.statement.sizes
        return [
            "before = tl.full((LANES,), 0, tl.int64)",
            "for first in range(0, line, LANES):",
            "    block = first + tl.arange(0, LANES)",
            f"    before += tl.load({counts} + block, mask=block < line, other=0)",
            *self._flags(),
            "place = tl.reduce(before, 0, add) + tl.associative_scan(flag, 0, add) - 1",
            f"tl.store({out} + place, i.to(tl.int64), mask=(flag != 0) & (place < {count}))",
        ]


class SearchKernel(StatementKernel[Search]):
    """A search of the IR for the GPU, used like a `TritonKernel`."""

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        return (self.file_as_named(SearchText(self.kernel, self.statement), ("TASKS", "LANES", "HALVINGS", "WIDE")),)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and grid for so many values or lines of these sizes."""
        extent, *others = (known(x, sizes) for x in self.statement.sizes)
        source = self.sources[0]
        aligned = multiples(source, tasks, sizes)
        if self.statement.op in ON_FLAGS:
            return Launch(source, {"LANES": FLAGS, "WIDE": int(extent + FLAGS >= INT32)}, 4, tasks, aligned)
        wide = int((tasks + others[0]) * extent >= INT32)
        if self.statement.op.startswith("search"):
            lanes = min(power_of_two(tasks), VALUES)
            constants = {"LANES": lanes, "HALVINGS": extent.bit_length(), "WIDE": wide}
            return Launch(source, constants, 4, max(-(-tasks // lanes), 1), aligned)
        lanes = min(power_of_two(extent), STEP)
        rows = min(power_of_two(tasks), max(TILE // lanes, 1))
        constants = {"TASKS": rows, "LANES": lanes, "WIDE": wide}
        return Launch(source, constants, 4, max(-(-tasks // rows), 1), aligned)
