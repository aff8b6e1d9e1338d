"""Attention in Triton, forward and gradients, without a matrix of weights in memory.

    forward     a block of rows per program: keys in steps, with a running maximum and sum of every row
    query       the same rows: weights again from the row's log of the sum, their gradient, times the keys
    key_value   a block of keys per program: rows in steps, the gradients of keys and values in registers

Where the GPU can load blocks by itself (`described.py`), no thread has an address of what is read.

Exponentials are powers of two, so scores carry log2(e) in their scale. What a causal mask hides is not computed; blocks
that it or a length cuts are a loop of their own. Programs with the most work start first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from eagerjit.compiler.codegen.triton.described import FIRST, MATRICES, block_load, is_large, of_attention, wanted
from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import Shape, known
from eagerjit.compiler.codegen.triton.operations import Function
from eagerjit.compiler.codegen.triton.source import INT32, Launch, StatementKernel, TritonSource, multiples
from eagerjit.compiler.codegen.triton.tiles import DEFAULT, gpu, power_of_two
from eagerjit.compiler.loops import Attention, Kernel
from eagerjit.runtime.gpu.precision import precision

LOG2E = math.log2(math.e)
ITEMSIZE = {"f32": 4, "f64": 8}
CONSTANTS = ("ROWS", "KEYS", "FEATURES", "VALUES", "DIM", "OUT", "TF32", "WIDE")
"""Rows and keys of a block, features of q and of v, and the powers of two that hold these."""
FETCH = '''@triton.jit
def fetch(pointers, features, inside, ODD: tl.constexpr, EDGE: tl.constexpr):
    """A tile of a matrix: with `ODD` some features are none, with `EDGE` some rows."""
    if ODD and EDGE:
        return tl.load(pointers, mask=features & inside, other=0.0)
    if ODD:
        return tl.load(pointers, mask=features & (inside | True), other=0.0)
    if EDGE:
        return tl.load(pointers, mask=inside, other=0.0)
    return tl.load(pointers)
'''
ROW, COLUMN = "[:, None]", "[None, :]"
INFINITY = 'float("inf")'


class AttentionText(KernelText):
    """Writes one such kernel; `described`: the GPU loads blocks by itself."""

    def __init__(self, kernel: Kernel, statement: Attention, described: bool = False):
        super().__init__(kernel, Shape(True, "whole"))
        self.statement, self.described = statement, described
        self.places: dict[int, str] = {}
        self.memory = {name: (param, steps) for name, param, steps in statement.memory}
        self.rows, self.keys = map(str, statement.sizes[:2])
        self.sums = f"tl.float{64 if statement.dtype == 'f64' else 32}"
        if not described:
            self.functions["fetch"] = Function("fetch", FETCH)

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        extent, size = (self.keys, "KEYS") if self.statement.kind == "key_value" else (self.rows, "ROWS")
        self._lines(
            # At least one, which does nothing. With a maximum instead the gradients have more values than registers.
            f"blocks = ({extent} + {size} - 1) // {size} + ({extent} == 0)",
            "block = tl.program_id(0) % blocks" if size == "KEYS" else "block = blocks - 1 - tl.program_id(0) % blocks",
            "head = tl.program_id(0) // blocks",
            "if WIDE:",
            "    block = block.to(tl.int64)",
            "    head = head.to(tl.int64)",
            f"scale = tl.full((), {self.statement.scale * LOG2E!r}, {self.sums})",
        )
        self._starts()
        getattr(self, f"_{self.statement.kind}")()
        return self.lines

    def _lines(self, *lines: str) -> None:
        for line in lines:
            self.emit(line)

    def _starts(self) -> None:
        """Where every tensor's part for this head starts."""
        rest = "head"
        for d, extent in reversed(list(enumerate(self.statement.batch))):
            self.places[d] = f"head{d}" if d else rest
            if d:
                self._lines(f"head{d} = {rest} % {extent}", f"rest{d} = {rest} // {extent}")
                rest = f"rest{d}"
        for name, (param, steps) in self.memory.items():
            if self.described and name in MATRICES:
                continue
            terms = [f"{place} * {steps[2 + d]}" for d, place in self.places.items()] or ["0"]
            self.emit(f"{name}_start = {param} + ({' + '.join(terms)})")

    def _tile(self, name: str, index: str, limit: str, edge: bool, turned: bool = False) -> str:
        """Rows of a matrix, all their features; `turned`: as columns."""
        param, (row, column, *apart) = self.memory[name]
        if self.described:
            size, features = "ROWS" if name in ("q", "g") else "KEYS", "OUT" if name in ("v", "g") else "DIM"
            inside = (size == "KEYS") == (self.statement.kind == "key_value")
            first = f"block * {size}" if inside else "first"
            outer = [self.places[d] for d, step in enumerate(apart) if step != 0]
            return block_load(param, outer, (first, "0"), (size, features), False) + ".T" * turned
        down, along = (COLUMN, ROW) if turned else (ROW, COLUMN)
        feature, count, size = ("e", "VALUES", "OUT") if name in ("v", "g") else ("d", "FEATURES", "DIM")
        place = f"{name}_start + ({index}{down} * {row} + {feature}{along} * {column})"
        conditions = f"{feature}{along} < {count}, {index}{down} < {limit}"
        return f"fetch({place}, {conditions}, {count} != {size}, {edge})"

    def _numbers(self, name: str, index: str, outside: str) -> str:
        """A number for each row."""
        step = self.memory[name][1][0]
        return f"tl.load({name}_start + {index} * {step}, mask={index} < {self.rows}, other={outside}).to({self.sums})"

    def _dot(self, left: str, right: str, onto: str = "") -> str:
        added = f", {onto}" if onto else ""
        return f'tl.dot({left}, {right}{added}, input_precision="tf32" if TF32 else "ieee", out_dtype={self.sums})'

    def _hidden(self, i: str, j: str, edge: bool) -> None:
        """The mask that was given, and what the edges of blocks and the order of positions hide."""
        conditions = []
        if "mask" in self.memory:
            param, (row, column, *_) = self.memory["mask"]
            inside = f"({i} < {self.rows}) & ({j} < {self.keys})"
            self.emit(f"given = tl.load(mask_start + ({i} * {row} + {j} * {column}), mask={inside}, other=0)")
            if self.dtypes[param] == "bool":
                conditions.append("(given != 0)")
            else:
                self.emit(f"s += given.to({self.sums}) * {LOG2E}")
        if edge:
            conditions.append(f"({j} < {self.keys})")
            conditions += [f"({j} <= {i})"] * self.statement.causal
        if conditions:
            self.emit(f's = tl.where({" & ".join(conditions)}, s, float("-inf"))')

    @property
    def _late(self) -> bool:
        """Whether scores are scaled where their maximum is taken off, in one instruction: the largest one stays it."""
        return self.statement.scale > 0 and "mask" not in self.memory

    @property
    def _scaled(self) -> str:
        return "" if self._late else " * scale"

    def _power(self, least: str) -> str:
        """The line of the weights, of scores `s` and what is taken off them."""
        return f"p = tl.exp2({f'tl.fma(s, scale, -{least})' if self._late else f's - {least}'})"

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _row_block(self) -> None:
        self._lines(
            "i = block * ROWS + tl.arange(0, ROWS)",
            "d = tl.arange(0, DIM)",
            "e = tl.arange(0, OUT)",
            f"q = {self._tile('q', 'i', self.rows, True)}",
        )

    def _over_keys(self, step: list[str]) -> None:
        """Two loops: over blocks of keys that all rows see, and over those that an edge cuts."""
        causal = self.statement.causal
        whole = f"tl.minimum(block * ROWS + 1, {self.keys})" if causal else self.keys
        self.emit(f"whole = {whole} // KEYS * KEYS")
        self.emit(f"end = tl.minimum((block + 1) * ROWS, {self.keys})" if causal else f"end = {self.keys}")
        for edge, bounds in ((False, "0, whole"), (True, "whole, end")):
            self.emit(f"for first in range({bounds}, KEYS):")
            self.depth += 1
            self._lines(
                "j = first + tl.arange(0, KEYS)",
                f"k = {self._tile('k', 'j', self.keys, edge, turned=True)}",
                f"s = {self._dot('q', 'k')}{self._scaled}",
            )
            self._hidden(f"i{ROW}", f"j{COLUMN}", edge)
            for line in step:
                turned = line.startswith("v = turned")
                self.emit(f"v = {self._tile('v', 'j', self.keys, edge, turned)}" if line.startswith("v = ") else line)
            self.depth -= 1

    def _forward(self) -> None:
        self._row_block()
        self._lines(
            f"best = tl.full((ROWS,), -{INFINITY}, {self.sums})",
            f"total = tl.full((ROWS,), 0.0, {self.sums})",
            f"out = tl.full((ROWS, OUT), 0.0, {self.sums})",
        )
        masked = "mask" in self.memory  # a row of which all is hidden has no maximum
        least = "least" if masked else "top"
        for name, both in (("larger", "tl.maximum(x, y)"), ("sum_of", "x + y")):
            self.functions[name] = Function(name, f"@triton.jit\ndef {name}(x, y):\n    return {both}\n")
        step = [
            f"top = tl.maximum(best, tl.reduce(s, 1, larger){' * scale' * self._late})",
            *(["least = tl.where(top == float('-inf'), 0.0, top)"] if masked else []),
            self._power(f"{least}[:, None]"),
            f"kept = tl.exp2(best - {least})",
            "total = total * kept + tl.reduce(p, 1, sum_of)",
            "v = rows",
            f"out = {self._dot('p.to(v.dtype)', 'v', 'out * kept[:, None]')}",
            "best = top",
        ]
        self._over_keys(step)
        self._lines("none = total == 0.0", "out = out / tl.where(none, 1.0, total)[:, None]")
        self._store("out", "i", "out", self.rows)
        if "lse" in self.memory:
            number = f"tl.where(none, {INFINITY}, (best + tl.log2(total)) * {1 / LOG2E!r})"
            self.emit(f"tl.store(lse_start + i * {self.memory['lse'][1][0]}, {number}, mask=i < {self.rows})")

    def _store(self, name: str, index: str, value: str, limit: str) -> None:
        if name not in self.memory:
            return
        feature, count = ("e", "VALUES") if name in ("out", "dv") else ("d", "FEATURES")
        mask = f"({index}{ROW} < {limit}) & ({feature}{COLUMN} < {count})"
        row, column = self.memory[name][1][:2]
        place = f"{index}{ROW} * {row} + {feature}{COLUMN} * {column}"
        self.emit(f"tl.store({name}_start + ({place}), {value}, mask={mask})")

    def _query(self) -> None:
        self._row_block()
        self._lines(
            f"g = {self._tile('g', 'i', self.rows, True)}",
            f"lse = {self._numbers('lse', 'i', INFINITY)} * {LOG2E}",
            f"delta = {self._numbers('delta', 'i', '0.0')}",
            f"dq = tl.full((ROWS, DIM), 0.0, {self.sums})",
        )
        step = [
            self._power("lse[:, None]"),
            "v = turned",
            f"into = {self._dot('g', 'v')}",
            "slope = p * (into - delta[:, None])",
            f"dq = {self._dot('slope.to(k.dtype)', 'tl.trans(k)', 'dq')}",
        ]
        self._over_keys(step)
        self._store("dq", "i", f"dq * {self.statement.scale!r}", self.rows)

    # -- keys ---------------------------------------------------------------------------------------------------------

    def _key_value(self) -> None:
        causal = self.statement.causal
        self._lines(
            "j = block * KEYS + tl.arange(0, KEYS)",
            "d = tl.arange(0, DIM)",
            "e = tl.arange(0, OUT)",
            f"k = {self._tile('k', 'j', self.keys, True)}",
            f"v = {self._tile('v', 'j', self.keys, True)}",
            f"dk = tl.full((KEYS, DIM), 0.0, {self.sums})",
            f"dv = tl.full((KEYS, OUT), 0.0, {self.sums})",
        )
        loops = [(False, f"0, {self.rows}")]
        if causal:
            self._lines(
                "begin = block * KEYS // ROWS * ROWS",
                f"whole = tl.minimum(((block + 1) * KEYS + ROWS - 1) // ROWS * ROWS, {self.rows})",
            )
            loops = [(True, "begin, whole"), (False, f"whole, {self.rows}")]
        for edge, bounds in loops:
            self.emit(f"for first in range({bounds}, ROWS):")
            self.depth += 1
            self._lines(
                "i = first + tl.arange(0, ROWS)",
                f"q = {self._tile('q', 'i', self.rows, True, turned=True)}",
                f"lse = {self._numbers('lse', 'i', INFINITY)} * {LOG2E}",
                f"s = {self._dot('k', 'q')}{self._scaled}",
            )
            self._hidden(f"i{COLUMN}", f"j{ROW}", edge)
            self._lines(
                self._power("lse[None, :]"),
                f"g = {self._tile('g', 'i', self.rows, True)}",
                f"dv = {self._dot('p.to(g.dtype)', 'g', 'dv')}",
                f"delta = {self._numbers('delta', 'i', '0.0')}",
                f"into = {self._dot('v', 'tl.trans(g)')}",
                "slope = p * (into - delta[None, :])",
                f"dk = {self._dot('slope.to(q.dtype)', 'tl.trans(q)', 'dk')}",
            )
            self.depth -= 1
        self._store("dk", "j", f"dk * {self.statement.scale!r}", self.keys)
        self._store("dv", "j", "dv", self.keys)


