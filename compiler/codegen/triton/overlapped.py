"""Products of which a program finishes a tile while it multiplies the next one.

Tensor cores multiply without the threads that started them, which have nothing to do meanwhile. A tile is therefore
stored as it is, in memory of the program's own that the L2 cache holds, and read again a few rows in each step of the
next tile's sum: what follows the product is done on them. The last tile is finished after all steps.
"""

from __future__ import annotations

from eagerjit.compiler.codegen.triton.described import factor_loads
from eagerjit.compiler.codegen.triton.mapping import blocks_of
from eagerjit.compiler.codegen.triton.operations import HALVES, Function
from eagerjit.compiler.codegen.triton.product_text import TILE, ProductText
from eagerjit.compiler.codegen.triton.tiles import Tile, power_of_two

PIECES = ("PIECE", "LAST")
"""Constants: rows that are finished in a step, and at a time of the last tile."""
ELEMENTS = 16
"""Results of a thread that are finished at a time when nothing is multiplied."""

BARRIER = '''@triton.jit
def threads_meet():
    """A barrier that a loop whose steps overlap may have; one with tl.debug_barrier is not pipelined."""
    text: tl.constexpr = "bar.sync 0; mov.b32 $0, $1;"
    tl.inline_asm_elementwise(text, "=r,r", [tl.program_id(0)], dtype=tl.int32, is_pure=False, pack=1)
'''


class OverlappedText(ProductText):
    """Writes such a product."""

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        m, n, k = map(str, self.product.sizes)
        passed = ", ".join(name if name != "batch" else "before_batch" for name in self._function(m, n))
        self.functions["threads_meet"] = Function("threads_meet", BARRIER)
        half = HALVES[self.product.dtype]
        places, lines = self._batch()
        finish = f"finish({{}}, before_across, {passed}, {{}}, COLUMNS, COLUMNS)"
        self._lines(
            f"high = {blocks_of(m, 'ROWS')}",
            f"wide = {blocks_of(n, 'COLUMNS')}",
            "own = partials + tl.program_id(0).to(tl.int64) * (ROWS * COLUMNS)",
            "some = tl.arange(0, PIECE)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]",
            "inside = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]",
            f"before = tl.full((PIECE, COLUMNS), 0.0, {half})",
            "INDEX: tl.constexpr = tl.int64 if WIDE else tl.int32",
            f"before_down = tl.cast({m}, INDEX)",
            "before_across = tl.cast(0, INDEX)",
            "before_batch = tl.cast(0, INDEX)",
        )
        self._each_tile()
        self._lines(
            *TILE,
            *lines,
            "product = tl.full((ROWS, COLUMNS), 0.0, tl.float32)",
            f"for done in range(0, {k}, DEPTH):",
            *(f"    {line}" for line in factor_loads(self.product, places)),
            "    product = tl.dot(a, b, product)",
            "    at = done // DEPTH * PIECE",
            *(f"    {line}" for line in _places("PIECE", m)),
            "    " + finish.format("before", "PIECE"),
            "    at += PIECE",
            "    before = tl.load(own + (at * COLUMNS + some), mask=at < ROWS, other=0.0)",
            "before_down = tl.cast(down, INDEX)",
            "before_across = tl.cast(across, INDEX)",
            "before_batch = tl.cast(batch, INDEX)",
            "threads_meet()",
            f"tl.store(own + inside, product.to({half}))",
            "threads_meet()",
            "before = tl.load(own + some)",
        )
        self.depth -= 1
        self._lines(
            "some = tl.arange(0, LAST)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]",
            "for at in range(0, ROWS, LAST):",
            *(f"    {line}" for line in _places("LAST", m)),
            "    " + finish.format("tl.load(own + (at * COLUMNS + some))", "LAST"),
        )
        return self.lines


def _places(rows: str, m: str) -> tuple[str, ...]:
    """Where so many rows of the tile before are, from its row `at` on, and which of them there are."""
    return f"y = before_down + at + tl.arange(0, {rows})[:, None]", f"row = (y < {m}) & (at < ROWS)"


def pieces(tile: Tile, k: int) -> dict[str, int]:
    """The constants for a sum over k."""
    piece = power_of_two(-(-tile.rows // -(-k // tile.depth)))
    return {"PIECE": piece, "LAST": min(max(ELEMENTS * 32 * tile.warps // tile.columns, 1), tile.rows)}
