"""Parts of sums joined in Triton: what entries of one destination come to in pieces of their order (`ordered.py`).

The first piece that does not begin with a destination's first entry combines all of them, in an order that their number
decides, and then with what is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from eagerjit.compiler.codegen.accumulate import neutral
from eagerjit.compiler.codegen.triton import operations
from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import Shape, blocks_of, known
from eagerjit.compiler.codegen.triton.names import Name
from eagerjit.compiler.codegen.triton.operations import HALVES, Function
from eagerjit.compiler.codegen.triton.source import INT32, Launch, StatementKernel, TritonSource, multiples
from eagerjit.compiler.codegen.triton.tiles import DEFAULT, power_of_two
from eagerjit.compiler.codegen.triton.values import TYPES
from eagerjit.compiler.loops import SHARED, Joined, Kernel

TOGETHER = 128
"""Pieces that a program reads at a time."""
COLUMNS = 32
"""Columns of a program, at most."""


class JoinedText(KernelText):
    """Writes one such kernel."""

    def __init__(self, kernel: Kernel, statement: Joined):
        super().__init__(kernel, Shape(True, "loop"))
        self.statement = statement
        self.kind = "f32" if statement.dtype in HALVES else statement.dtype

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        s = self.statement
        rows, entries, columns = s.sizes
        self.functions["sum_of"] = Function("sum_of", "@triton.jit\ndef sum_of(x, y):\n    return x + y\n")
        nothing = operations.plain(self.kind, neutral(s.op, self.kind))
        for line in (
            f"blocks = {blocks_of(str(columns), 'LANES')}",
            "block = tl.program_id(0) % blocks",
            "piece = tl.program_id(0) // blocks + 1",
            "if WIDE:",
            "    piece = piece.to(tl.int64)",
            "    block = block.to(tl.int64)",
            f"position = piece * {SHARED}",
            f"own = {self._key('position')}",
            f"earlier = {self._key(f'tl.maximum(position - {SHARED + 1}, 0)')}",
            f"goes_on = ({self._key('position - 1')} == own) & (own >= 0) & (own < {rows})",
            "if goes_on & ((piece == 1) | (earlier != own)):",
            "    i = (block * LANES + tl.arange(0, LANES))[:, None]",
            f"    column = i < {columns}",
            f"    total = tl.full((LANES, TOGETHER), {nothing}, {TYPES[self.kind]})",
            "    first = piece",
            "    more = True",
            "    while more:",
            "        other = first + tl.arange(0, TOGETHER)",
            f"        among = other * {SHARED} < {entries}",
            f"        same = among & ({self._key(f'other * {SHARED}', 'among')} == own)",
            "        inside = column & same[None, :]",
            f"        part = {self._loaded(f'{s.parts} + (other[None, :] * {columns} + i)', 'inside')}",
            f"        part = tl.where(inside, part, {self.number(self.kind, neutral(s.op, self.kind))})",
            f"        total = {self._both('total', 'part')}",
            "        first += TOGETHER",
            "        more = tl.reduce(same.to(tl.int32), 0, sum_of) == TOGETHER",
            f"    total = {self.reduced('total', s.op, self.kind)}",
            f"    there = {s.out} + (own.to(tl.int64) * {columns} + i)",
            f"    kept = {self._loaded('there', 'column')}",
            f"    tl.store(there, {self._both('kept', 'total')}, mask=column)",
        ):
            self.emit(line)
        return self.lines

    def _key(self, position: str, mask: str = "") -> str:
        """The destination of the entry that has a position in the order."""
        masked = f", mask={mask}, other=0" if mask else ""
        return f"tl.load({self.statement.keys} + tl.load({self.statement.order} + ({position}){masked}){masked})"

    def _loaded(self, place: str, mask: str) -> str:
        number = f"tl.load({place}, mask={mask})"
        return f"({number} != 0)" if self.kind == "bool" else f"{number}.to({TYPES[self.kind]})"

    def _both(self, x: str, y: str) -> str:
        """Two values as one."""
        return self.operation(self.statement.op, [Name(x, self.kind), Name(y, self.kind)], self.kind)


class JoinedKernel(StatementKernel[Joined]):
    """Parts joined, of the IR, for the GPU; used like a `TritonKernel`."""

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        return (self.file(JoinedText(self.kernel, self.statement), ("TOGETHER", "LANES", "WIDE")),)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and grid for so many pieces but the first."""
        rows, entries, columns = (known(x, sizes) for x in self.statement.sizes)
        lanes = min(power_of_two(columns), COLUMNS)
        wide = int(max(rows, tasks + TOGETHER) * max(columns, 1) + entries + TOGETHER * SHARED >= INT32)
        constants = {"TOGETHER": TOGETHER, "LANES": lanes, "WIDE": wide}
        source = self.sources[0]
        programs = max(tasks * -(-columns // lanes), 1)
        return Launch(source, constants, 4, programs, multiples(source, tasks, sizes))
