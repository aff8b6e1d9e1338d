"""Matrix products in Triton: a tile of the result per program, and what follows elementwise on the tile.

Tiles are numbered so that programs that run at the same time share rows and columns in the L2 cache. 16-bit factors are
multiplied exactly and summed in f32; f32 factors as they are, without TF32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import Shape
from eagerjit.compiler.codegen.triton.names import Axes, Name
from eagerjit.compiler.codegen.triton.operations import HALVES
from eagerjit.compiler.codegen.triton.source import INT32, Launch, TritonSource, file_text, multiples, power_of_two
from eagerjit.compiler.loops import Index, Kernel, Let, Loop, Product, walk

TILES = {"f16": (128, 128, 64), "bf16": (128, 128, 64), "f32": (64, 64, 32), "f64": (32, 32, 16)}
"""Rows, columns and summed elements of a step, by the factors' format."""
GROUP = 8
"""Rows of tiles that are done together."""
CONSTANTS = ("ROWS", "COLUMNS", "DEPTH", "GROUP", "WIDE")


class ProductText(KernelText):
    """Writes a product and the loops that read it."""

    def __init__(self, kernel: Kernel):
        self.product = next(s for s in kernel.body if isinstance(s, Product))
        super().__init__(kernel, Shape(True, "whole"))
        self.rest = [s for s in kernel.body if not isinstance(s, Product)]

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        p = self.product
        m, n, k = map(str, p.sizes)
        head = [s for s in self.rest if not isinstance(s, Loop)]
        self.statements(head)
        for line in (
            f"high = ({m} + ROWS - 1) // ROWS",
            f"wide = ({n} + COLUMNS - 1) // COLUMNS",
            "batch = tl.program_id(0) // (high * wide)",
            "tile = tl.program_id(0) % (high * wide)",
            "first = tile // (GROUP * wide) * GROUP",
            "height = tl.minimum(high - first, GROUP)",
            "within = tile % (GROUP * wide)",
            "y = (first + within % height) * ROWS + tl.arange(0, ROWS)[:, None]",
            "x = within // height * COLUMNS + tl.arange(0, COLUMNS)[None, :]",
            "if WIDE:",
            "    y = y.to(tl.int64)",
            "    x = x.to(tl.int64)",
            "    batch = batch.to(tl.int64)",
        ):
            self.emit(line)
        self._batch()
        (a_row, a_column), (b_row, b_column) = p.steps[:2]
        across, down = "tl.arange(0, DEPTH)[None, :]", "tl.arange(0, DEPTH)[:, None]"
        start_a, start_b = (f"start_{side} + " if p.batch else "" for side in ("a", "b"))
        self.emit(f"left = {p.left} + ({start_a}{_times('y', a_row)} + {_times(across, a_column)})")
        self.emit(f"right = {p.right} + ({start_b}{_times(down, b_row)} + {_times('x', b_column)})")
        wide = self.dtypes[p.left] == "f64"
        self.emit(f"product = tl.full((ROWS, COLUMNS), 0.0, tl.float{64 if wide else 32})")
        self.emit(f"for done in range(0, {k}, DEPTH):")
        for line in (
            f"a = tl.load(left, mask=(y < {m}) & ({across} < {k} - done), other=0.0)",
            f"b = tl.load(right, mask=({down} < {k} - done) & (x < {n}), other=0.0)",
            f'product = tl.dot(a, b, product, input_precision="ieee", out_dtype=tl.float{64 if wide else 32})',
            f"left += {_times('DEPTH', a_column)}",
            f"right += {_times('DEPTH', b_row)}",
        ):
            self.emit("    " + line)
        self._follow(m, n)
        return self.lines

    def _batch(self) -> None:
        """Where the factors of this product of several start."""
        starts: list[list[str]] = [[], []]
        rest = "batch"
        for d, (extent, *steps) in reversed(list(enumerate(self.product.batch))):
            if d:
                self.emit(f"batch{d} = {rest} % {extent}")
                self.emit(f"rest{d} = {rest} // {extent}")
            for terms, step in zip(starts, steps, strict=False):
                terms.append(_times(f"batch{d}" if d else rest, step))
            rest = f"rest{d}"
        for side, terms in zip(("a", "b"), starts, strict=True):
            if terms:
                self.emit(f"start_{side} = {' + '.join(terms)}")

    def _follow(self, m: str, n: str) -> None:
        """What is done with the product."""
        self.emit(f"row = y < {m}")
        self.emit(f"column = x < {n}")
        both: Axes = frozenset("ti")
        self.conditions += [("row", frozenset("t")), ("column", frozenset("i"))]
        out, dtype = self.product.out, self.product.dtype
        tasks = next((s for s in self.rest if isinstance(s, Loop)), None)
        if tasks is None:
            value = "product" if dtype not in HALVES else f"product.to({HALVES[dtype]})"
            self.emit(f"tl.store({out} + ((batch * {m} + y) * {n} + x), {value}, mask=row & column)")
            return
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

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        writer = ProductText(self.kernel)
        writer.body()
        return (file_text(self.kernel, writer, self.kernel.params, CONSTANTS, self.lines),)

    def launch(self, tasks: int, sizes: Mapping[str, int]) -> Launch:
        """The file, tiles and grid for these sizes; `tasks` is the number of products."""

        def known(x: int | str) -> int:
            return sizes[x] if isinstance(x, str) else x

        m, n, k = map(known, self.product.sizes)
        dtype = next(p.dtype for p in self.kernel.params if p.name == self.product.left)
        rows, columns, depth = (
            max(16, min(most, power_of_two(size))) for most, size in zip(TILES[dtype], (m, n, k), strict=True)
        )
        steps = [abs(known(s)) for pair in self.product.steps for s in pair]
        reach = sum(known(e) * max(map(abs, map(known, rest))) for e, *rest in self.product.batch)
        largest = max(m, n, k, 1) * max(*steps, 1) * 2 + reach + tasks * m * n
        constants = {"ROWS": rows, "COLUMNS": columns, "DEPTH": depth, "GROUP": GROUP, "WIDE": int(largest >= INT32)}
        grid = max(-(-m // rows) * -(-n // columns), 1) * max(tasks, 1)
        warps = 8 if rows * columns >= 128 * 128 else 4
        return Launch(self.sources[0], constants, warps, grid, multiples(self.sources[0], tasks, sizes))


def is_product(kernel: Kernel) -> bool:
    """Whether a kernel is a product of matrices."""
    return any(isinstance(s, Product) for s in walk(kernel.body))

