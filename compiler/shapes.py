"""Shapes and strides: row-major strides, and how two shapes of the same elements relate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eagerjit.compiler import sizes

Shape = tuple[sizes.Expr, ...]


def contiguous_strides(shape: Shape) -> Shape:
    """Row-major strides."""
    strides: list[sizes.Expr] = []
    step: sizes.Expr = 1
    for size in reversed(shape):
        strides.append(step)
        step = sizes.mul(step, sizes.simplified(size))
    return tuple(reversed(strides))


def inverse(dims: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes `dims`."""
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


def strides_of_permuted(extents: Sequence[int], strides: Sequence[int], shape: Shape) -> dict[int, sizes.Expr]:
    """The strides of sizes over 1 as products of sizes in `shape`; empty where this is no permuted row-major memory."""
    found: dict[int, sizes.Expr] = {}
    step: sizes.Expr = 1
    reach = 1
    for d in sorted((d for d, extent in enumerate(extents) if extent != 1), key=strides.__getitem__):
        if strides[d] != reach:
            return {}
        found[d], reach, step = step, reach * extents[d], sizes.mul(step, shape[d])
    return found


def simplified(shape: Iterable[sizes.Expr]) -> Shape:
    """Sizes as what the trace has found them to be."""
    return tuple(map(sizes.simplified, shape))


Group = tuple[list[sizes.Expr], int, int]
"""Refined sizes, and how many dimensions of two shapes they refine."""


def common_refinement(a: Shape, b: Shape, tie: bool = False) -> list[Group] | None:
    """Match two shapes of equal numel: groups (refined sizes, dims taken from a, dims taken from b), or None.

    Every group is the smallest run of dimensions with the same product on both sides whose sizes divide each other.
    With `tie`, a trace is tied to this call's sizes where algebra cannot tell whether they do.
    """
    a, b = simplified(a), simplified(b)
    groups: list[Group] = []
    i = j = 0
    while i < len(a) or j < len(b):
        group: Group | None
        if i < len(a) and a[i] == 1:
            group = [], 1, 0
        elif j < len(b) and b[j] == 1:
            group = [], 0, 1
        elif i == len(a) or j == len(b):
            return None
        else:
            group = _first_group(a[i:], b[j:], tie)
            a, b = simplified(a), simplified(b)  # of sizes that the group was tied to, more is known now
        if group is None:
            return None
        groups.append(group)
        i, j = i + group[1], j + group[2]
    return groups


def _first_group(a: Shape, b: Shape, tie: bool) -> Group | None:
    """The group that two shapes begin with, neither of them with a 1."""
    refined: list[sizes.Expr] = []
    left, right, taken_a, taken_b = a[0], b[0], 1, 1
    while not (left == 1 and right == 1):
        if left == 1:
            if taken_a == len(a):
                return None
            left = a[taken_a]
            taken_a += 1
        elif right == 1:
            if taken_b == len(b):
                return None
            right = b[taken_b]
            taken_b += 1
        elif left == right:
            refined.append(left)
            left = right = 1
        elif (q := sizes.exact_quotient(left, right)) is not None:
            # The larger side's outer part equals what the smaller side has shown so far.
            refined.append(right)
            left, right = q, 1
        elif (q := sizes.exact_quotient(right, left)) is not None:
            refined.append(left)
            left, right = 1, q
        elif not tie or (isinstance(left, int) and isinstance(right, int)):
            return None
        else:
            left, right = sizes.pinned(left), sizes.pinned(right)
            a, b = simplified(a), simplified(b)  # what depends on them is known now
    return refined, taken_a, taken_b


def expanded_strides(shape: Shape, strides: Shape, wanted: Shape) -> Shape:
    """Strides of a tensor with dimensions of one element repeated, and new ones in front: those of one element go over
    all that is behind them, as PyTorch's do, but for what has no dimensions itself.
    """
    added = len(wanted) - len(shape)
    found = [0 if old == 1 and new != 1 else s for old, new, s in zip(shape, wanted[added:], strides, strict=True)]
    for position in reversed(range(added)):
        found.insert(0, sizes.mul(wanted[position + 1], found[0]) if shape and wanted[position] == 1 else 0)
    return tuple(found)


def reshape_strides(shape: Shape, strides: Shape, target: Shape, tie: bool = False) -> Shape | None:
    """Strides of the same memory under the target shape, or None where only a copy can give it.

    `tie`: see `common_refinement`.
    """
    shape, strides, target = map(simplified, (shape, strides, target))
    if strides == contiguous_strides(shape) or 0 in shape:
        return contiguous_strides(target)
    shape, strides = _joined(shape, strides, tie)
    groups = common_refinement(shape, target, tie)
    if groups is None:
        return None
    shape, strides, target = map(simplified, (shape, strides, target))  # more is known than before
    out: list[sizes.Expr] = []
    i = j = 0
    for refined, taken_a, taken_b in groups:
        if not refined:
            out += [1] * taken_b
            i, j = i + taken_a, j + taken_b
            continue
        refined = list(simplified(refined))
        fine = _split(shape[i : i + taken_a], strides[i : i + taken_a], refined)
        merged = _merge(refined, fine, target[j : j + taken_b])
        if merged is None:
            return None
        out += merged
        i, j = i + taken_a, j + taken_b
    # Dimensions of size 1 have any stride; eager views give them those of row-major memory.
    return tuple(r if d == 1 else s for d, s, r in zip(target, out, contiguous_strides(target), strict=True))


def _joined(shape: Shape, strides: Shape, tie: bool) -> tuple[Shape, Shape]:
    """Neighbouring dimensions whose strides nest as one dimension; those of size 1 left out."""
    sizes_: list[Any] = []
    steps: list[Any] = []
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        reach = sizes.mul(size, stride)
        if steps and (sizes.equal(steps[-1], reach) if tie else steps[-1] == reach):
            sizes_[-1], steps[-1] = sizes.mul(sizes_[-1], size), stride
        else:
            sizes_.append(size)
            steps.append(stride)
    return tuple(sizes_), tuple(steps)


def _split(shape: Shape, strides: Shape, refined: list[sizes.Expr]) -> list[sizes.Expr]:
    """Strides of the refined sizes, each of which lies inside one dimension of `shape`."""
    out: list[sizes.Expr] = []
    position = len(refined)
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        inner: sizes.Expr = 1
        while inner != size:
            position -= 1
            out.append(sizes.mul(stride, inner))
            inner = sizes.mul(inner, refined[position])
    return out[::-1]


def _merge(refined: list[sizes.Expr], strides: list[sizes.Expr], target: Shape) -> list[sizes.Expr] | None:
    """Strides of the target's dimensions, each a run of refined sizes whose strides must nest."""
    out: list[sizes.Expr] = []
    position = len(refined)
    for size in reversed(target):
        if size == 1:
            out.append(1)
            continue
        position -= 1
        base, reach = strides[position], refined[position]
        while reach != size:
            position -= 1
            if not sizes.equal(strides[position], sizes.mul(base, reach)):
                return None
            reach = sizes.mul(reach, refined[position])
        out.append(base)
    return out[::-1]
