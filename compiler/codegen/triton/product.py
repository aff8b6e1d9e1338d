"""Matrix products in Triton: how their tiles are shared among programs, for given sizes and a GPU.

A program has a tile, a part of the sum of one, or, where the GPU itself loads blocks (`described.py`) and no other
program would work meanwhile, several tiles: the next one's blocks are loaded while the results of one are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from eagerjit.compiler.codegen.triton.described import TURNED, of_factors, turned, wanted
from eagerjit.compiler.codegen.triton.mapping import known
from eagerjit.compiler.codegen.triton.operations import HALVES
from eagerjit.compiler.codegen.triton.product_text import CONSTANTS, Part, ProductText
from eagerjit.compiler.codegen.triton.source import (
    COUNTERS,
    INT32,
    PARTIALS,
    Launch,
    TritonSource,
    file_text,
    multiples,
)  # fmt: skip
from eagerjit.compiler.codegen.triton.tiles import DEFAULT, Tile, choose, gpu, room
from eagerjit.compiler.loops import Kernel, Let, Product, walk
from eagerjit.runtime.gpu.descriptors import Descriptor
from eagerjit.runtime.gpu.precision import precision
from eagerjit.runtime.records import replace

PART = 16
"""Results of a thread that what follows takes at a time: it has several values for each in registers."""
CHEAP = 6
"""Operations that are done on all results at once."""


class ProductKernel:
    """A product of the IR for the GPU, used like a `TritonKernel`."""

    def __init__(self, kernel: Kernel, lines: Sequence[str] = ()):
        self.kernel, self.lines = kernel, tuple(lines)
        self.product = next(s for s in kernel.body if isinstance(s, Product))
        self.source = lru_cache(self._source)

    def _source(self, part: Part, described: bool) -> TritonSource:
        """The file for programs that do this."""
        writer = ProductText(self.kernel, part, described)
        writer.body()
        params, constants = self.kernel.params, CONSTANTS + TURNED * described
        if "finish" in writer.functions:
            constants += ("PART",)
        if part is Part.SPLIT:
            params, constants = (*params, replace(PARTIALS, dtype=self._sums), COUNTERS), (*constants, "SPLIT")
        return file_text(self.kernel, writer, params, constants, self.lines)

    @property
    def _factors(self) -> str:
        return next(p.dtype for p in self.kernel.params if p.name == self.product.left)

    @property
    def _sums(self) -> str:
        return "f64" if self._factors == "f64" else "f32"

    def shape(self, tasks: int, sizes: Mapping[str, int]) -> tuple[int, int, int, int, str, bool]:
        """What a tile is chosen for: rows, columns, summed extent, number of products, format, and whether TF32."""
        m, n, k = (known(x, sizes) for x in self.product.sizes)
        tf32 = precision.tf32 and self._factors == "f32"
        return max(m, 1), max(n, 1), max(k, 1), max(tasks, 1), self._factors, tf32

    def launch(
        self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT, tile: Tile | None = None
    ) -> Launch:
        """The file, tiles and grid for these sizes; `tasks` is the number of products."""
        m, n, k = (known(x, sizes) for x in self.product.sizes)
        tile = choose(*self.shape(tasks, sizes), architecture) if tile is None else tile
        extents = ((m, k), (k, n), (m, n))
        reach = max(
            sum(e * abs(known(s, sizes)) for e, s in zip(pair, steps, strict=True))
            for pair, steps in zip(extents, self.product.steps, strict=True)
        )
        reach += sum(known(e, sizes) * max(abs(known(s, sizes)) for s in rest) for e, *rest in self.product.batch)
        largest = max(reach + tile.depth * reach // max(k, 1), tasks * m * n)
        constants = {
            "ROWS": tile.rows, "COLUMNS": tile.columns, "DEPTH": tile.depth, "GROUP": tile.group,
            "TF32": int(precision.tf32 and self._factors == "f32"), "WIDE": int(largest >= INT32),
        }  # fmt: skip
        described: tuple[Descriptor, ...] = ()
        if wanted(architecture):
            described = of_factors(self.product, self._factors, sizes, tile, precision.tf32)
        tiles = max(-(-m // tile.rows) * -(-n // tile.columns), 1) * max(tasks, 1)
        part = Part.SPLIT if tile.split > 1 else Part.TILE
        if described and part is Part.TILE and tiles > gpu(architecture).processors and self._alone(tile, architecture):
            part = Part.SEVERAL
        source = self.source(part, bool(described))
        constants |= turned(self.product, sizes) if described else {}
        if "PART" in source.constants:
            constants["PART"] = self._part(tile, part, architecture)
        own = (0, 0)
        if tile.split > 1:
            constants["SPLIT"] = tile.split
            own = tiles * tile.split * tile.rows * tile.columns * (8 if self._sums == "f64" else 4), tiles
        aligned = multiples(source, tasks, sizes, described) + ("partials",) * (tile.split > 1)
        programs, going_round = tiles * tile.split, int(part is Part.SEVERAL)
        return Launch(source, constants, tile.warps, programs, aligned, tile.stages, *own, described, going_round)

    def _alone(self, tile: Tile, architecture: int) -> bool:
        """Whether a multiprocessor has room for one program, and that for 16-bit results beside the next blocks."""
        if self._factors not in HALVES:
            return False
        follows = len(self.kernel.body) > 1
        return (follows or self.product.dtype in HALVES) and room(tile, self._factors, False, architecture)[0] == 1

    def _part(self, tile: Tile, part: Part, architecture: int) -> int:
        """Columns that what follows the product takes at a time."""
        operations = sum(isinstance(s, Let) for s in walk(self.kernel.body))
        columns = tile.columns
        if part is Part.SEVERAL:  # results of 32 bits change places in what shared memory is left
            left = room(tile, self._factors, False, architecture)[1] // (4 * tile.rows)
            columns = min(columns, 1 << left.bit_length() - 1 if left else 0)
        if operations > CHEAP:
            columns = min(columns, PART * 32 * tile.warps // tile.rows)
        return max(columns, 16)


def is_product(kernel: Kernel) -> bool:
    """Whether a kernel is a product of matrices."""
    return any(isinstance(s, Product) for s in walk(kernel.body))

