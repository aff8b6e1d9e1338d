"""Values that are computed from positions alone, and that many elements of a larger value read: computed once.

What needs no memory is computed where it is read. The places and weights of an interpolation are a dozen operations on
the position along one dimension, which all rows and images would repeat for every element.
"""

from __future__ import annotations

from collections.abc import Iterable

from eagerjit.compiler.affine import without_ones
from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.groups import is_inline

REPEATED = 4
"""Operations that are computed again rather than read from memory, at most."""


def tables(nodes: Iterable[Node]) -> set[Node]:
    """The values that are worth a table."""
    found: set[Node] = set()
    known: dict[Node, bool] = {}
    for node in nodes:
        is_inline(node, known)  # in order: chains may be long
        if node.op.family != "elementwise" and "gathers" not in node.op.traits:
            continue
        rank = len(without_ones(node.type.shape))
        for value in (i.base for i in node.inputs):
            if value in found or value.op.family != "elementwise" or not is_inline(value, known):
                continue
            if 0 < len(without_ones(value.type.shape)) < rank and _is_long(value):
                found.add(value)
    return found


def _is_long(node: Node) -> bool:
    """Whether more operations lead to a value than are repeated; numbers are computed once in any case."""
    stack, seen = [node], {node}
    while stack:
        value = stack.pop()
        for operand in value.inputs:
            if operand not in seen and without_ones(operand.type.shape):
                seen.add(operand)
                stack.append(operand)
    return sum(value.op.family == "elementwise" for value in seen) > REPEATED
