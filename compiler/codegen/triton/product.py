"""Matrix products in Triton: a tile of the result per program, and what follows elementwise on the tile.

Tiles are numbered so that programs that run at the same time share rows and columns in the L2 cache. 16-bit factors are
multiplied exactly and summed in f32; f32 factors as they are, or as TF32 where that is allowed.

A program has a tile, a part of the sum of one, or, where the GPU itself loads blocks (`described.py`) and no other
program would work meanwhile, several tiles: the next one's blocks are loaded while the results of one are stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import lru_cache

from eagerjit.compiler.codegen.triton.described import TURNED, factor_loads, of_factors, turned, wanted
from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import Shape, blocks_of, known
from eagerjit.compiler.codegen.triton.names import Axes, Name
from eagerjit.compiler.codegen.triton.operations import HALVES, Function
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
from eagerjit.compiler.loops import Index, Kernel, Let, Loop, Product, walk
from eagerjit.runtime.gpu.descriptors import Descriptor
from eagerjit.runtime.gpu.precision import precision

GROUP = 8
"""Rows of tiles that are done together."""
CONSTANTS = ("ROWS", "COLUMNS", "DEPTH", "GROUP", "TF32", "WIDE")
PART = 16
"""Results of a thread that what follows takes at a time: it has several values for each in registers."""
CHEAP = 6
"""Operations that are done on all results at once."""


class Part(Enum):
    """What a program does."""

    TILE, SPLIT, SEVERAL = range(3)


class ProductText(KernelText):
    """Writes a product and the loops that read it; `described`: the GPU loads the factors' blocks."""

    def __init__(self, kernel: Kernel, part: Part = Part.TILE, described: bool = False):
        self.product = next(s for s in kernel.body if isinstance(s, Product))
        self.part, self.described = part, described
        super().__init__(kernel, Shape(True, "whole"))
        self.rest = [s for s in kernel.body if not isinstance(s, Product)]

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        p = self.product
        m, n, k = map(str, p.sizes)
        self._lines(
            f"high = {blocks_of(m, 'ROWS')}",
            f"wide = {blocks_of(n, 'COLUMNS')}",
        )
        if self.part is Part.SEVERAL:
            tiles = " * ".join(["high", "wide", *(str(extent) for extent, *_ in p.batch)])
            self.emit(f"for program in tl.range(tl.program_id(0), {tiles}, tl.num_programs(0), flatten=True):")
            self.depth += 1
        else:
            self.emit("program = tl.program_id(0)")
        self._lines(
            *(PART_OF_TILE if self.part is Part.SPLIT else ()),
            "batch = program // (high * wide)",
            "tile = program % (high * wide)",
            "first = tile // (GROUP * wide) * GROUP",
            "height = tl.minimum(high - first, GROUP)",
            "within = tile % (GROUP * wide)",
            "down = (first + within % height) * ROWS",
            "across = within // height * COLUMNS",
        )
        begin, end = "0", k
        if self.part is Part.SPLIT:
            self._lines(*shared_sum(k))
            begin, end = "begin", "end"
        wide = "64" if self.dtypes[p.left] == "f64" else "32"
        if self.described:
            self._sum_of_blocks(begin, end)
            self._lines(*PLACES)
        else:
            self._lines(*PLACES)
            self._sum(begin, end, wide)
        self.emit(f"row = y < {m}")
        if self.part is Part.SPLIT:
            self._lines(*gathered(wide), "row = row & last")
        self._follow(m, n)
        return self.lines

    def _sum_of_blocks(self, begin: str, end: str) -> None:
        """The loop over the summed extent, of blocks that the GPU loads: a place outside is 0."""
        places, lines = self._batch()
        self._lines(
            *lines,
            "product = tl.full((ROWS, COLUMNS), 0.0, tl.float32)",
            f"for done in range({begin}, {end}, DEPTH):",
            *(f"    {line}" for line in factor_loads(self.product, places)),
            "    product = tl.dot(a, b, product)",
        )

    def _sum(self, begin: str, end: str, wide: str) -> None:
        """The same of blocks whose addresses are computed."""
        p = self.product
        m, n, _ = p.sizes
        starts: list[list[str]] = [[], []]
        places, lines = self._batch()
        self._lines(*lines)
        for place, (_, *steps) in reversed(list(zip(places, p.batch, strict=True))):
            for terms, step in zip(starts, steps, strict=False):
                terms.append(_times(place, step))
        for side, terms in zip(("a", "b"), starts, strict=True):
            if terms:
                self.emit(f"start_{side} = {' + '.join(terms)}")
        (a_row, a_column), (b_row, b_column) = p.steps[:2]
        across, down = "tl.arange(0, DEPTH)[None, :]", "tl.arange(0, DEPTH)[:, None]"
        start_a, start_b = (f"start_{side} + " if p.batch else "" for side in ("a", "b"))
        if begin != "0":
            across, down = (f"(begin + {text})" for text in (across, down))
        self.emit(f"left = {p.left} + ({start_a}{_times('y', a_row)} + {_times(across, a_column)})")
        self.emit(f"right = {p.right} + ({start_b}{_times(down, b_row)} + {_times('x', b_column)})")
        across, down = "tl.arange(0, DEPTH)[None, :]", "tl.arange(0, DEPTH)[:, None]"
        self._lines(
            f"product = tl.full((ROWS, COLUMNS), 0.0, tl.float{wide})",
            f"for done in range({begin}, {end}, DEPTH):",
            f"    a = tl.load(left, mask=(y < {m}) & ({across} < {end} - done), other=0.0)",
            f"    b = tl.load(right, mask=({down} < {end} - done) & (x < {n}), other=0.0)",
            '    product = tl.dot(a, b, product, input_precision="tf32" if TF32 else "ieee", '
            f"out_dtype=tl.float{wide})",
            f"    left += {_times('DEPTH', a_column)}",
            f"    right += {_times('DEPTH', b_row)}",
        )

    def _lines(self, *lines: str) -> None:
        for line in lines:
            self.emit(line)

    def _batch(self) -> tuple[list[str], list[str]]:
        """Which product of several it is, in each dimension of the batch, and lines that find it out."""
        places, lines, rest = [], [], "batch"
        for d, (extent, *_) in reversed(list(enumerate(self.product.batch))):
            if d:
                lines += [f"batch{d} = {rest} % {extent}", f"rest{d} = {rest} // {extent}"]
            places.append(f"batch{d}" if d else rest)
            rest = f"rest{d}"
        return places[::-1], lines

    def _follow(self, m: str, n: str) -> None:
        """What is done with the product: at once, or by a function that takes it in halves until they are small."""
        out, dtype = self.product.out, self.product.dtype
        if not self.rest:
            value = "product" if dtype not in HALVES else f"product.to({HALVES[dtype]})"
            self.emit(f"tl.store({out} + ((batch * {m} + y) * {n} + x), {value}, mask=row & (x < {n}))")
            return
        main, depth, self.lines, self.depth = self.lines, self.depth, [], 2
        self._rest(m, n)
        written, self.lines, self.depth = self.lines, main, depth
        names = [*(p.name for p in self.kernel.params), "status", "tables"]
        text = "\n".join(written)
        used = [name for name in names if re.search(rf"\b{name}\b", f"{text} {n}")]
        passed = ", ".join(("y", "batch", "row", *used))
        split = "tl.split(tl.permute(tl.reshape(product, (ROWS, 2, COLUMNS // 2)), (0, 2, 1)))"
        function = [
            "@triton.jit",
            f"def finish(product, across, {passed}, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PART: tl.constexpr):",
            '    """What follows the product, for PART columns at a time."""',
            "    if COLUMNS > PART:",
            f"        left, right = {split}",
            f"        finish(left, across, {passed}, ROWS, COLUMNS // 2, PART)",
            f"        finish(right, across + COLUMNS // 2, {passed}, ROWS, COLUMNS // 2, PART)",
            "    else:",
            "        x = across + tl.arange(0, COLUMNS)[None, :]",
            f"        column = x < {n}",
            *written,
            "",
        ]
        self.functions["finish"] = Function("finish", "\n".join(function))
        self.emit(f"finish(product, across, {passed}, ROWS, COLUMNS, PART)")

    def _rest(self, m: str, n: str) -> None:
        """The statements that follow, on a block of results."""
        self.statements([s for s in self.rest if not isinstance(s, Loop)])
        both: Axes = frozenset("ti")
        self.conditions += [("row", frozenset("t")), ("column", frozenset("i"))]
        tasks = next(s for s in self.rest if isinstance(s, Loop))
        vector = next(s for s in tasks.body if isinstance(s, Loop))
        if vector.start == 0:
            self.emit(f"{tasks.var} = batch * {m} + y")
            self.emit(f"{vector.var} = x")
            self.values[tasks.var] = Name(tasks.var, "index", frozenset("t"))
            self.values[vector.var] = Name(vector.var, "index", frozenset("i"))
        else:
            self.emit(f"{vector.var} = (batch * {m} + y) * {n} + x")
            self.values[vector.var] = Name(vector.var, "index", both)
        bounds = _bounds(tasks, vector)
        self.statements([s for s in tasks.body if s is not vector and getattr(s, "name", "") not in bounds])
        self.vector = vector
        self.statements(vector.body)

    def load(self, name: str, param: str, index: Index, dtype: str) -> None:
        if param == self.product.out:
            rounded = f"product.to({HALVES[dtype]}).to(tl.float32)" if dtype in HALVES else "product"
            self.assign(name, rounded, dtype, frozenset("ti"))
            return
        super().load(name, param, index, dtype)


