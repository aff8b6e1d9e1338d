"""Reductions that are the same in any order: they go through memory as it lies.

Sums of floats add in the order of the indices, wherever the elements lie, so that a tensor and its copy in row-major
order have one sum. Whether all or any hold, and extremes, sums and products of integers have no order: dimensions are
permuted to that of the memory, before elementwise work that nobody else reads.
"""

from __future__ import annotations

from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.kinds import finds_places
from eagerjit.compiler.lower.memory_order import DEEPEST, Turning, memory_order
from eagerjit.compiler.lower.prepare import with_nodes
from eagerjit.compiler.passes.dead import remove_dead
from eagerjit.compiler.passes.simplify import with_inputs
from eagerjit.compiler.signature import Trace
from eagerjit.runtime.records import replace

EXACT = ("bool", "int")


def in_any_order(trace: Trace) -> Trace:
    """The trace in which these reductions go through memory in its order."""
    if trace.checks or not any(map(_is_free, trace.graph.nodes)):
        return trace
    turning = Turning(trace)
    replaced: dict[Node, Node] = {}
    nodes: list[Node] = []
    for node in trace.graph.nodes:
        order = _order(turning, node) if _is_free(node) else None
        made = [node] if order is None else _reduced(turning, node, order)
        for each in made:
            nodes.append(with_inputs(each, replaced))
            if nodes[-1] is not each:
                replaced[each] = nodes[-1]
        if made[-1] is not node:
            replaced[node] = nodes[-1]
    if not replaced:
        return trace
    found = with_nodes(trace, nodes, replaced)
    return replace(found, graph=remove_dead(found.graph))


def _is_free(node: Node) -> bool:
    """Whether this is a reduction with the same result in any order."""
    exact = node.op.family == "reduction" and node.inputs[0].dtype.kind in EXACT
    return exact and not finds_places(node) and len(node.inputs[0].shape) > 1


def _order(turning: Turning, node: Node) -> tuple[int, ...] | None:
    """The one order of all memory that is read; None where that is the order of the indices, or there are several.

    Also where what is left of the dimensions is in another order there: results are row-major.
    """
    shape = node.inputs[0].shape
    orders = {memory_order(value) for value in turning.operands(node.inputs[0]) if value.shape == shape}
    order = orders.pop() if len(orders) == 1 else None
    kept = [d for d in order or () if d not in node.attributes["axes"]]
    return None if order == tuple(range(len(shape))) or kept != sorted(kept) else order


def _reduced(turning: Turning, node: Node, order: tuple[int, ...]) -> list[Node]:
    """The reduction over dimensions in another order, runs of adjacent ones after each other."""
    axes = node.attributes["axes"]
    first = len(turning.nodes)
    found = turning.permuted(node.inputs[0], order, DEEPEST)
    for run in reversed(_runs(order, axes)):
        found = turning.new(node.op, (found,), {"axes": run}, node.op.type_rule(found.type, axes=run), node.source)
    return turning.nodes[first:]


def _runs(order: tuple[int, ...], axes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Where reduced dimensions are in an order, as runs of adjacent ones."""
    runs: list[tuple[int, ...]] = []
    for place in (place for place, d in enumerate(order) if d in axes):
        if runs and runs[-1][-1] == place - 1:
            runs[-1] += (place,)
        else:
            runs.append((place,))
    return runs
