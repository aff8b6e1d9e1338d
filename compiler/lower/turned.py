"""Factors that are copied so that the elements of a sum are neighbours, for tensor cores of GPUs.

Hopper's take 32-bit factors, rounded to TF32, only so; others a kernel would turn again in every tile. On an H100 a
product of 4096 x 4096 x 4096 took 0.98 ms with the right factor as it lies and 0.55 ms with a copy of it, and 2.25 ms
with both factors turned instead of 0.60 ms; a copy takes 0.055 ms. What convolutions gather a thread reads in pieces of
16 bytes so. The copies change no bit of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.libraries import INPUT_OF, OUTPUT_OF, RESULT
from eagerjit.compiler.ops import elementwise, views
from eagerjit.runtime.gpu.precision import precision

LEAST = (256, 512)
"""Columns of the result from which on the left factor, and rows from which on the right one, is worth a copy."""
WORK = 1 << 30
"""Multiplications that take longer than the launch of a copy."""
REUSED = 576
"""Multiplications of an element of a convolution from which on copies are worth it.

On an H100, 256 images of 64 x 56 x 56 under 64 x 64 x 3 x 3 took 0.59 ms with copies and 0.83 ms without, the input's
gradient 0.59 and 1.45; 1024 x 14 x 14 under 256 single taps 0.27 and 0.18.
"""
CHANNELS = 16
"""What has fewer of them is summed in another order."""


def with_turned_factors(product: Node, hints: Mapping[str, int]) -> Iterator[Node]:
    """A product with the copies that it is faster with, for sizes as in the call that was recorded."""
    left, right = product.inputs
    if not precision.tf32 or left.dtype.short != "f32":
        yield product
        return

    rows, columns = (recorded(size, hints) for size in product.shape[-2:])
    if rows * columns * recorded(left.shape[-1], hints) < WORK:
        yield product
        return
    factors = [left, right]
    for place, (factor, summed, others) in enumerate(((left, -1, columns), (right, -2, rows))):
        steps = layout(factor).strides
        if others < LEAST[place] or steps[summed] == 1 or 0 in steps[:-2]:
            continue
        made = list(_neighbours(factor, summed, product.source))
        yield from made
        factors[place] = made[-1]
    yield Node(product.op, tuple(factors), product.attributes, product.type, product.source)


def _neighbours(factor: Node, summed: int, source: str) -> Iterator[Node]:
    """A copy whose elements along a dimension, of the last two, are neighbours."""
    turn = summed == -2
    if turn:
        factor = _swapped(factor, source)
        yield factor
    copy = Node(elementwise.cast, (factor,), {"dtype": factor.dtype}, factor.type, source)
    yield copy
    if turn:
        yield _swapped(copy, source)


def _swapped(value: Node, source: str) -> Node:
    rank = len(value.shape)
    return _permuted(value, (*range(rank - 2), rank - 1, rank - 2), source)


def with_last_channels(node: Node, hints: Mapping[str, int]) -> Iterator[Node]:
    """A convolution, or its input's gradient, of tensors whose channels, or rows, come last in memory.

    Nothing where that is not worth it, and for the weight's gradient, whose sum runs along neighbours anyway.
    """
    result = RESULT.get(node.op)
    if result not in (OUTPUT_OF, INPUT_OF) or node.attributes["groups"] != 1:
        return
    gathered, weight = node.inputs
    if gathered.dtype.short not in ("f16", "bf16") and not (precision.tf32 and gathered.dtype.short == "f32"):
        return
    taps = recorded(sizes.product(weight.shape[2:]), hints)
    apart = math.prod(node.attributes["stride"]) if result == OUTPUT_OF else 1
    reused = recorded(node.shape[1], hints) * taps // apart
    channels, elements = (recorded(size, hints) for size in (gathered.shape[1], gathered.type.numel))
    if channels < CHANNELS or reused < REUSED or elements * reused < WORK:
        return
    moved = []
    for tensor, axis in ((gathered, 1), (weight, 1 if result == OUTPUT_OF else 0)):
        rank = len(tensor.shape)
        dims = (*(d for d in range(rank) if d != axis), axis)
        there = _permuted(tensor, dims, node.source)
        copy = Node(elementwise.cast, (there,), {"dtype": tensor.dtype}, there.type, node.source)
        back = _permuted(copy, tuple(sorted(range(rank), key=dims.__getitem__)), node.source)
        yield from (there, copy, back)
        moved.append(back)
    yield Node(node.op, tuple(moved), {**node.attributes, "last": True}, node.type, node.source)


def recorded(size: sizes.Expr, hints: Mapping[str, int]) -> int:
    """A size in the call that was recorded; one that is measured in its course counts as 0."""
    return sizes.evaluate(size, {name: hints.get(name, 0) for name in sizes.symbols(size)})


def _permuted(value: Node, dims: tuple[int, ...], source: str) -> Node:
    return Node(views.permute, (value,), {"dims": dims}, views.permute.type_rule(value.type, dims=dims), source)
