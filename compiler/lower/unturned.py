"""Work whose results are read with their dimensions in another order is done in that order.

What users compute of `x.T` is recorded in the order of memory, and its result turned, for results have strides. Where
nobody sees these, one kernel computes the result and what reads it: permutations go from results to operands. What is
computed of images is recorded in row-major order and its result turned where channels come last: borders, parts, joined
tensors and points of images are found in the order of memory so.
"""

from __future__ import annotations

from typing import Any

from eagerjit.compiler.ir import Node, TensorType
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.memory_order import is_pure, permuted
from eagerjit.compiler.lower.prepare import with_nodes
from eagerjit.compiler.ops import elementwise, indexing, views
from eagerjit.compiler.passes.dead import remove_dead
from eagerjit.compiler.passes.simplify import with_inputs
from eagerjit.compiler.signature import Trace
from eagerjit.runtime.records import replace

Order = tuple[int, ...]


def unturned(trace: Trace) -> Trace:
    """The trace in which elementwise work that is only read in another order, by its like or reductions, is done so."""
    if trace.checks or not any(n.op is views.permute for n in trace.graph.nodes):
        return trace
    users = trace.graph.users()
    orders, twice = _orders(trace, users)
    if not orders:
        return trace
    moving = _Moving(orders, twice, users)
    for node in trace.graph.nodes:
        moving.take(node)
    found = with_nodes(trace, moving.nodes, moving.replaced)
    return replace(found, graph=remove_dead(found.graph))


class _Moving:
    """Nodes in their order, some of them with their dimensions in another one."""

    def __init__(self, orders: dict[Node, Order], twice: set[Node], users: dict[Node, list[Node]]):
        self.orders, self.twice, self.users = orders, twice, users
        self.nodes: list[Node] = []
        self.replaced: dict[Node, Node] = {}
        self.moved: dict[tuple[Node, Order], Node] = {}

    def take(self, node: Node) -> None:
        """Add the node, or what does its work in another order."""
        order = self.orders.get(node)
        if self._repeats(node):
            self.replaced[node] = self.replaced[node.inputs[0]]
            return
        if order is None or node in self.twice:
            current = with_inputs(node, self.replaced)
            if current is not node:
                self.replaced[node] = current
            self.nodes.append(current)
        if order is None:
            return
        if node.op is views.permute:
            self.replaced[node] = self.moved[node.inputs[0], order]
        else:
            operands = tuple([self._operand(i, order) for i in node.inputs])
            type_ = TensorType(node.dtype, tuple(node.type.shape[d] for d in order))
            self.moved[node, order] = Node(node.op, operands, _attributes(node, order), type_, node.source)
            self.nodes.append(self.moved[node, order])

    def _repeats(self, node: Node) -> bool:
        """Whether this copies what is written to its own memory in this order, and that nothing else reads."""
        if node.op is not elementwise.cast or node.dtype != node.inputs[0].dtype:
            return False
        view = node.inputs[0]
        if view.op is not views.permute or view not in self.orders or self.users[view] != [node]:
            return False
        made = view.inputs[0]
        return self.users[made] == [view] and made.op in (indexing.replace_block, indexing.cat)

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


def _orders(trace: Trace, users: dict[Node, list[Node]]) -> tuple[dict[Node, Order], set[Node]]:
    """The work that is read in one other order, and the permutations that read it, with that order.

    And the part of it that is read in its own order too: one operation on what lies in memory, which is done twice.
    """
    twice: set[Node] = set()
    seen = {layout(n).root for n in trace.graph.results()} | set(trace.graph.results())
    found: dict[Node, Order] = {}
    for node in reversed(trace.graph.nodes):
        if node in seen or not users[node]:
            continue
        if node.op is views.permute:
            if _is_undone(node, users[node], found):
                continue
            if _moves(node.inputs[0]) and all(is_pure(u) or u.op.family == "reduction" for u in users[node]):
                found[node] = node.attributes["dims"]
        elif _moves(node) and node.type.shape:
            orders = {found.get(u) for u in users[node]} | {None for u in users[node] if u in twice}
            if None in orders and len(orders) == 2 and _is_light(node):
                twice.add(node)
                orders.discard(None)
            if len(orders) == 1 and None not in orders and all(_fits(u, node) for u in users[node] if u in found):
                found[node] = orders.pop()  # type: ignore[assignment]
    kept = {node: order for node, order in found.items() if node.op is not views.permute or node.inputs[0] in found}
    return kept, twice & kept.keys()


def _is_undone(node: Node, users: list[Node], orders: dict[Node, Order]) -> bool:
    """Whether what reads a permutation is done in an order in which there is nothing to permute."""
    dims = node.attributes["dims"]
    same = [u for u in users if u in orders and len(orders[u]) == len(dims)]
    return len(same) == len(users) and all([dims[d] for d in orders[u]] == sorted(dims) for u in same)


def _is_light(node: Node) -> bool:
    """Whether this is one quick operation on what lies in memory."""
    whole = [i for i in node.inputs if i.type.shape == node.type.shape]
    return is_pure(node) and node.op.cost <= 1 and not any(map(is_pure, whole))


def _moves(node: Node) -> bool:
    """Whether the work can be done with the dimensions of operands and result in another order."""
    if node.op is indexing.gather:
        return _is_made(node.inputs[1])
    return is_pure(node) or node.op in (views.slice_, views.expand, views.flip, indexing.replace_block, indexing.cat)


def _is_made(index: Node) -> bool:
    """Whether places are computed of sizes alone: they are within range, so that none has to be told of first."""
    waiting, seen = [index], {index}
    while waiting:
        node = waiting.pop()
        if node.op.family == "argument" and node.type.shape:
            return False
        waiting += [i for i in node.inputs if i not in seen]
        seen.update(node.inputs)
    return True


def _attributes(node: Node, order: Order) -> Any:
    """What the node is told, of dimensions in another order."""
    found = dict(node.attributes)
    if "dim" in found and node.op in (views.slice_, indexing.gather, indexing.cat):
        found["dim"] = order.index(found["dim"])
    elif node.op is views.flip:
        found["dims"] = tuple(sorted(map(order.index, found["dims"])))
    elif node.op is views.expand:
        found["shape"] = tuple([found["shape"][d] for d in order])
    elif node.op is indexing.replace_block:
        found |= {name: tuple([found[name][d] for d in order]) for name in ("starts", "steps")}
    return found


def _fits(user: Node, node: Node) -> bool:
    """Whether what reads a value in another order has as many dimensions."""
    return len(user.type.shape) == len(node.type.shape)
