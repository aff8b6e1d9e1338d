"""Convolutions over up to three spatial dimensions and their two gradients, done by tiles of matrix products.

The three are each other's derivatives: each is linear in both of its inputs, so they make gradients of any order.
x is (image, channel, point...), w is (row, channel of the group, tap...), y is (image, row, point...).
`short` says that the float32 numbers of both inputs are those of bfloat16, which some processors multiply faster.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import TensorType
from eagerjit.compiler.ops.declare import Primitive, declare, same_dtype
from eagerjit.compiler.shapes import Shape
from eagerjit.runtime import dtypes

Numbers = tuple[int, ...]


def output_size(size: sizes.Expr, kernel: sizes.Expr, stride: int, padding: int, dilation: int) -> sizes.Expr:
    """How many places a kernel has along a dimension."""
    reach = sizes.mul(sizes.add(kernel, -1), dilation)
    free = sizes.add(sizes.add(size, 2 * padding - 1), sizes.mul(reach, -1))
    return sizes.add(sizes.floordiv(free, stride), 1)


def _same_kind(name: str, a: TensorType, b: TensorType) -> None:
    if same_dtype(name, (a, b)) not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name}: inputs of dtype {a.dtype.short}")
    if len(a.shape) != len(b.shape) or not 3 <= len(a.shape) <= 5:
        raise ValueError(f"{name}: inputs of {len(a.shape)} and {len(b.shape)} dimensions")


def _output_type(
    x: TensorType, w: TensorType, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int,
    short: bool = False,
) -> TensorType:
    _same_kind("convolution", x, w)
    if not sizes.equal(x.shape[1], sizes.mul(w.shape[1], groups)):
        raise ValueError(f"convolution: {x.shape[1]} channels under a weight of {w.shape[1]} in {groups} groups")
    spatial = tuple(map(output_size, x.shape[2:], w.shape[2:], stride, padding, dilation))
    return TensorType(x.dtype, (x.shape[0], w.shape[0], *spatial))


def _input_type(
    y: TensorType, w: TensorType, size: Shape, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int,
    short: bool = False,
) -> TensorType:
    _same_kind("convolution_input", y, w)
    if not sizes.equal(y.shape[1], w.shape[0]):
        raise ValueError(f"convolution_input: {y.shape[1]} channels under a weight with {w.shape[0]} rows")
    return TensorType(y.dtype, (y.shape[0], sizes.mul(w.shape[1], groups), *size))


def _weight_type(
    y: TensorType, x: TensorType, size: Shape, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int,
    short: bool = False,
) -> TensorType:
    _same_kind("convolution_weight", y, x)
    return TensorType(y.dtype, (y.shape[1], sizes.floordiv(x.shape[1], groups), *size))


def _taps(size: Numbers, kernel: Numbers, out: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers):  # type: ignore[no-untyped-def]
    """Per tap its index, where outputs read that lie inside, and which outputs these are."""
    for tap in product(*map(range, kernel)):
        places, seen = [], []
        for d, t in enumerate(tap):
            origin = t * dilation[d] - padding[d]
            inside = [o for o in range(out[d]) if 0 <= origin + o * stride[d] < size[d]]
            first, last = (inside[0], inside[-1] + 1) if inside else (0, 0)
            seen.append(slice(first, last))
            start = origin + first * stride[d]
            places.append(slice(start, start + (last - first - 1) * stride[d] + 1 if inside else start, stride[d]))
        yield tap, (..., *places), (..., *seen)


def _grouped(array: np.ndarray, axis: int, groups: int) -> np.ndarray:
    """An axis as (group, rest), in double precision."""
    shape = array.shape
    wide = array.astype(np.float64)
    return wide.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def _output_reference(
    x: np.ndarray, w: np.ndarray, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int,
    short: bool = False,
) -> np.ndarray:
    size, kernel = x.shape[2:], w.shape[2:]
    out = tuple(int(output_size(*numbers)) for numbers in zip(size, kernel, stride, padding, dilation, strict=True))  # type: ignore[arg-type]
    xs, ws = _grouped(x, 1, groups), _grouped(w, 0, groups)
    ys = np.zeros((x.shape[0], groups, w.shape[0] // groups, *out))
    for tap, places, seen in _taps(size, kernel, out, stride, padding, dilation):
        ys[seen] += np.einsum("ngc...,grc->ngr...", xs[places], ws[(..., *tap)])
    return ys.reshape(x.shape[0], w.shape[0], *out).astype(x.dtype)


def _input_reference(
    y: np.ndarray, w: np.ndarray, size: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int,
    short: bool = False,
) -> np.ndarray:
    ys, ws = _grouped(y, 1, groups), _grouped(w, 0, groups)
    xs = np.zeros((y.shape[0], groups, w.shape[1], *size))
    for tap, places, seen in _taps(size, w.shape[2:], y.shape[2:], stride, padding, dilation):
        xs[places] += np.einsum("ngr...,grc->ngc...", ys[seen], ws[(..., *tap)])
    return xs.reshape(y.shape[0], groups * w.shape[1], *size).astype(y.dtype)


def _weight_reference(
    y: np.ndarray, x: np.ndarray, size: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, groups: int,
    short: bool = False,
) -> np.ndarray:
    ys, xs = _grouped(y, 1, groups), _grouped(x, 1, groups)
    ws = np.zeros((groups, y.shape[1] // groups, x.shape[1] // groups, *size))
    for tap, places, seen in _taps(x.shape[2:], size, y.shape[2:], stride, padding, dilation):
        y_seen, x_seen = (a.reshape(*a.shape[:3], math.prod(a.shape[3:])) for a in (ys[seen], xs[places]))
        ws[(..., *tap)] = np.einsum("ngrp,ngcp->grc", y_seen, x_seen)
    return ws.reshape(y.shape[1], x.shape[1] // groups, *size).astype(y.dtype)


convolution = declare(
    Primitive(
        "convolution",
        "linear",
        _output_type,
        _output_reference,
        "Sums over channels and taps of input times weight; the input is surrounded by `padding` zeros.",
        scalar="convolution",
        cost=100,
    )
)
convolution_input = declare(
    Primitive(
        "convolution_input",
        "linear",
        _input_type,
        _input_reference,
        "The gradient of a convolution for its input, whose spatial sizes are `size`: a transposed convolution.",
        scalar="convolution",
        cost=100,
    )
)
convolution_weight = declare(
    Primitive(
        "convolution_weight",
        "linear",
        _weight_type,
        _weight_reference,
        "The gradient of a convolution for its weight, whose kernel has the sizes `size`.",
        scalar="convolution",
        cost=100,
    )
)
