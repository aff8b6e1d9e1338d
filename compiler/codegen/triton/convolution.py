"""Convolutions in Triton: matrix products whose factors are gathered from the tensors as they are.

    y   rows m are (image, position of y), columns n rows of w, the sum runs over (channel, tap)
    x   rows m are (image, position of x), columns n channels,  the sum runs over (row of w, tap)
    w   rows m are rows of w, columns n (channel, tap),         the sum runs over (image, position of y)

Of many channels, or rows of w, a block of the sum has one tap: the sum runs over taps first. Where the tensors that are
multiplied have them last in memory, a thread reads several at once. Columns of w's gradient have one tap likewise.

A warp has to read along neighbours in memory, which Triton cannot tell of what is gathered: to versions that can be
told `_read_along` says which dimension of a block they are along, and that a thread may read no more than one at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import Shape, blocks_of, known
from eagerjit.compiler.codegen.triton.operations import Function
from eagerjit.compiler.codegen.triton.product_text import CONSTANTS, PART_OF_TILE, gathered, shared_sum
from eagerjit.compiler.codegen.triton.source import (
    COUNTERS,
    INT32,
    PARTIALS,
    Launch,
    StatementKernel,
    TritonSource,
    multiples,
)  # fmt: skip
from eagerjit.compiler.codegen.triton.tiles import DEFAULT, Tile, choose
from eagerjit.compiler.loops import Convolution, Kernel
from eagerjit.runtime.gpu.precision import precision
from eagerjit.runtime.records import replace

INPUT, KERNEL, OUTPUT, STRIDE, PADDING, DILATION = range(6)
EXTENT = {"i": INPUT, "t": KERNEL, "o": OUTPUT}
AXES = {
    "y": (("b", "o"), ("r",), ("c", "t")),
    "x": (("b", "i"), ("c",), ("r", "t")),
    "w": (("r",), ("c", "t"), ("b", "o")),
}
"""What the indices m, n and k of the product are made of: image b, channel c, row r, positions i and o, tap t."""
FACTORS = {"y": ("x", "w"), "x": ("y", "w"), "w": ("y", "x")}
SUMMED = {"y": "c", "x": "r"}
"""What the sum runs over besides taps."""
MANY = 16
"""So many of them, or channels of w's gradient, that a block has one tap, if blocks are filled for two thirds."""


DIVIDED = '''@triton.jit
def divided(x, y, WIDE: tl.constexpr):
    """x // y of numbers that are not negative, which takes half the time without signs."""
    if WIDE:
        return x // y
    else:
        return (x.to(tl.uint32) // tl.cast(y, tl.uint32)).to(tl.int32)
'''


