"""Lines along a dimension, of which programs of a GPU share long ones: one kernel finds what each piece comes to, the
next one goes through every piece from what those before it come to."""

from __future__ import annotations

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.loops import PIECE


def lines_of(node: Node) -> tuple[sizes.Expr, sizes.Expr, sizes.Expr]:
    """How long the lines along a node's dimension are, how far apart their elements, and how many they are."""
    shape, dim = node.inputs[0].type.shape, node.attributes["dim"]
    inner = sizes.product(shape[dim + 1 :])
    return shape[dim], inner, sizes.mul(sizes.product(shape[:dim]), inner)


def totals_of(extent: sizes.Expr, lines: sizes.Expr) -> sizes.Expr:
    """How many pieces another one follows, at most: 0 if no line is long."""
    return sizes.mul(lines, sizes.floordiv(extent, PIECE))
