"""Values that do not lie in row-major order: what is reduced is copied first, what is written is turned.

A loop whose elements lie a row apart uses one element of every cache line, and finds the line gone when it comes for
the next. What a reduction would read so is copied first, by a kernel that transposes squares of it in registers. A sum
adds in the order of the indices, wherever the elements lie, so its bits stay the same. Elementwise work has no order:
what is written to a tensor is computed in the order in which that lies in memory.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node, TensorType
from eagerjit.compiler.layout import is_contiguous, layout
from eagerjit.compiler.lower.kinds import finds_places, reduction_kind
from eagerjit.compiler.lower.prepare import with_nodes
from eagerjit.compiler.ops import elementwise, views
from eagerjit.compiler.passes.dead import may_raise, remove_dead
from eagerjit.compiler.passes.simplify import with_inputs
from eagerjit.compiler.shapes import inverse
from eagerjit.compiler.signature import Fresh, TensorLeaf, Trace
from eagerjit.runtime.records import replace

SMALL = 4096
"""Elements of a value that stays in a cache in any order."""


def in_order(trace: Trace) -> tuple[Trace, frozenset[Node]]:
    """The trace in which reductions read across memory no more, and the copies made for that."""
    chosen = _chosen(trace)
    if not chosen:
        return trace, frozenset()
    copies: dict[Node, Node] = {}
    replaced: dict[Node, Node] = {}
    nodes: list[Node] = []
    inputs = set(trace.graph.inputs)
    for node in (*trace.graph.inputs, *trace.graph.nodes):
        current = with_inputs(node, replaced)
        if node.op.family in ("elementwise", "reduction") and copies.keys() & node.inputs:
            current = with_inputs(current, {replaced.get(v, v): copy for v, copy in copies.items()})
        if current is not node:
            replaced[node] = current
        if node not in inputs:
            nodes.append(current)
        if node in chosen:
            copies[node] = Node(elementwise.cast, (current,), {"dtype": node.dtype}, node.type, node.source)
            nodes.append(copies[node])
    return with_nodes(trace, nodes, replaced), frozenset(copies.values())


def _chosen(trace: Trace) -> set[Node]:
    """The views that are worth a copy."""
    reductions = [n for n in trace.graph.nodes if n.op.family == "reduction"]
    users, results = trace.graph.users(), set(trace.graph.results())
    alone = {n for n, users_ in users.items() if len(users_) == 1} - results
    seen: Counter[Node] = Counter()
    chosen: set[Node] = set()
    for reduction in reductions:
        for view in _views(reduction.inputs[0]):
            seen[view] += 1
            if not _lies_across(view):
                continue
            again = seen[view] > 1 and not _is_only_reduced(view, users, results)
            if again or not _reduced_together(view, reduction, alone):
                chosen.add(view)
    return chosen


def _is_only_reduced(view: Node, users: dict[Node, list[Node]], results: set[Node]) -> bool:
    """Whether what is computed of a view, element by element, is read by reductions alone: none stores it in rows."""
    stack, seen = [view], {view}
    while stack:
        node = stack.pop()
        if node in results or node.op.family not in ("elementwise", "view", "argument"):
            return False
        following = [u for u in users[node] if u.op.family != "reduction" and u.op is not views.permute]
        stack += [u for u in following if u not in seen]
        seen.update(following)
    return True


def _views(value: Node, elsewhere: Callable[[Node], bool] = lambda node: False) -> Iterator[Node]:
    """The values in memory, or views of them, that a reduction's operand is computed from, where not `elsewhere`."""
    stack, seen = [value], {value}
    while stack:
        node = stack.pop()
        if elsewhere(node):
            continue
        if node.op.family == "elementwise" and "gathers" not in node.op.traits:
            stack += [i for i in node.inputs if i not in seen]
            seen.update(node.inputs)
        elif _reshapes(node):
            stack.append(layout(node).root)
        elif node.op.family in ("view", "argument"):
            yield node


def rows_apart(reduction: Node, elsewhere: Callable[[Node], bool]) -> int:
    """How many values with gaps between their rows a reduction that goes on from row to row reads in its own kernel."""
    operand = reduction.inputs[0]
    length = sizes.product(tuple([operand.type.shape[d] for d in reduction.attributes["axes"]]))
    return sum(_has_gaps(view) and view.type.shape[-1] != length for view in _views(operand, elsewhere))


