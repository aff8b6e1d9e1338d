"""Lines along a dimension as programs take them in Triton: several at a time, or pieces of few long ones."""

from __future__ import annotations

from eagerjit.compiler.codegen.triton.mapping import STEP, TILE, blocks_of
from eagerjit.compiler.codegen.triton.source import ACROSS, FULL
from eagerjit.compiler.codegen.triton.tiles import power_of_two
from eagerjit.compiler.loops import PIECE

MOST = 1024
"""Programs that share lines, at most: each reads what the pieces before its own come to."""


class Lines:
    """The texts of how a program takes lines of `extent` elements, `inner` apart.

    With `shared` a program has a piece of them, with `ahead` only what each piece but the last comes to is wanted.
    """

    def __init__(self, extent: int | str, inner: int | str, shared: bool, ahead: bool):
        self.extent, self.inner, self.shared, self.ahead = extent, inner, shared, ahead
        self.count = "lines" if ahead else "tasks"

    def lines(self, tasks: int, extent: int) -> int:
        """How many lines there are: a task is a line, or a piece ahead if a line is so long."""
        return tasks // max(extent // PIECE, 1) if self.ahead else tasks

    def head(self) -> list[str]:
        """Which lines these are, where they start, and which piece of them it is: from `begin` to `end`."""
        start = f"start = line // {self.inner} * ({self.extent} * {self.inner}) + line % {self.inner}"
        if not self.shared:
            return ["line = line * TASKS + tl.arange(0, TASKS)[:, None]", start]
        last = "begin" if self.ahead else self.extent
        return [
            *[f"lines = tasks // ({self.extent} // {PIECE})"] * self.ahead,
            f"blocks = {blocks_of(self.count, 'TASKS')}",
            "piece = line // blocks",
            "line = line % blocks * TASKS + tl.arange(0, TASKS)[:, None]",
            start,
            f"most = tl.where(blocks < {FULL}, {MOST} // blocks, 1) * LANES",
            f"length = tl.maximum(({self.extent} + most - 1) // most, {PIECE} // LANES) * LANES",
            "begin = piece * length",
            f"end = tl.where(begin + length < {self.extent}, begin + length, {last})",
        ]

    def steps(self) -> str:
        """The head of the loop over steps."""
        return f"for first in range({'begin, end' if self.shared else f'0, {self.extent}'}, LANES):"

    def programs(self, lines: int, extent: int, inner: int) -> tuple[dict[str, int], int]:
        """The blocks for so many lines of these sizes, and how many programs there are.

        Lines side by side in memory are read together.
        """
        across = min(power_of_two(inner), ACROSS)
        lanes = min(power_of_two(extent), STEP // across)
        rows = min(power_of_two(lines), max(TILE // lanes, across))
        blocks = max(-(-lines // rows), 1)
        pieces = _pieces(blocks, extent, lanes) if self.shared else 1
        return {"TASKS": rows, "LANES": lanes}, blocks * max(pieces - self.ahead, 1)


def _pieces(blocks: int, extent: int, lanes: int) -> int:
    """How many pieces a line has, as the text computes them."""
    most = (MOST // blocks if blocks < FULL else 1) * lanes
    length = max(-(-extent // most), PIECE // lanes) * lanes
    return -(-extent // length)
