"""Local rewrites that keep every bit: operations that do nothing, and pairs of operations that one can do."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.compiler.ir import Graph, Node, rebuild
from eagerjit.compiler.ops.declare import Primitive
from eagerjit.compiler.passes.exposure import Exposure
from eagerjit.compiler.shapes import contiguous_strides


def simplify(graph: Graph) -> Graph:
    """Drop operations that change nothing, and join views and conversions of the same kind."""
    exposure = Exposure(graph)
    replaced: dict[Node, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        current = with_inputs(node, replaced)
        if current is not node:
            exposure.carry(node, current)
        while (joined := _joined(current)) is not None and exposure.may_replace(current, joined):
            current = joined
        value = _unchanged(current)
        if value is not None and exposure.may_replace(current, value):
            replaced[node] = value
            continue
        if current is not node:
            replaced[node] = current
        nodes.append(current)
    return rebuild(graph, nodes, replaced)


def with_inputs(node: Node, replaced: dict[Node, Node]) -> Node:
    """The node with replaced inputs; itself if there are none."""
    inputs = tuple([replaced.get(n, n) for n in node.inputs])
    return node if inputs == node.inputs else Node(node.op, inputs, node.attributes, node.type, node.source)


def literal(node: Node) -> Any:
    """The number that every element of the node is known to be, or None."""
    base = node.base
    return base.attributes["value"] if "literal" in base.op.traits else None


def _joined(node: Node) -> Node | None:
    """One operation that does what this one and the same one before it do."""
    if node.op.compose is None or node.inputs[0].op is not node.op:
        return None
    inner = node.inputs[0]
    attributes = node.op.compose(inner.inputs[0].type, inner.attributes, node.attributes)
    return None if attributes is None else Node(node.op, inner.inputs, attributes, node.type, node.source)


def _unchanged(node: Node) -> Node | None:
    """The value that this operation merely repeats, bit for bit."""
    value = _repeated(node)
    return value if value is not None and value.type == node.type else None


def _repeated(node: Node) -> Node | None:
    op, inputs = node.op, node.inputs
    if op.family == "view":
        return inputs[0] if _keeps_places(op, node) else _written(node)
    if op.overwrites is not None:
        return inputs[1] if _keeps_places(op.overwrites, node) else None
    if "keeps_value" in op.traits:
        return inputs[0]
    if "involution" in op.traits:
        return inputs[0].inputs[0] if inputs[0].op is op else None
    if "selects" in op.traits:
        return _selected(*inputs)
    if op.neutral is None:
        return None
    neutral = op.neutral[0 if node.dtype.is_floating_point else 1]
    if is_number(inputs[1], neutral):
        return inputs[0]
    return inputs[1] if "commutes" in op.traits and is_number(inputs[0], neutral) else None


def _keeps_places(view: Primitive, node: Node) -> bool:
    """Whether this view of row-major memory, with the node's input and attributes, is that memory in the same order."""
    shape, place = node.inputs[0].shape, view.layout
    if place is None or node.inputs[-1].type != node.inputs[0].type:
        return False
    strides = contiguous_strides(shape)
    return place(shape, strides, 0, **node.attributes) == (strides, 0)


def _written(view: Node) -> Node | None:
    """What was written over the very part of a value that this view shows."""
    base = view.inputs[0]
    return base.inputs[1] if base.op.overwrites is view.op and base.attributes == view.attributes else None


def _selected(condition: Node, x: Node, y: Node) -> Node | None:
    if x is y:
        return x
    known = literal(condition)
    return None if known is None else x if known else y


def is_number(node: Node, number: Any) -> bool:
    """Whether all elements are this number; 0.0 and -0.0 are two numbers."""
    value = literal(node)
    if value is None or number is None:
        return False
    return bool(value == number) and math.copysign(1, value) == math.copysign(1, number)
