"""Views: the same memory seen through other sizes and strides. Strides are in elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.affine import ZERO, Affine, Map, split_linear
from eagerjit.compiler.ir import TensorType
from eagerjit.compiler.ops.declare import Primitive, declare
from eagerjit.compiler.shapes import Shape, contiguous_strides, expanded_strides, reshape_strides

Extents = dict[int, sizes.Expr]
Attributes = dict[str, Any]


def _outer(x: TensorType, inner: Attributes, outer: Attributes) -> Attributes:
    """The second view alone does what both do."""
    return outer


def _reshape_type(x: TensorType, shape: Shape) -> TensorType:
    if not sizes.equal(x.numel, sizes.product(shape)):
        raise ValueError(f"shape '{list(shape)}' is invalid for input of size {sizes.hint(x.numel)}")
    return TensorType(x.dtype, shape)


def _reshape_layout(size: Shape, strides: Shape, offset: sizes.Expr, shape: Shape) -> Any:
    new = reshape_strides(size, strides, shape)
    return None if new is None else (new, offset)


def _reshape_index(map_: Map, shape: Shape, base: Shape, extents: Extents, /, **attributes: Any) -> Map | None:
    kept = [m for m, d in zip(map_, shape, strict=True) if d != 1]
    if [d for d in shape if d != 1] == [d for d in base if d != 1]:
        rest = iter(kept)
        return tuple(ZERO if d == 1 else next(rest) for d in base)
    joined = _joined(map_, shape, base)
    if joined is not None:
        return joined
    linear = ZERO
    for index, stride in zip(map_, contiguous_strides(shape), strict=True):
        linear = linear.plus(index.scaled(stride))
    return None if linear.offset != 0 else split_linear(linear, base, extents)


def _joined(map_: Map, shape: Shape, base: Shape) -> Map | None:
    """Indices into a shape of which each dimension was split into some of another: affine whatever part is read."""
    out: list[Affine] = []
    left = list(zip(map_, shape, strict=True))
    for size in reversed(base):
        index = ZERO
        reach: sizes.Expr = 1
        while reach != size:
            if not left:
                return None
            inner, count = left.pop()
            index, reach = index.plus(inner.scaled(reach)), sizes.mul(reach, count)
        out.append(index)
    return None if any(count != 1 for _, count in left) else tuple(reversed(out))


reshape = declare(
    Primitive(
        "reshape",
        "view",
        _reshape_type,
        lambda x, shape: x.reshape(shape),
        "The same elements in the same order under another shape.",
        derivative=(lambda g, out, x, shape: g.contiguous().reshape(x.shape),),
        layout=_reshape_layout,
        compose=_outer,
        index_map=_reshape_index,
    )
)


def _permute_type(x: TensorType, dims: tuple[int, ...]) -> TensorType:
    if sorted(dims) != list(range(len(x.shape))):
        raise ValueError(f"permute: dims {dims} do not permute {len(x.shape)} dimensions")
    return TensorType(x.dtype, tuple(x.shape[d] for d in dims))


def _permute_index(map_: Map, shape: Shape, base: Shape, extents: Extents, /, dims: tuple[int, ...]) -> Map:
    out = [ZERO] * len(base)
    for position, d in enumerate(dims):
        out[d] = map_[position]
    return tuple(out)


permute = declare(
    Primitive(
        "permute",
        "view",
        _permute_type,
        lambda x, dims: np.transpose(x, dims),
        "Dimensions in another order.",
        derivative=(lambda g, out, x, dims: g.permute(tuple(sorted(range(len(dims)), key=dims.__getitem__))),),
        layout=lambda size, strides, offset, dims: (tuple(strides[d] for d in dims), offset),
        compose=lambda x, inner, outer: {"dims": tuple(inner["dims"][d] for d in outer["dims"])},
        index_map=_permute_index,
    )
)


def _expand_type(x: TensorType, shape: Shape) -> TensorType:
    if len(shape) < len(x.shape):
        raise ValueError(f"expand: the number of sizes ({len(shape)}) is less than the tensor's ({len(x.shape)})")
    for back, (old, new) in enumerate(zip(reversed(x.shape), reversed(shape), strict=False), 1):
        if old != 1 and not sizes.equal(old, new):
            target, own = list(map(sizes.hint, shape)), list(map(sizes.hint, x.shape))
            raise ValueError(
                f"The expanded size of the tensor ({target[-back]}) must match the existing size ({own[-back]}) at "
                f"non-singleton dimension {len(shape) - back}.  Target sizes: {target}.  Tensor sizes: {own}"
            )
    return TensorType(x.dtype, shape)


def _expand_layout(size: Shape, strides: Shape, offset: sizes.Expr, shape: Shape) -> Any:
    return expanded_strides(size, strides, shape), offset


def _expand_index(map_: Map, shape: Shape, base: Shape, extents: Extents, /, **attributes: Any) -> Map:
    added = len(shape) - len(base)
    return tuple(ZERO if d == 1 else map_[added + i] for i, d in enumerate(base))


expand = declare(
    Primitive(
        "expand",
        "view",
        _expand_type,
        lambda x, shape: np.broadcast_to(x, shape),
        "Dimensions of size 1 repeated without a copy.",
        derivative=(lambda g, out, x, shape: g.sum_to_size(x.shape),),
        layout=_expand_layout,
        compose=_outer,
        index_map=_expand_index,
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


def _slice_index(
    map_: Map, shape: Shape, base: Shape, extents: Extents, /, dim: int, start: sizes.Expr, stop: sizes.Expr, step: int
) -> Map:
    return (*map_[:dim], map_[dim].scaled(step).plus(Affine((), start)), *map_[dim + 1 :])


def _slice_compose(x: TensorType, inner: Attributes, outer: Attributes) -> Attributes | None:
    if inner["dim"] != outer["dim"] or inner["step"] != 1:
        return None
    start, stop = (sizes.add(inner["start"], outer[bound]) for bound in ("start", "stop"))
    return outer | {"start": start, "stop": stop}


slice_ = declare(
    Primitive(
        "slice",
        "view",
        _slice_type,
        _slice_reference,
        "Every step-th index from start to stop along one dimension; the bounds are already clamped.",
        derivative=(
            lambda g, out, x, dim, start, stop, step: g.new_zeros(x.shape).replace_slice(
                g, dim, start, stop, step
            ),
        ),
        layout=_slice_layout,
        compose=_slice_compose,
        index_map=_slice_index,
    )
)


def _flip_type(x: TensorType, dims: tuple[int, ...]) -> TensorType:
    if len(set(dims)) != len(dims) or not all(0 <= d < len(x.shape) for d in dims):
        raise ValueError(f"flip: dims {dims} of {len(x.shape)} dimensions")
    return x


def _flip_layout(size: Shape, strides: Shape, offset: sizes.Expr, dims: tuple[int, ...]) -> Any:
    new = list(strides)
    for d in dims:
        offset = sizes.add(offset, sizes.mul(sizes.add(size[d], -1), strides[d]))
        new[d] = sizes.mul(strides[d], -1)
    return tuple(new), offset


def _flip_index(map_: Map, shape: Shape, base: Shape, extents: Extents, /, dims: tuple[int, ...]) -> Map:
    return tuple(
        Affine((), sizes.add(base[d], -1)).plus(m.scaled(-1)) if d in dims and base[d] != 1 else m
        for d, m in enumerate(map_)
    )


flip = declare(
    Primitive(
        "flip",
        "view",
        _flip_type,
        lambda x, dims: np.flip(x, dims),
        "Dimensions from their end to their start. Strides are negative: kernels read it, and no tensor shows it.",
        derivative=(lambda g, out, x, dims: g.flip(dims),),
        layout=_flip_layout,
        compose=lambda x, inner, outer: {"dims": tuple(sorted(set(inner["dims"]) ^ set(outer["dims"])))},
        index_map=_flip_index,
    )
)
