"""Dead code."""

from __future__ import annotations

from eagerjit.compiler.ir import Graph, Node, rebuild


def remove_dead(graph: Graph) -> Graph:
    """Keep what a result needs and what may raise an error."""
    live = set(graph.results())
    for node in reversed(graph.nodes):
        if node in live or may_raise(node):
            live.add(node)
            live.update(node.inputs)
    return rebuild(graph, [n for n in graph.nodes if n in live], {})


def may_raise(node: Node) -> bool:
    """Whether computing a node can end in an error, which must happen although nobody needs the value."""
    if "integer_zero_divisor" in node.op.traits:
        return not node.dtype.is_floating_point
    return not node.op.traits.isdisjoint(("checks_index", "requires"))
