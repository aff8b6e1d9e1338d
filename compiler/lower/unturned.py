"""Elementwise work whose results are read with their dimensions in another order is done in that order.

What users compute of `x.T` is recorded in the order of memory, and its result turned, for results have strides. Where
nobody sees these, one kernel computes the result and what reads it: permutations go from results to operands.
"""

from __future__ import annotations

from eagerjit.compiler.ir import Node, TensorType
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.memory_order import is_pure, permuted
from eagerjit.compiler.lower.prepare import with_nodes
from eagerjit.compiler.ops import views
from eagerjit.compiler.passes.dead import remove_dead
from eagerjit.compiler.passes.simplify import with_inputs
from eagerjit.compiler.signature import Trace
from eagerjit.runtime.records import replace

Order = tuple[int, ...]


def unturned(trace: Trace) -> Trace:
    """The trace in which elementwise work that is only read in another order, by its like or reductions, is done so."""
    if trace.checks or not any(n.op is views.permute for n in trace.graph.nodes):
        return trace
    orders = _orders(trace)
    if not orders:
        return trace
    moving = _Moving(orders)
    for node in trace.graph.nodes:
        moving.take(node)
    found = with_nodes(trace, moving.nodes, moving.replaced)
    return replace(found, graph=remove_dead(found.graph))


class _Moving:
    """Nodes in their order, some of them with their dimensions in another one."""

    def __init__(self, orders: dict[Node, Order]):
        self.orders = orders
        self.nodes: list[Node] = []
        self.replaced: dict[Node, Node] = {}
        self.moved: dict[tuple[Node, Order], Node] = {}

    def take(self, node: Node) -> None:
        """Add the node, or what does its work in another order."""
        order = self.orders.get(node)
        if order is None:
            current = with_inputs(node, self.replaced)
            if current is not node:
                self.replaced[node] = current
            self.nodes.append(current)
        elif node.op is views.permute:
            self.replaced[node] = self.moved[node.inputs[0], order]
        else:
            operands = tuple([self._operand(i, order) for i in node.inputs])
            type_ = TensorType(node.dtype, tuple(node.type.shape[d] for d in order))
            self.moved[node, order] = Node(node.op, operands, node.attributes, type_, node.source)
            self.nodes.append(self.moved[node, order])

    def _operand(self, node: Node, order: Order) -> Node:
        """An operand in an order; a number broadcasts in any."""
        value = self.replaced.get(node, node)
        if value.type.shape == ():
            return value
        if (node, order) not in self.moved:
            missing = len(order) - len(value.type.shape)
            if missing:
                shape = (*(1,) * missing, *value.type.shape)
                value = Node(views.reshape, (value,), {"shape": shape}, TensorType(value.dtype, shape), value.source)
                self.nodes.append(value)
            turned = self.moved[node, order] = permuted(value, order)
            if turned.op is views.permute:
                self.nodes.append(turned)
        return self.moved[node, order]


def _orders(trace: Trace) -> dict[Node, Order]:
    """The work that is only read in one other order, and the permutations that read it, with that order."""
    users, seen = trace.graph.users(), {layout(n).root for n in trace.graph.results()} | set(trace.graph.results())
    found: dict[Node, Order] = {}
    for node in reversed(trace.graph.nodes):
        if node in seen or not users[node]:
            continue
        if node.op is views.permute:
            if is_pure(node.inputs[0]) and all(is_pure(u) or u.op.family == "reduction" for u in users[node]):
                found[node] = node.attributes["dims"]
        elif is_pure(node) and node.type.shape:
            orders = {found.get(u) for u in users[node]}
            if len(orders) == 1 and None not in orders and all(_fits(u, node) for u in users[node]):
                found[node] = orders.pop()  # type: ignore[assignment]
    return {node: order for node, order in found.items() if node.op is not views.permute or node.inputs[0] in found}


def _fits(user: Node, node: Node) -> bool:
    """Whether what reads a value in another order has as many dimensions."""
    return len(user.type.shape) == len(node.type.shape)
