"""What a pass may put elsewhere in memory: equal values are equal wherever they lie, but some see where they lie."""

from __future__ import annotations

from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.layout import layout

ORDERED_BY_STRIDES = frozenset({"reduction", "linear"})
"""Families that may add up in another order when strides differ."""


class Exposure:
    """Nodes whose memory or strides are visible.

    escaping    the caller gets this memory: outputs, written values, and whatever these view. Two results that were
                apart must stay apart, and a result that was new memory must not become a view of an argument
    strided     an operation whose rounding may depend on strides reads this, perhaps through views
    """

    def __init__(self, graph: Graph):
        self.escaping = set(graph.results())
        self.strided: set[Node] = set()
        for node in reversed(graph.nodes):
            if node.op.family in ORDERED_BY_STRIDES:
                self.strided.update(node.inputs)
            elif node.op.family == "view":
                self.carry(node, node.inputs[0])

    def carry(self, node: Node, other: Node) -> None:
        """Make `other` as visible as `node`."""
        if node in self.escaping:
            self.escaping.add(other)
        if node in self.strided:
            self.strided.add(other)

    def may_replace(self, node: Node, value: Node) -> bool:
        """Whether nobody can tell `node` from `value`, which has equal elements; it is then as visible as `node`."""
        escapes = node in self.escaping
        if not escapes and node not in self.strided:
            return True
        old, new = layout(node), layout(value)
        if old.strides != new.strides or (escapes and old.offset != new.offset):
            return False
        if escapes and old.root is not new.root:
            if old.root is not node or new.root.op.family == "argument" or new.root in self.escaping:
                return False
        self.carry(node, value)
        while value.op.family == "view":
            self.carry(value, value.inputs[0])
            value = value.inputs[0]
        return True
