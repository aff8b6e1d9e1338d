"""The text of a product in Triton: a tile of the result per program, and what follows elementwise on the tile.

Tiles are numbered so that programs that run at the same time share rows and columns in the L2 cache. 16-bit factors are
multiplied exactly and summed in f32; f32 factors as they are, or as TF32 where that is allowed.
"""

from __future__ import annotations

import re
from enum import Enum

from eagerjit.compiler.codegen.triton.described import factor_loads
from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import Shape, blocks_of
from eagerjit.compiler.codegen.triton.names import Axes, Name
from eagerjit.compiler.codegen.triton.operations import HALVES, Function
from eagerjit.compiler.loops import Index, Kernel, Let, Loop, Product

CONSTANTS = ("ROWS", "COLUMNS", "DEPTH", "GROUP", "TF32", "WIDE")


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
        self._lines(*(PART_OF_TILE if self.part is Part.SPLIT else ()), *TILE)
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
            f"for done in range({begin}, {self._stop(end)}, DEPTH):",
            *(f"    {line}" for line in factor_loads(self.product, places)),
            f"    {_product('32')}",
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
            f"for done in range({begin}, {self._stop(end)}, DEPTH):",
            f"    a = tl.load(left, mask=(y < {m}) & ({across} < {end} - done), other=0.0)",
            f"    b = tl.load(right, mask=({down} < {end} - done) & (x < {n}), other=0.0)",
            f"    {_product(wide)}",
            f"    left += {_times('DEPTH', a_column)}",
            f"    right += {_times('DEPTH', b_row)}",
        )

    def _stop(self, end: str) -> str:
        """Where the loop ends: of a single step, which Triton must not know, as long as something follows.

        A product that starts at 0, and what is added to it, it would make a product that starts at what is added, which
        rounds otherwise than the two one after the other. A grid has one program in its third dimension.
        """
        if not self.rest or not end.isdigit():
            return end
        return f"{end} + tl.program_id(2) if DEPTH >= {end} else {end}"

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


def _product(wide: str) -> str:
    return f'product = tl.dot(a, b, product, input_precision="tf32" if TF32 else "ieee", out_dtype=tl.float{wide})'


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
TILE = (
    "batch = program // (high * wide)",
    "tile = program % (high * wide)",
    "first = tile // (GROUP * wide) * GROUP",
    "height = tl.minimum(high - first, GROUP)",
    "within = tile % (GROUP * wide)",
    "down = (first + within % height) * ROWS",
    "across = within // height * COLUMNS",
)
"""Which tile of which product a program has, in an order in which neighbours share factors."""
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
