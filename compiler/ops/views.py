"""Views: the same memory seen through other sizes and strides. Strides are in elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import TensorType
from eagerjit.compiler.ops.declare import Primitive, declare

Shape = tuple[sizes.Expr, ...]


def contiguous_strides(shape: Shape) -> Shape:
    """Row-major strides."""
    strides: list[sizes.Expr] = []
    step: sizes.Expr = 1
    for size in reversed(shape):
        strides.append(step)
        step = sizes.mul(step, size)
    return tuple(reversed(strides))


def common_refinement(a: Shape, b: Shape) -> list[tuple[list[sizes.Expr], int, int]] | None:
    """Match two shapes of equal numel: groups (refined sizes, dims taken from a, dims taken from b), or None.

    Every group is the smallest run of dimensions with the same product on both sides whose sizes divide each other.
    """
    groups: list[tuple[list[sizes.Expr], int, int]] = []
    i = j = 0
    while i < len(a) or j < len(b):
        if i < len(a) and a[i] == 1:
            groups.append(([], 1, 0))
            i += 1
            continue
        if j < len(b) and b[j] == 1:
            groups.append(([], 0, 1))
            j += 1
            continue
        if i == len(a) or j == len(b):
            return None
        refined: list[sizes.Expr] = []
        left, right, taken_a, taken_b = a[i], b[j], 1, 1
        while not (left == 1 and right == 1):
            if left == 1:
                if i + taken_a == len(a):
                    return None
                left = a[i + taken_a]
                taken_a += 1
            elif right == 1:
                if j + taken_b == len(b):
                    return None
                right = b[j + taken_b]
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
            else:
                return None
        groups.append((refined, taken_a, taken_b))
        i, j = i + taken_a, j + taken_b
    return groups


def reshape_strides(shape: Shape, strides: Shape, target: Shape) -> Shape | None:
    """Strides of the same memory under the target shape, or None where only a copy can give it."""
    if strides == contiguous_strides(shape):
        return contiguous_strides(target)
    groups = common_refinement(shape, target)
    if groups is None:
        return None
    out: list[sizes.Expr] = []
    i = j = 0
    for refined, taken_a, taken_b in groups:
        if not refined:
            out += [1] * taken_b
            i, j = i + taken_a, j + taken_b
            continue
        fine = _split(shape[i : i + taken_a], strides[i : i + taken_a], refined)
        merged = _merge(refined, fine, target[j : j + taken_b])
        if merged is None:
            return None
        out += merged
        i, j = i + taken_a, j + taken_b
    return tuple(out)


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
            if strides[position] != sizes.mul(base, reach):
                return None
            reach = sizes.mul(reach, refined[position])
        out.append(base)
    return out[::-1]


def _reshape_type(x: TensorType, shape: Shape) -> TensorType:
    if not sizes.equal(x.numel, sizes.product(shape)):
        raise ValueError(f"shape '{list(shape)}' is invalid for input of size {sizes.hint(x.numel)}")
    return TensorType(x.dtype, shape)


def _reshape_layout(size: Shape, strides: Shape, offset: sizes.Expr, shape: Shape) -> Any:
    new = reshape_strides(size, strides, shape)
    return None if new is None else (new, offset)


reshape = declare(
    Primitive(
        "reshape",
        "view",
        _reshape_type,
        lambda x, shape: x.reshape(shape),
        "The same elements in the same order under another shape.",
        derivative=(lambda g, out, x, shape: g.reshape(x.shape),),
        layout=_reshape_layout,
    )
)


def _permute_type(x: TensorType, dims: tuple[int, ...]) -> TensorType:
    if sorted(dims) != list(range(len(x.shape))):
        raise ValueError(f"permute: dims {dims} do not permute {len(x.shape)} dimensions")
    return TensorType(x.dtype, tuple(x.shape[d] for d in dims))


permute = declare(
    Primitive(
        "permute",
        "view",
        _permute_type,
        lambda x, dims: np.transpose(x, dims),
        "Dimensions in another order.",
        derivative=(lambda g, out, x, dims: g.permute(tuple(sorted(range(len(dims)), key=dims.__getitem__))),),
        layout=lambda size, strides, offset, dims: (tuple(strides[d] for d in dims), offset),
    )
)


def _expand_type(x: TensorType, shape: Shape) -> TensorType:
    if len(shape) < len(x.shape):
        raise ValueError(f"expand: the number of sizes ({len(shape)}) is less than the tensor's ({len(x.shape)})")
    for old, new in zip(reversed(x.shape), reversed(shape), strict=False):
        if old != 1 and not sizes.equal(old, new):
            raise ValueError(
                f"The expanded size of the tensor ({sizes.hint(new)}) must match the existing size ({sizes.hint(old)})"
            )
    return TensorType(x.dtype, shape)


def _expand_layout(size: Shape, strides: Shape, offset: sizes.Expr, shape: Shape) -> Any:
    added = len(shape) - len(size)
    kept = tuple(0 if old == 1 and new != 1 else s for old, new, s in zip(size, shape[added:], strides, strict=True))
    return (0,) * added + kept, offset


expand = declare(
    Primitive(
        "expand",
        "view",
        _expand_type,
        lambda x, shape: np.broadcast_to(x, shape),
        "Dimensions of size 1 repeated without a copy.",
        derivative=(lambda g, out, x, shape: g.sum_to_size(x.shape),),
        layout=_expand_layout,
    )
)


def slice_length(start: sizes.Expr, stop: sizes.Expr, step: int) -> sizes.Expr:
    """Elements from start to stop in steps."""
    return sizes.floordiv(sizes.add(sizes.add(stop, sizes.mul(start, -1)), step - 1), step)


def _slice_type(x: TensorType, dim: int, start: sizes.Expr, stop: sizes.Expr, step: int) -> TensorType:
    shape = list(x.shape)
    shape[dim] = slice_length(start, stop, step)
    return TensorType(x.dtype, tuple(shape))


def _slice_reference(x: np.ndarray, dim: int, start: int, stop: int, step: int) -> np.ndarray:
    return x[(slice(None),) * dim + (slice(start, stop, step),)]


def _slice_layout(
    size: Shape, strides: Shape, offset: sizes.Expr, dim: int, start: sizes.Expr, stop: sizes.Expr, step: int
) -> Any:
    new = list(strides)
    new[dim] = sizes.mul(strides[dim], step)
    return tuple(new), sizes.add(offset, sizes.mul(strides[dim], start))


slice_ = declare(
    Primitive(
        "slice",
        "view",
        _slice_type,
        _slice_reference,
        "Every step-th index from start to stop along one dimension; the bounds are already clamped.",
        derivative=(
            lambda g, out, x, dim, start, stop, step: g.new_zeros(x.shape).slice_scatter(
                g, dim, start, stop, step
            ),
        ),
        layout=_slice_layout,
    )
)