def gathered(wide: str) -> tuple[str, ...]:
    """Lines that add the parts of a tile in their order, in the program that comes last."""
    return (
        "inside = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]",
        "own = partials + program.to(tl.int64) * (SPLIT * ROWS * COLUMNS) + inside",
        "tl.store(own + part * (ROWS * COLUMNS), product)",
        "tl.debug_barrier()",
        "last = tl.atomic_add(counters + program, 1) == SPLIT - 1",
        f"product = tl.full((ROWS, COLUMNS), 0.0, tl.float{wide})",
        "for other in range(0, tl.where(last, SPLIT, 0)):",
        '    product += tl.load(own + other * (ROWS * COLUMNS), cache_modifier=".cg")',
    )


def shared_sum(k: str) -> tuple[str, ...]:
    """Lines that say which part of a sum over k a program has."""
    return (
        f"steps = (({k} + DEPTH - 1) // DEPTH + SPLIT - 1) // SPLIT * DEPTH",
        "begin = part * steps",
        f"end = tl.minimum(begin + steps, {k})",
    )


PLACES = (
    "y = down + tl.arange(0, ROWS)[:, None]",
    "if WIDE:",
    "    y = y.to(tl.int64)",
    "    across = across.to(tl.int64)",
    "    batch = batch.to(tl.int64)",
    "x = across + tl.arange(0, COLUMNS)[None, :]",
)
PART_OF_TILE = ("part = program % SPLIT", "program = program // SPLIT")


def _times(text: str, step: int | str) -> str:
    return text if step == 1 else f"{text} * {step}"


def _bounds(tasks: Loop, vector: Loop) -> set[str]:
    """Values of a task that serve to find its elements alone."""
    lets = {s.name: s for s in tasks.body if isinstance(s, Let)}
    wanted, found = [b for b in (vector.start, vector.stop) if isinstance(b, str)], set()
    while wanted:
        name = wanted.pop()
        if name in lets and name not in found:
            found.add(name)
            wanted += lets[name].args
    return found


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
        params, constants = self.kernel.params, CONSTANTS + ("PART",) * ("finish" in writer.functions)
        constants += TURNED * described
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
            described = of_factors(self.product, self._factors, sizes, tile)
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

