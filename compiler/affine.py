"""Index maps: for every dimension of a value its index as an affine function of a kernel's loop variables."""

from __future__ import annotations

from eagerjit.compiler import sizes
from eagerjit.compiler.shapes import common_refinement
from eagerjit.runtime.records import record

Shape = tuple[sizes.Expr, ...]


@record(frozen=True)
class Affine:
    """The sum of coefficient * loop variable over `terms` (ordered by variable), plus an offset."""

    terms: tuple[tuple[int, sizes.Expr], ...] = ()
    offset: sizes.Expr = 0

    def scaled(self, factor: sizes.Expr) -> Affine:
        """The function times a size."""
        if isinstance(factor, int) and factor == 0:
            return ZERO
        if isinstance(factor, int) and factor == 1:
            return self
        return Affine(tuple((v, sizes.mul(c, factor)) for v, c in self.terms), sizes.mul(self.offset, factor))

    def plus(self, other: Affine) -> Affine:
        """The sum of two functions."""
        if not other.terms and other.offset == 0:
            return self
        if not self.terms and self.offset == 0:
            return other
        terms = dict(self.terms)
        for v, c in other.terms:
            terms[v] = sizes.add(terms.get(v, 0), c)
        return Affine(tuple(sorted((v, c) for v, c in terms.items() if c != 0)), sizes.add(self.offset, other.offset))


ZERO = Affine()
Map = tuple[Affine, ...]


def without_ones(shape: Shape) -> Shape:
    """The shape without its dimensions of size 1."""
    return tuple(d for d in shape if d != 1)


def refine(a: Shape, b: Shape) -> Shape | None:
    """The coarsest sizes that both shapes group, or None where the algebra shows none."""
    if a == b:
        return a
    groups = common_refinement(a, b)
    return None if groups is None else tuple(d for refined, _, _ in groups for d in refined)


def identity_map(shape: Shape, extents: Shape, first: int = 0) -> Map | None:
    """The map of a value whose row-major order is that of the loops `first`, first + 1, ...; None if it cannot fit."""
    out: list[Affine] = []
    position = 0
    for size in shape:
        if size == 1:
            out.append(ZERO)
            continue
        run: list[int] = []
        reach: sizes.Expr = 1
        while reach != size or not run:
            if position == len(extents):
                return None
            run.append(position)
            reach = sizes.mul(reach, extents[position])
            position += 1
        terms: list[tuple[int, sizes.Expr]] = []
        step: sizes.Expr = 1
        for v in reversed(run):
            terms.append((v + first, step))
            step = sizes.mul(step, extents[v])
        out.append(Affine(tuple(reversed(terms))))
    return tuple(out) if position == len(extents) else None


def broadcast_map(map_: Map, shape: Shape, operand: Shape) -> Map:
    """An operand's map, given that of the result it is broadcast to."""
    added = len(shape) - len(operand)
    return tuple(ZERO if size == 1 else map_[added + i] for i, size in enumerate(operand))


def split_linear(linear: Affine, shape: Shape, extents: dict[int, sizes.Expr]) -> Map | None:
    """Indices into a shape from a row-major position, where loops nest in its dimensions one by one."""
    terms = dict((c, v) for v, c in linear.terms)
    out: list[Affine] = []
    step: sizes.Expr = 1
    used = 0
    for size in reversed(shape):
        if size == 1:
            out.append(ZERO)
            continue
        run: list[tuple[int, sizes.Expr]] = []
        reach: sizes.Expr = 1
        while reach != size:
            v = terms.get(sizes.mul(step, reach))
            if v is None:
                return None
            run.append((v, reach))
            reach = sizes.mul(reach, extents[v])
            used += 1
        out.append(Affine(tuple(sorted(run))))
        step = sizes.mul(step, size)
    return tuple(reversed(out)) if used == len(linear.terms) else None


def address(map_: Map, strides: Shape, offset: sizes.Expr) -> Affine:
    """The element offset in memory of a value with this map, strides and offset."""
    out = Affine((), offset)
    for index, stride in zip(map_, strides, strict=True):
        out = out.plus(index.scaled(stride))
    return out