def _has_gaps(value: Node) -> bool:
    """Whether elements of a row are neighbours, and the last and first ones of two rows are not."""
    steps = [(d, s) for d, s in zip(value.type.shape, layout(value).strides, strict=True) if d != 1]
    return len(steps) > 1 and steps[-1][1] == 1 and steps[-2][1] != steps[-1][0]


def _reshapes(node: Node) -> bool:
    """Whether this is a view of all that an elementwise operation makes, in its order: one kernel computes both."""
    root = layout(node).root
    computed = node is not root and root.op.family == "elementwise"
    return computed and node.type.numel == root.type.numel and is_contiguous(node)


def _lies_across(value: Node) -> bool:
    """Whether elements are neighbours along another dimension than the last."""
    count = value.type.numel
    if value.dtype.is_complex or (isinstance(count, int) and count <= SMALL):
        return False
    steps = [s for d, s in zip(value.type.shape, layout(value).strides, strict=True) if d != 1]
    return len(steps) > 1 and steps[-1] not in (0, 1, -1) and 1 in steps


def _reduced_together(value: Node, reduction: Node, alone: set[Node]) -> bool:
    """Whether the kernel takes elements that lie across memory as they lie there.

    It takes several rows at a time where these lie beside each other, and turns squares of columns of which each does.
    Of steps of several lengths the long ones come first, or lines are gone from the cache before they are read whole.
    """
    kind, _ = reduction_kind(reduction)
    shape = reduction.inputs[0].type.shape
    if kind == "total" or value.type.shape != shape or finds_places(reduction):
        return False
    steps, axes = layout(value).strides, reduction.attributes["axes"]
    reduced, after = ([d for d in dims if shape[d] != 1] for dims in (axes, range(axes[-1] + 1, len(shape))))
    single = all(
        steps[a] == sizes.mul(steps[b], shape[b]) for dims in (reduced, after) for a, b in itertools.pairwise(dims)
    )
    if kind == "rows":
        kept = [d for d in range(axes[0]) if shape[d] != 1]
        return bool(kept) and steps[kept[-1]] == 1 and single
    return bool(reduced) and steps[reduced[-1]] == 1 and single and _is_single(reduction.inputs[0], value, alone)


def _is_single(operand: Node, value: Node, alone: set[Node]) -> bool:
    """Whether an operand is computed, for the reduction only, of a value alone, and of numbers."""
    stack = [operand]
    while stack:
        node = stack.pop()
        if node is value:
            continue
        if node not in alone or (node.type.shape != () and node.op.family != "elementwise"):
            return False
        stack += [i for i in node.inputs if i.type.shape != ()]
    return True


def turned(trace: Trace) -> Trace:
    """The trace in which what is written to a tensor is computed in the order of the tensor's memory."""
    if not trace.writes or trace.checks:
        return trace
    turning = Turning(trace)
    replaced = {value: turning.written(leaf, value) for leaf, value in trace.writes}
    replaced = {value: after for value, after in replaced.items() if after is not value}
    if not replaced:
        return trace
    found = with_nodes(trace, [*trace.graph.nodes, *turning.nodes], replaced)
    return replace(found, graph=remove_dead(found.graph))


DEEPEST = 100
"""Operations above a written value that are looked at: chains of them may be long."""


