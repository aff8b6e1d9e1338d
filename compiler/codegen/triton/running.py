"""Extremes so far and linear recurrences in Triton: scans of pairs along lines, in steps that carry a pair along.

Of a long line that programs share, one kernel finds the pairs of all pieces but the last, the next one those of all
that came before its own.
"""

from __future__ import annotations

from abc import abstractmethod

from eagerjit.compiler.codegen.builder import FLOATS
from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.lines import Lines
from eagerjit.compiler.codegen.triton.mapping import Shape
from eagerjit.compiler.codegen.triton.operations import Function
from eagerjit.compiler.loops import Kernel, Search

AFFINE = """@triton.jit
def then(a, b, c, d):
    return a * c, b * c + d
"""
PIECEWISE = """@triton.jit
def then_piece(a, b, c, d):
    return a * c, tl.where(b == 0.0, d, b * c + d)
"""
EXTREME = """@triton.jit
def then(a, i, b, j):
    later = {later}
    return tl.where(later, b, a), tl.where(later, j, i)
"""
ADD = "@triton.jit\ndef add(x, y):\n    return x + y\n"
BLOCK = ["    lane = tl.arange(0, LANES)[None, :]", "    last = lane == LANES - 1"]


def lines_of(s: Search) -> Lines:
    """How programs take the lines of such a search."""
    extent, inner = s.sizes
    ahead = s.op.endswith("ahead")
    return Lines(extent, inner, ahead or len(s.memory) > (2 if s.op.startswith("running") else 3), ahead)


def _last(value: str, zero: str) -> str:
    """The value of the last lane."""
    return f"tl.reduce(tl.where(last, {value}, {zero}), 1, add, keep_dims=True)"


class PairsText(KernelText):
    """Writes such a kernel: a block of pairs in two names is combined with the pair that is carried along."""

    inputs: int
    """How many tensors the pairs are made of; as many numbers are what a piece comes to."""
    carried: tuple[str, ...]
    """Those numbers."""
    result: str
    """What is the result among the pairs."""

    def __init__(self, kernel: Kernel, statement: Search):
        super().__init__(kernel, Shape(True, "loop"))
        self.statement, self.along = statement, lines_of(statement)
        *out, self.memory, self.totals = self._parts()
        self.out = "".join(*out)

    def _parts(self) -> list[tuple[str, ...]]:
        """The result, the inputs, and what pieces come to."""
        memory, n = self.statement.memory, self.inputs
        if self.along.ahead:
            return [(), memory[n:], memory[:n]]
        return [memory[:1], memory[1 : n + 1], memory[n + 1 :]]

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        self.functions["add"] = Function("add", ADD)
        extent, inner = self.statement.sizes
        self.emit("line = tl.program_id(0)")
        self.emit("if WIDE:")
        self.emit("    line = line.to(tl.int64)")
        for line in [
            *self.along.head(),
            *self.start(),
            *(self._before() if self.out and self.totals else []),
            self.along.steps(),
            *BLOCK,
            "    i = first + lane",
            f"    inside = (line < {self.along.count}) & (i < {extent})",
            f"    at = start + i * {inner}",
            *self.of_elements(),
            *([f"    tl.store({self.out} + at, {self.result}, mask=inside)"] if self.out else []),
            *self.carry(),
            *(self._kept() if self.along.ahead else []),
        ]:
            self.emit(line)
        return self.lines

    def _before(self) -> list[str]:
        """The pair of all pieces before this one."""
        return ["for first in range(0, piece, LANES):", *BLOCK, *self.of_pieces(), *self.carry()]

    def _kept(self) -> list[str]:
        """What this piece comes to, stored."""
        kept = zip(self.totals, self.carried, strict=True)
        return [f"tl.store({totals} + (piece * lines + line), {name}, mask=line < lines)" for totals, name in kept]

    @abstractmethod
    def start(self) -> list[str]:
        """The pair of nothing yet."""

    @abstractmethod
    def of_elements(self) -> list[str]:
        """The pairs of a step's elements, with all before them."""

    @abstractmethod
    def of_pieces(self) -> list[str]:
        """The pairs of pieces, with all before them."""

    @abstractmethod
    def carry(self) -> list[str]:
        """The last pair, for the next step."""


class RunningText(PairsText):
    """Extremes so far, as values and their places; a place is the result."""

    inputs, carried, result = 1, ("place",), "found"

    def start(self) -> list[str]:
        later = "b >= a" if "max" in self.statement.op else "b <= a"
        if self.statement.dtype in FLOATS:
            later = f"({later}) | (b != b)"
        self.functions["then"] = Function("then", EXTREME.format(later=later))
        first = " + begin" * self.along.ahead
        return [f"place = line.to(tl.int64) * 0{first}", self._best]

    @property
    def _best(self) -> str:
        extent, inner = self.statement.sizes
        inside = f"(line < {self.along.count}) & (place < {extent})"
        return f"best = tl.load({self.memory[0]} + start + place * {inner}, mask={inside})"

    def of_elements(self) -> list[str]:
        return [
            f"    values = tl.load({self.memory[0]} + at, mask=inside)",
            "    found = i.to(tl.int64) + line * 0",
            *self._combined(),
        ]

    def of_pieces(self) -> list[str]:
        """Where a block goes beyond the pieces it has the last one again, which changes nothing."""
        return [
            "    other = tl.minimum(first + lane, piece - 1)",
            f"    found = tl.load({self.totals[0]} + (other * tasks + line), mask=line < tasks, other=0)",
            f"    values = tl.load({self.memory[0]} + start + found * {self.statement.sizes[1]}, mask=line < tasks)",
            *self._combined(),
        ]

    def _combined(self) -> list[str]:
        return [
            "    values, found = tl.associative_scan((values, found), 1, then)",
            "    values, found = then(best, place, values, found)",
        ]

    def carry(self) -> list[str]:
        return [f"    place = {_last('found', '0')}", f"    {self._best}"]


class RecurrenceText(PairsText):
    """h[i] = factors[i] * h[i-1] + totals[i]: a pair says what becomes of h."""

    inputs, carried, result = 2, ("factor", "total"), "totals"

    def start(self) -> list[str]:
        self.functions["then"] = Function("then", AFFINE)
        factor = ["factor = tl.full((TASKS, 1), 1.0, tl.float64)"] * self.along.ahead
        return ["total = tl.full((TASKS, 1), 0.0, tl.float64)", *factor]

    def of_elements(self) -> list[str]:
        factors, totals = self.memory
        return [
            f"    factors = tl.load({factors} + at, mask=inside, other=1.0)",
            f"    totals = tl.load({totals} + at, mask=inside, other=0.0)",
            "    factors, totals = tl.associative_scan((factors, totals), 1, then)",
            "    totals = factors * total + totals",
        ]

    def of_pieces(self) -> list[str]:
        """A piece's factor may overflow where it does not matter, since h is 0 before."""
        self.functions["then_piece"] = Function("then_piece", PIECEWISE)
        factors, totals = self.totals
        at = "(other * tasks + line), mask=among"
        return [
            "    other = first + lane",
            "    among = (line < tasks) & (other < piece)",
            f"    factors = tl.load({factors} + {at}, other=1.0)",
            f"    totals = tl.load({totals} + {at}, other=0.0)",
            "    factors, totals = tl.associative_scan((factors, totals), 1, then_piece)",
            "    totals = tl.where(total == 0.0, totals, factors * total + totals)",
        ]

    def carry(self) -> list[str]:
        factor = [f"    factor = factor * {_last('factors', '0.0')}"] * self.along.ahead
        return [*factor, f"    total = {_last('totals', '0.0')}"]
