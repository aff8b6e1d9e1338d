"""Factors that are copied so that the elements of a sum are neighbours, for GPUs: products rounded to TF32.

Tensor cores of Hopper take 32-bit factors only so; others a kernel would turn again in every tile. On an H100 a product
of 4096 x 4096 x 4096 took 0.98 ms with the right factor as it lies and 0.55 ms with a copy of it, and 2.25 ms with both
factors turned instead of 0.60 ms; a copy takes 0.055 ms. The copies change no bit of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.ops import elementwise, views
from eagerjit.runtime.gpu.precision import precision

LEAST = (256, 512)
"""Columns of the result from which on the left factor, and rows from which on the right one, is worth a copy."""
WORK = 1 << 30
"""Multiplications that take longer than the launch of a copy."""


def with_turned_factors(product: Node, hints: Mapping[str, int]) -> Iterator[Node]:
    """A product with the copies that it is faster with, for sizes as in the call that was recorded."""
    left, right = product.inputs
    if not precision.tf32 or left.dtype.short != "f32":
        yield product
        return

    def known(size: sizes.Expr) -> int:
        return sizes.evaluate(size, {name: hints.get(name, 0) for name in sizes.symbols(size)})

    rows, columns = (known(size) for size in product.shape[-2:])
    if rows * columns * known(left.shape[-1]) < WORK:
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
    dims = (*range(rank - 2), rank - 1, rank - 2)
    return Node(views.permute, (value,), {"dims": dims}, views.permute.type_rule(value.type, dims=dims), source)
