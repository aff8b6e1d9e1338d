"""Cuts the joint graph of a function and its gradient in two: what runs forward, and what runs backward."""

from __future__ import annotations

from collections.abc import Iterable

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node

CHEAP = 60
"""Scalar operations per element up to which a value is rather computed again than kept."""


def saved_values(forward: set[Node], wanted: Iterable[Node], overwritten: set[Node]) -> list[Node]:
    """The forward values to keep for computing `wanted` later; of the graph's inputs only the overwritten need keeping.

    Results of products, reductions, gathers and random numbers are kept; elementwise values are computed again where what
    they come from is kept anyway or is no larger than they are.
    """
    saved: dict[Node, None] = {}
    decided: dict[Node, bool] = {}
    visited: set[Node] = set()

    def again(node: Node) -> bool:
        """Whether a forward value is computed again in the backward part."""
        found = decided.get(node)
        if found is not None:
            return found
        family = node.op.family
        if family == "argument":
            found = not node.attributes.get("number", False) and node not in overwritten
        elif family == "view" or (family == "generator" and not node.inputs):
            found = True
        elif family == "elementwise" and node.op.cost <= CHEAP:
            sources = _sources(node)
            size = sizes.hint(sizes.mul(node.type.numel, node.dtype.itemsize))
            fresh = [s for s in sources if s not in saved and s.op.family != "argument"]
            found = sum(sizes.hint(sizes.mul(s.type.numel, s.dtype.itemsize)) for s in fresh) <= size
        else:
            found = False
        decided[node] = found
        return found

    stack = list(wanted)[::-1]
    while stack:
        node = stack.pop()
        if node in visited:
            continue
        visited.add(node)
        if node in forward and not again(node):
            saved[node] = None
            continue
        stack += node.inputs[::-1]
    return list(saved)


def _sources(node: Node) -> set[Node]:
    """What an elementwise value would be computed from again: the nearest values that are not elementwise."""
    out: set[Node] = set()
    stack = list(node.inputs)
    count = 0
    while stack and count < 64:
        value = stack.pop()
        count += 1
        family = value.op.family
        if family == "view" or (family == "elementwise" and value.op.cost <= CHEAP):
            stack += value.inputs
        elif family != "generator" or value.inputs:
            out.add(value)
    return out | set(stack)


def replay(wanted: list[Node], given: dict[Node, Node]) -> tuple[list[Node], dict[Node, Node]]:
    """Nodes that compute `wanted` from the values in `given`, in order, and what every node became."""
    new = dict(given)
    order: list[Node] = []
    stack: list[tuple[Node, bool]] = [(n, False) for n in reversed(wanted)]
    while stack:
        node, ready = stack.pop()
        if node in new:
            continue
        if not ready:
            stack.append((node, True))
            stack += [(i, False) for i in reversed(node.inputs)]
            continue
        if node.op.family == "argument":
            raise AssertionError(f"{node} is needed by the backward part and was not given")
        made = Node(node.op, tuple(new[i] for i in node.inputs), node.attributes, node.type, node.source)
        new[node] = made
        order.append(made)
    return order, new
