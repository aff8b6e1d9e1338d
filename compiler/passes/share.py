"""Common subexpressions."""

from __future__ import annotations

from typing import Any

from eagerjit.compiler.ir import Graph, Node, rebuild
from eagerjit.compiler.passes.exposure import Exposure
from eagerjit.compiler.passes.simplify import with_inputs
from eagerjit.compiler.text import print_attributes


def share_equal(graph: Graph) -> Graph:
    """Compute once what is computed twice from the same values."""
    exposure = Exposure(graph)
    replaced: dict[Node, Node] = {}
    known: dict[Any, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        current = with_inputs(node, replaced)
        if current is not node:
            exposure.carry(node, current)
            replaced[node] = current
        first = known.setdefault(_value_key(current), current)
        if first is not current and exposure.may_replace(current, first):
            replaced[node] = first
        else:
            nodes.append(current)
    return rebuild(graph, nodes, replaced)


def _value_key(node: Node) -> Any:
    """Equal for nodes with equal results."""
    inputs = frozenset(node.inputs) if "commutes" in node.op.traits else node.inputs
    return node.op, inputs, tuple(print_attributes(node.attributes)), node.type