class AttentionKernel(StatementKernel[Attention]):
    """An attention of the IR for the GPU, used like a `TritonKernel`."""

    def __init__(self, kernel: Kernel, lines: Sequence[str] = ()):
        super().__init__(kernel, lines)
        self.source = lru_cache(self._source)

    def _source(self, described: bool) -> TritonSource:
        """The file."""
        return self.file(AttentionText(self.kernel, self.statement, described), CONSTANTS)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file, tiles and grid for these sizes; `tasks` is the number of heads."""
        s = self.statement
        rows, keys, features, values = (known(x, sizes) for x in s.sizes)
        dim, out = (max(16, power_of_two(n)) for n in (features, values))
        by_gpu = wanted(architecture) and is_large(s, sizes)
        loaded = by_gpu and bool(of_attention(s, sizes, dim, dim, (dim, out)))
        most_rows, most_keys, warps, ahead = blocks(s.kind, s.dtype, max(dim, out), architecture, by_gpu)
        high, wide = (max(16, min(most, power_of_two(n))) for most, n in ((most_rows, rows), (most_keys, keys)))
        extents = (max(rows, keys), max(rows, keys, features, values), *(known(x, sizes) for x in s.batch))
        reach = max(
            sum(n * abs(known(step, sizes)) for n, step in zip(extents, steps, strict=False))
            for _, _, steps in s.memory
        )
        constants = {
            "ROWS": high, "KEYS": wide, "FEATURES": features, "VALUES": values, "DIM": dim, "OUT": out,
            "TF32": int(precision.tf32 and s.dtype == "f32"), "WIDE": int(reach * 2 >= INT32),
        }  # fmt: skip
        programs = -(-keys // wide) if s.kind == "key_value" else -(-rows // high)
        grid = max(programs, 1) * max(tasks, 1)
        own, step = (wide, high) if s.kind == "key_value" else (high, wide)
        kept = own * (dim if s.kind == "forward" else dim + out)
        numbers = gpu(architecture).shared // ITEMSIZE.get(s.dtype, 2) - kept
        stages = max(min(ahead, numbers // (step * (dim + out))), 1)
        described = of_attention(s, sizes, high, wide, (dim, out)) if loaded else ()
        source = self.source(loaded)
        aligned = multiples(source, tasks, sizes, described)
        return Launch(source, constants, warps, grid, aligned, stages, descriptors=described)


def blocks(kind: str, dtype: str, dim: int, architecture: int, by_gpu: bool) -> tuple[int, int, int, int]:
    """(rows, keys, warps) of a block for heads of so many features, and steps that are loaded ahead.

    More steps ahead would take the room of another program, or registers. Where the GPU itself loads blocks, small ones
    were fastest on an H100: while one program's tensor cores wait for its exponentials, another's are busy. Matrices
    of the same sizes that lie so that it cannot have the same ones: bits must not depend on where a compiled call puts
    what a plain one has.
    """
    if dtype == "f64":
        return 16, 16, 4, 3
    if dtype == "f32":
        return (64, 32, 4, 3) if dim <= 64 else (32, 32, 4, 3) if dim <= 128 else (16, 16, 4, 3)
    if by_gpu and dim <= 128:
        ahead = {"forward": (2, 3), "query": (2, 2), "key_value": (1, 2)}
        return 64, 64, 4, ahead[kind][dim > 64]
    if kind == "forward" and architecture >= FIRST and dim > 64:
        return (128, 128, 8, 2) if dim <= 128 else (128, 64, 8, 2)
    if kind == "forward":
        return (128, 64, 8, 3) if dim <= 128 else (64, 32, 4, 2)
    if kind == "query":
        return (64, 64, 4, 3) if dim <= 64 else (64, 64, 4, 2) if dim <= 128 else (64, 32, 8, 2)
    return (64, 64, 4, 3) if dim <= 64 else (32, 128, 8, 2) if dim <= 128 else (32, 64, 8, 2)