class ConvolutionText(KernelText):
    """Writes one such kernel."""

    def __init__(self, kernel: Kernel, statement: Convolution, split: bool = False, by_taps: bool = False):
        super().__init__(kernel, Shape(True, "whole"))
        self.statement, self.split, self.by_taps = statement, split, by_taps
        self.images, self.channels, self.rows = map(str, statement.sizes)
        self.functions["divided"] = Function("divided", DIVIDED)
        self.memory = {"x": statement.x, "w": statement.w, "y": statement.y}
        self.along: set[str] = set()

    def whole(self, part: str) -> str:
        """How many indices a part of m, n or k has."""
        single = {"b": self.images, "c": self.channels, "r": self.rows}
        if part in single:
            return single[part]
        factors = [str(dim[EXTENT[part]]) for dim in self.statement.spatial if dim[EXTENT[part]] != 1]
        return f"({' * '.join(factors)})" if factors else "1"

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        s = self.statement
        axes = AXES[s.result]
        m, n, k = (" * ".join(map(self.whole, parts)) for parts in axes)
        wide = "64" if s.dtype == "f64" else "32"
        of_weight, column, taps = self.by_taps and s.result == "w", "within // height", ""
        if of_weight:
            n, column, taps = self.channels, "within // height % across", f" * {self.whole('t')}"
        for line in (
            f"high = {blocks_of(m, 'ROWS')}",
            *([f"across = {blocks_of(n, 'COLUMNS')}"] if of_weight else ()),
            f"wide = {'across' if of_weight else blocks_of(n, 'COLUMNS')}{taps}",
            "program = tl.program_id(0)",
            *(PART_OF_TILE if self.split else ()),
            "group = program // (high * wide)",
            "tile = program % (high * wide)",
            "first = tile // (GROUP * wide) * GROUP",
            "height = tl.minimum(high - first, GROUP)",
            "within = tile % (GROUP * wide)",
            "m = (first + within % height) * ROWS + tl.arange(0, ROWS)[:, None]",
            f"n = {column} * COLUMNS + tl.arange(0, COLUMNS)[None, :]",
            *(["tap = within // height // across"] if of_weight else ()),
            "if WIDE:",
            "    m = m.to(tl.int64)",
            "    n = n.to(tl.int64)",
            "    group = group.to(tl.int64)",
        ):
            self.emit(line)
        found = self._decoded("m", axes[0], "")
        found |= self._decoded("n", axes[1], "") if not of_weight else {"c": "n", **self._decoded("tap", ("t",), "")}
        by_taps = self.by_taps and not of_weight
        if by_taps:
            self.emit(f"padded = {blocks_of(self.whole(SUMMED[s.result]), 'DEPTH')} * DEPTH")
            k = f"{self.whole('t')} * padded"
        begin, end = ("begin", "end") if self.split else ("0", k)
        for line in shared_sum(k) if self.split else ():
            self.emit(line)
        self.emit(f"product = tl.full((ROWS, COLUMNS), 0.0, tl.float{wide})")
        self.emit(f"for done in range({begin}, {end}, DEPTH):")
        self.depth += 1
        start = "done"
        if by_taps:
            start, end = "done - tap * padded", self.whole(SUMMED[s.result])
            self.emit("tap = done // padded")
            found |= self._decoded("tap", ("t",), "")
        for side, index, outer in (("left", "[None, :]", f"m < {m}"), ("right", "[:, None]", f"n < {n}")):
            own = f"k_{side}"
            self.emit(f"{own} = {start} + tl.arange(0, DEPTH){index}")
            summed = {SUMMED[s.result]: own} if by_taps else self._decoded(own, axes[2], f"_{side}")
            self.along = {*summed.values()}
            factor = FACTORS[s.result][side == "right"]
            place, conditions = self._place(factor, found | summed, f"_{side}")
            self.along.add(own)
            mask = self._joined((outer, f"{own} < {end}", *conditions))
            place = self._read_along(place, side)
            self.emit(f"{side} = tl.load({self.memory[factor]} + ({place}), mask={mask}, other=0.0)")
        how = f'input_precision="tf32" if TF32 else "ieee", out_dtype=tl.float{wide}'
        self.emit(f"product = tl.dot(left, right, product, {how})")
        self.depth -= 1
        for line in gathered(wide) if self.split else ():
            self.emit(line)
        self.along = set()
        place, _ = self._place(s.result, found, "")
        inside = f"(m < {m}) & (n < {n})" + " & last" * self.split
        self.emit(f"tl.store({self.memory[s.result]} + ({place}), product, mask={inside})")
        return self.lines

    def _read_along(self, place: str, side: str) -> str:
        """A block's places with the dimension along which neighbours in memory are."""
        result = self.statement.result
        single = all(dim[KERNEL] == 1 for dim in self.statement.spatial)
        if (self.statement.last and result != "w") or (side == "right" and result != "w" and single):
            return place  # which Triton can tell
        of_points = side == "left" and result != "w" and self.by_taps
        down = of_points or (side == "right" and result != "x")
        return self.read_along(place, int(not down))

    def _joined(self, conditions: Sequence[str]) -> str:
        """All of these conditions: first those on the index of the sum alone, so that few are of a whole block."""
        parts: dict[bool, list[str]] = {True: [], False: []}
        for condition in conditions:
            parts[not self.along.isdisjoint(re.findall(r"\w+", condition))].append(f"({condition})")
        return " & ".join(f"({' & '.join(part)})" for part in parts.values() if part)

    def _decoded(self, index: str, parts: tuple[str, ...], suffix: str) -> dict[str, str]:
        """The parts of an index by name, positions and taps as `name` and number of the dimension."""
        names: list[tuple[str, str]] = []
        for part in parts:
            if part in EXTENT:
                names += [(f"{part}{d}", str(dim[EXTENT[part]])) for d, dim in enumerate(self.statement.spatial)]
            else:
                names.append((part, ""))
        found: dict[str, str] = {}
        rest = index
        for position, (name, extent) in reversed(list(enumerate(names))):
            if extent == "1":
                found[name] = "0"
                continue
            found[name] = rest
            if position:
                found[name] = f"{name}{suffix}"
                self.emit(f"{index}_{position} = divided({rest}, {extent}, WIDE)")
                self.emit(f"{name}{suffix} = {rest} - {index}_{position} * {extent}")
                rest = f"{index}_{position}"
        return found

    def _place(self, tensor: str, names: dict[str, str], suffix: str) -> tuple[str, list[str]]:
        """An element's place in a tensor, and what has to hold for it to be there."""
        conditions: list[str] = []
        kind = {"w": "t", "x": "i", "y": "o"}[tensor]
        if tensor == "w":
            positions = [names[f"t{d}"] for d in range(3)]
        else:
            positions = [self._position(kind, d, names, suffix, conditions) for d in range(3)]
        inner = [(p, str(dim[EXTENT[kind]])) for p, dim in zip(positions, self.statement.spatial, strict=True)]
        counts = {"c": self.channels, "r": self.rows}
        if self.statement.last and tensor != self.statement.result:
            last = SUMMED[self.statement.result]
            first = "b" if tensor != "w" else "r" if last == "c" else "c"
            places = [(names[first], ""), *inner, (names[last], counts[last])]
        elif tensor == "w":
            places = [(f"group * {self.rows} + {names['r']}", ""), (names["c"], self.channels), *inner]
        else:
            row = "c" if tensor == "x" else "r"
            places = [(f"{names['b']} * GROUPS + group", ""), (names[row], counts[row]), *inner]
        return self._sum_of_steps(places), conditions

    def _sum_of_steps(self, places: list[tuple[str, str]]) -> str:
        """The place with these indices in dimensions of these extents, the outermost first, whose own does not matter.

        What the index of the sum decides on is added first, so that only the last addition is of a whole block.
        """
        parts: dict[bool, list[str]] = {True: [], False: []}
        for number, (index, extent) in enumerate(places):
            if extent == "1" and index == "0":
                continue
            step = " * ".join(e for _, e in places[number + 1 :] if e != "1")
            along = not self.along.isdisjoint(re.findall(r"\w+", index))
            parts[along].append(f"({index}) * ({step})" if step else f"({index})")
        return " + ".join(f"({' + '.join(part)})" for part in parts.values() if part) or "0"

    def _position(self, kind: str, d: int, names: dict[str, str], suffix: str, conditions: list[str]) -> str:
        """A position of x from those of y and the tap, or the other way round."""
        if f"{kind}{d}" in names:
            return names[f"{kind}{d}"]
        dim = list(map(str, self.statement.spatial[d]))
        if dim[INPUT] == dim[KERNEL] == dim[OUTPUT] == "1":
            return "0"
        name, tap = f"{kind}{d}{suffix}", names[f"t{d}"]
        if {names[f"{'o' if kind == 'i' else 'i'}{d}"], tap} & self.along:
            self.along.add(name)
        if kind == "i":
            self.emit(f"{name} = {names[f'o{d}']} * {dim[STRIDE]} - {dim[PADDING]} + {tap} * {dim[DILATION]}")
            conditions += [f"{name} >= 0", f"{name} < {dim[INPUT]}"]
            return name
        self.emit(f"reach{d} = {names[f'i{d}']} + {dim[PADDING]} - {tap} * {dim[DILATION]}")
        self.emit(f"{name} = reach{d} // {dim[STRIDE]}")
        conditions += [f"reach{d} >= 0", f"{name} * {dim[STRIDE]} == reach{d}", f"{name} < {dim[OUTPUT]}"]
        return name


