"""Memory planning: which results share a piece of an arena. Each phase that makes sizes known has an arena."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import field

from eagerjit.compiler import sizes
from eagerjit.runtime.records import record

ALIGNMENT = 64
MOST_SHOWN = 40
"""Letters of a size's formula that reports show."""


def aligned(size: sizes.Expr) -> sizes.Expr:
    """A number of bytes rounded up to the alignment."""
    if isinstance(size, int):
        return -(-size // ALIGNMENT) * ALIGNMENT
    if sizes.exact_quotient(size, ALIGNMENT) is not None:
        return size
    return sizes.mul(sizes.floordiv(sizes.add(size, ALIGNMENT - 1), ALIGNMENT), ALIGNMENT)


@record
class Block:
    """A piece of an arena and what has used it: (name, first step, last step)."""

    size: sizes.Expr
    phase: int
    offset: sizes.Expr = 0
    free_after: int = -1
    uses: list[tuple[str, int, int]] = field(default_factory=list)


@record
class Request:
    """Memory that one result needs, from the step that makes it to the last that reads it."""

    name: str
    size: sizes.Expr
    first: int
    last: int
    phase: int = 0
    """The phase from which on the size is known."""


@record
class Plan:
    """The arenas: their blocks, their sizes in bytes by phase, and every request's block."""

    blocks: list[Block]
    totals: dict[int, sizes.Expr]
    block_of: dict[str, Block]

    def __str__(self) -> str:
        """Each block: where it lies, its bytes, and which steps use it, in numbers of the sizes that are assumed."""
        lines = []
        for block in sorted(self.blocks, key=lambda b: b.phase):
            if block.offset == 0:
                lines.append(f"arena of {_bytes(self.totals[block.phase])}")
            uses = ", ".join(f"{name} ({first}..{last})" for name, first, last in block.uses)
            lines.append(f"  at {sizes.hint(block.offset)}: {_bytes(block.size)}: {uses}")
        return "\n".join(lines) or "no arena"


def _bytes(size: sizes.Expr) -> str:
    number, text = sizes.hint(size), str(size)
    return f"{number} bytes" if isinstance(size, int) or len(text) > MOST_SHOWN else f"{number} bytes = {text}"


@record
class _Phase:
    """The blocks of a phase by their sizes, and these in order."""

    blocks: dict[sizes.Expr, list[Block]] = field(default_factory=dict)
    known: list[tuple[int, int, sizes.Expr]] = field(default_factory=list)

    def free(self, size: sizes.Expr, step: int) -> Block | None:
        """The smallest block that is free at a step and surely large enough."""
        exact = _unused(self.blocks.get(size, ()), step)
        if exact is not None:
            return exact
        needed = sizes.symbols(size)
        for *_, larger in self.known[bisect.bisect_left(self.known, (sizes.hint(size), 0)) :]:
            if needed <= sizes.symbols(larger) and sizes.dominates(larger, size):
                block = _unused(self.blocks[larger], step)
                if block is not None:
                    return block
        return None

    def add(self, block: Block) -> None:
        """One more block."""
        if block.size not in self.blocks:
            bisect.insort(self.known, (sizes.hint(block.size), len(self.known), block.size))
        self.blocks.setdefault(block.size, []).append(block)


def _unused(blocks: Iterable[Block], step: int) -> Block | None:
    return next((b for b in blocks if b.free_after < step), None)


def plan(requests: list[Request]) -> Plan:
    """Give each request the smallest free block that is surely large enough, else a new one."""
    blocks: list[Block] = []
    block_of: dict[str, Block] = {}
    phases: dict[int, _Phase] = {}
    for request in sorted(requests, key=lambda r: r.first):
        size = aligned(request.size)
        phase = phases.setdefault(request.phase, _Phase())
        block = phase.free(size, request.first)
        if block is None:
            block = Block(size, request.phase)
            blocks.append(block)
            phase.add(block)
        block.free_after = request.last
        block.uses.append((request.name, request.first, request.last))
        block_of[request.name] = block
    totals: dict[int, sizes.Expr] = {}
    for block in blocks:
        block.offset = totals.get(block.phase, 0)
        totals[block.phase] = sizes.add(block.offset, block.size)
    return Plan(blocks, totals, block_of)