class Turning:
    """Permutations moved from elementwise results to their operands, where nothing else reads the results."""

    def __init__(self, trace: Trace):
        self.nodes: list[Node] = []
        self.node_of = {b.leaf: b.node for b in trace.bindings if isinstance(b, TensorLeaf)}
        others = [o.node for o in trace.outputs if isinstance(o, Fresh)] + [q.node for q in trace.questions]
        self.kept = {layout(n).root for n in others}
        self.uses = {n: len(users) for n, users in trace.graph.users().items()}
        self.writes = Counter(value for _, value in trace.writes)

    def written(self, leaf: int, value: Node) -> Node:
        """What is written, as a view of a value in the order of the leaf's memory."""
        if self.uses[value] or self.writes[value] > 1 or value in self.kept or not self._is_elementwise(value):
            return value
        order = memory_order(self.node_of[leaf])
        if order == tuple(range(len(order))):
            return self._over_operands(value, DEEPEST)
        found = self.permuted(value, order, DEEPEST)
        return self.new(views.permute, (found,), {"dims": inverse(order)}, value.type, value.source)

    def _over_operands(self, node: Node, depth: int) -> Node:
        """The value with permutations of single results moved to these results' operands."""
        if not depth:
            return node
        inputs = []
        for i in node.inputs:
            if i.op is views.permute and self._is_alone(i) and self._is_alone(i.inputs[0]):
                i = self.permuted(i.inputs[0], i.attributes["dims"], depth - 1)
            elif self._is_alone(i):
                i = self._over_operands(i, depth - 1)
            inputs.append(i)
        if tuple(inputs) == node.inputs:
            return node
        return self.new(node.op, tuple(inputs), node.attributes, node.type, node.source)

    def permuted(self, node: Node, dims: tuple[int, ...], depth: int) -> Node:
        """A value with its dimensions in another order: computed in it where nothing else reads the value."""
        turned = permuted(node, dims)
        if turned.op is not views.permute:
            return turned
        seen, (value,), dims = node, turned.inputs, turned.attributes["dims"]
        while seen is not value and self.uses[seen] <= 1:
            seen = seen.inputs[0]
        if not depth or not self._is_elementwise(value) or self.uses[seen] > 1 or value in self.kept:
            self.nodes.append(turned)
            return turned
        inputs = [
            i if i.type.shape == () else self.permuted(self._full(i, len(dims)), dims, depth - 1) for i in value.inputs
        ]
        return self.new(value.op, tuple(inputs), value.attributes, turned.type, value.source)

    def operands(self, value: Node) -> Iterator[Node]:
        """What a value is computed from by elementwise operations whose results nothing else reads."""
        stack, seen = [value], {value}
        while stack:
            node = stack.pop()
            if not self._is_elementwise(node) or not self._is_alone(node):
                yield node
                continue
            stack += [i for i in node.inputs if i not in seen]
            seen.update(node.inputs)

    def _full(self, node: Node, rank: int) -> Node:
        """An operand with as many dimensions as the result."""
        missing = rank - len(node.type.shape)
        if not missing:
            return node
        shape = (*(1,) * missing, *node.type.shape)
        return self.new(views.reshape, (node,), {"shape": shape}, TensorType(node.dtype, shape), node.source)

    def _is_elementwise(self, node: Node) -> bool:
        return node in self.uses and is_pure(node)

    def _is_alone(self, node: Node) -> bool:
        """Whether one operation reads a value, and nobody else."""
        single = self.uses.get(node) == 1 and not self.writes[node] and node not in self.kept
        return single and (self._is_elementwise(node) or node.op is views.permute)

    def new(self, op: Any, inputs: tuple[Node, ...], attributes: Any, type_: TensorType, source: str) -> Node:
        self.nodes.append(Node(op, inputs, attributes, type_, source))
        return self.nodes[-1]


def is_pure(node: Node) -> bool:
    """Whether this is elementwise work that may be done in any order."""
    return node.op.family == "elementwise" and "gathers" not in node.op.traits and not may_raise(node)


def permuted(node: Node, dims: tuple[int, ...]) -> Node:
    """A view of a value with its dimensions in another order; what is viewed where that has this order."""
    source = node.source
    shape = tuple(node.type.shape[d] for d in dims)
    while node.op is views.permute:
        dims, node = tuple(node.attributes["dims"][d] for d in dims), node.inputs[0]
    if dims == tuple(range(len(dims))):
        return node
    return Node(views.permute, (node,), {"dims": dims}, TensorType(node.dtype, shape), source)


def memory_order(node: Node) -> tuple[int, ...]:
    """The dimensions from that with the longest steps through memory to that whose elements are neighbours.

    Those of which nothing is known come first; the order they have if the last one's elements are neighbours.
    """
    shape, steps = node.type.shape, layout(node).strides
    left = [d for d in range(len(shape)) if shape[d] != 1]
    if not left or steps[left[-1]] == 1 or 1 not in (steps[d] for d in left):
        return tuple(range(len(shape)))
    found: list[int] = []
    reach: sizes.Expr = 1
    while (following := [d for d in left if steps[d] == reach]):
        found.insert(0, following[-1])
        left.remove(following[-1])
        reach = sizes.mul(reach, shape[following[-1]])
    return tuple(d for d in range(len(shape)) if d not in found) + tuple(found)
