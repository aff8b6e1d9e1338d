"""Which operations inside a compiled call a walk goes through, and which of them can be walked again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from eagerjit.autograd.node import GradNode
from eagerjit.autograd.release import lasts, sources
from eagerjit.autograd.saved import between
from eagerjit.autograd.walk_graph import key_of
from eagerjit.tensors.tensor import Tensor

Numbers = frozenset[int]
Leaves = frozenset[Hashable]


@dataclass
class Visit:
    """A walk through a call, whose operations have numbers in the order of execution.

    results     those that made the call's results
    reached     those that the results that have a gradient depend on
    visited     those of them that lead to the leaves wanted
    lasting     those of these that save no values, with the leaves that their gradients flow to
    """

    results: Numbers
    reached: Numbers
    visited: Numbers
    lasting: dict[int, Leaves]
    used_up: dict[Leaves, Numbers] = field(default_factory=dict)

    def freed(self, gone: Leaves) -> Numbers:
        """The operations that cannot be walked again if those that made these leaves cannot."""
        found = self.used_up.get(gone)
        if found is None:
            lasting = [number for number, leaves in self.lasting.items() if gone.isdisjoint(leaves)]
            found = self.used_up[gone] = self.visited.difference(lasting)
        return found


def visit_of(
    operations: Sequence[GradNode],
    results: Sequence[Tensor],
    roots: Sequence[Tensor],
    reached: Sequence[GradNode],
    leaves: dict[Hashable, Tensor],
    wanted: Sequence[Hashable],
) -> Visit:
    """The walk from roots, which depend on `reached`, to the leaves wanted in a call that was recorded."""
    numbers = {node: i for i, node in enumerate(operations)}
    nodes = between(roots, leaves.values(), [leaves[key] for key in wanted if key in leaves])
    keys = {key_of(leaf): key for key, leaf in leaves.items()}
    gone: set[GradNode] = set()
    lasting: dict[GradNode, Leaves] = {}
    for node in reversed(nodes):
        if not lasts(node, gone):
            gone.add(node)
            continue
        given = list(sources(node.inputs or (), node))
        inner = [lasting[t._node] for t in given if t._node in lasting]
        lasting[node] = frozenset(keys[key_of(t)] for t in given if key_of(t) in keys).union(*inner)
    made = frozenset(numbers[t._node] for t in results if t._node in numbers)
    return Visit(
        made,
        frozenset(numbers[node] for node in reached),
        frozenset(numbers[node] for node in nodes),
        {numbers[node]: leaves_ for node, leaves_ in lasting.items()},
    )
