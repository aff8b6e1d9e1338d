"""Elements picked from what operations compute: computed for these alone, so that the rest need no memory.

A loss that picks one of a row's log probabilities reads one score, the row's maximum and the row's sum.
"""

from __future__ import annotations

from dataclasses import field

from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.ops import indexing, views
from eagerjit.runtime.records import record

MOST_NODES, MOST_LEAVES = 12, 2
"""Operations that are computed for picked elements, and values in memory that they pick from, at most."""
IN_MEMORY = ("argument", "linear", "index", "host", "routine")
"""Families whose results lie in memory anyway."""


@record
class Picked:
    """The operations on picked elements, as far as they are made."""

    gather: Node
    nodes: list[Node] = field(default_factory=list)
    known: dict[Node, Node] = field(default_factory=dict)
    leaves: int = 0
    begun: int = 0
    """Operations that are made or on the way to it, whose number bounds the depth, too."""

    def value(self, node: Node) -> Node | None:
        """A value's picked elements; None where they would not be fewer operations or less memory."""
        if node in self.known:
            return self.known[node]
        table = self.gather.inputs[0]
        dim, shape = self.gather.attributes["dim"], node.type.shape
        if shape == () or (len(shape) == len(table.shape) and shape[dim] == 1 and _alike(node, self.gather, dim)):
            return node
        if shape != table.type.shape or self.begun >= MOST_NODES:
            return None
        if "integer_zero_divisor" in node.op.traits:  # the error may be about another element
            return None
        self.begun += 1
        made = self._computed(node) if node.op.family == "elementwise" else self._read(node)
        if made is not None:
            self.known[node] = made
            self.nodes.append(made)
        return made

    def _computed(self, node: Node) -> Node | None:
        inputs: list[Node] = []
        for value in node.inputs:
            picked = self.value(value)
            if picked is None:
                return None
            inputs.append(picked)
        type_ = node.op.type_rule(*(i.type for i in inputs), **node.attributes)
        return Node(node.op, tuple(inputs), node.attributes, type_, self.gather.source)

    def _read(self, node: Node) -> Node | None:
        self.leaves += 1
        if layout(node).root.op.family not in IN_MEMORY or self.leaves > MOST_LEAVES:
            return None
        op, inputs, attributes = self.gather.op, (node, *self.gather.inputs[1:]), self.gather.attributes
        return Node(op, inputs, attributes, op.type_rule(*(i.type for i in inputs), **attributes), self.gather.source)


def _alike(node: Node, other: Node, dim: int) -> bool:
    pairs = enumerate(zip(node.type.shape, other.type.shape, strict=True))
    return all(a == b for d, (a, b) in pairs if d != dim)


def picks(node: Node) -> bool:
    """Whether a node picks elements: by an index, or one of each line."""
    if node.op is indexing.gather:
        return True
    return node.op is views.slice_ and node.type.shape[node.attributes["dim"]] == 1


def picked(gather: Node) -> list[Node]:
    """What replaces a node that picks: its last node gives the same bits."""
    table, dim = gather.inputs[0], gather.attributes["dim"]
    if table.op.family != "elementwise" or not _alike(table, gather, dim):
        return [gather]
    found = Picked(gather)
    last = found.value(table)
    return [gather] if last is None or not found.nodes or found.nodes[-1] is not last else found.nodes