class ConvolutionKernel(StatementKernel[Convolution]):
    """A convolution of the IR for the GPU, used like a `TritonKernel`."""

    def __init__(self, kernel: Kernel, lines: Sequence[str] = ()):
        super().__init__(kernel, lines)
        self.source = lru_cache(self._source)

    def _source(self, split: bool, by_taps: bool) -> TritonSource:
        """The file for a program per tile, or several; `by_taps`: the sum runs over taps first."""
        writer = ConvolutionText(self.kernel, self.statement, split, by_taps)
        if not split:
            return self.file(writer, (*CONSTANTS, "GROUPS"))
        sums = "f64" if self.statement.dtype == "f64" else "f32"
        return self.file(writer, (*CONSTANTS, "GROUPS", "SPLIT"), (replace(PARTIALS, dtype=sums), COUNTERS))

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file, tiles and grid for these sizes; `tasks` is the number of groups."""
        s = self.statement
        counts = dict(zip("bcr", (known(x, sizes) for x in s.sizes), strict=True))
        for part, which in EXTENT.items():
            counts[part] = 1
            for dim in s.spatial:
                counts[part] *= known(dim[which], sizes)
        extents = []
        for parts in AXES[s.result]:
            extents.append(1)
            for part in parts:
                extents[-1] *= counts[part]
        m, n, k = (max(extent, 1) for extent in extents)
        factors = next(p.dtype for p in self.kernel.params if p.name != {"x": s.x, "w": s.w, "y": s.y}[s.result])
        columns, products = n, tasks
        if s.result == "w" and counts["c"] >= MANY:
            columns, products = counts["c"], tasks * counts["t"]
        tile = choose(m, columns, k, max(products, 1), factors, precision.tf32, architecture, addressed=True)
        places = (
            counts["b"] * counts["c"] * counts["i"], counts["r"] * counts["c"] * counts["t"],
            counts["b"] * counts["r"] * counts["o"],
        )  # fmt: skip
        largest = max(tasks * max(places), m + tile.rows, n + tile.columns, k + tile.split * tile.depth)
        constants = {
            "ROWS": tile.rows, "COLUMNS": tile.columns, "DEPTH": tile.depth, "GROUP": tile.group,
            "TF32": int(precision.tf32 and factors == "f32"), "WIDE": int(largest >= INT32), "GROUPS": tasks,
        }  # fmt: skip
        tiles = max(-(-m // tile.rows) * -(-n // tile.columns), 1) * max(tasks, 1)
        by_taps = self._by_taps(counts, tile)
        if by_taps and s.result == "w":
            tiles = max(-(-m // tile.rows) * -(-counts["c"] // tile.columns) * counts["t"], 1) * max(tasks, 1)
        source, own = self.source(tile.split > 1, by_taps), (0, 0)
        aligned = multiples(source, tasks, sizes)
        if tile.split > 1:
            constants["SPLIT"] = tile.split
            own = tiles * tile.split * tile.rows * tile.columns * (8 if s.dtype == "f64" else 4), tiles
            aligned += ("partials",)
        return Launch(source, constants, tile.warps, tiles * tile.split, aligned, tile.stages, *own)

    def _by_taps(self, counts: Mapping[str, int], tile: Tile) -> bool:
        """Whether a block of the sum, or a tile of the weight's gradient, has one tap."""
        result = self.statement.result
        count, block = (counts["c"], tile.columns) if result == "w" else (counts[SUMMED[result]], tile.depth)
        return count >= MANY and 2 * (-(-count // block) * block) <= 3 * count
