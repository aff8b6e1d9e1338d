"""Compiled calls taken apart, where only the plain call's tape adds gradients in the plain call's order.

A jitted call is one node of the tape, and its gradient, when that is differentiated in turn, another one. A walk that
meets both would add up what reaches the values inside the call in two places. It replaces both by the nodes that the
plain call would have recorded, at the same places in the order of execution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

from eagerjit.autograd.node import GradNode
from eagerjit.runtime import mode
from eagerjit.tensor import Tensor

Expand = Callable[[], Sequence[Tensor]]

EXPANDED: WeakKeyDictionary[GradNode, Sequence[Tensor]] = WeakKeyDictionary()
"""What the results of a node that was taken apart are now."""

GRADIENTS: WeakKeyDictionary[GradNode, tuple[GradNode, Expand, Expand]] = WeakKeyDictionary()
"""For the node of a call's gradient: the call's node, and what makes the call's and the gradient's results again."""


def current(tensor: Tensor) -> Tensor:
    """A tensor, or what stands for it since its node was taken apart."""
    node = tensor._node
    found = None if node is None else EXPANDED.get(node)
    return tensor if found is None else current(found[tensor._index])


def expand_mixed(nodes: dict[GradNode, list]) -> bool:
    """Take apart the calls among these nodes whose gradients are among them too; whether there were any."""
    mixed = [n for n in nodes if n in GRADIENTS and GRADIENTS[n][0] in nodes]
    for gradient in sorted(mixed, key=lambda n: n.sequence):
        call, again, gradient_again = GRADIENTS[gradient]
        for node, make in ((call, again), (gradient, gradient_again)):
            if node not in EXPANDED:
                first = mode.next_sequence()
                EXPANDED[node] = results = make()
                _renumber(results, first, node.sequence)
    return bool(mixed)


def _renumber(results: Sequence[Tensor], first: int, last: float) -> None:
    """Give the nodes made after `first` places just before `last`, in their order."""
    found: dict[GradNode, None] = {}
    stack = [t._node for t in results]
    while stack:
        node = stack.pop()
        if node is None or node in found or node.sequence <= first:
            continue
        found[node] = None
        stack += [x._node for x in node.inputs or () if isinstance(x, Tensor)]
    for position, node in enumerate(sorted(found, key=lambda n: n.sequence), 1):
        node.sequence = last - 1 + position / (len(found) + 1)
