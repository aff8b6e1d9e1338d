"""Values that kernels compute again instead of reading what another one has stored, where that moves fewer bytes.

Memory is what kernels wait for on a GPU, and those of large tensors on a CPU; arithmetic is nearly free. The gradient
of a softmax, say, is computed of the scores, which are in memory anyway, and of two numbers per row: no kernel has to
store it for another one to scale. What a normalization squares, it need not store to scale it either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eagerjit.compiler import sizes
from eagerjit.compiler.affine import refine, without_ones
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import is_contiguous, layout
from eagerjit.compiler.lower.build import Blocking
from eagerjit.compiler.lower.groups import Group, HostStep, Region, Step, ends
from eagerjit.compiler.lower.prepare import with_nodes
from eagerjit.compiler.lower.schedule import MAX_COST, Scheduler
from eagerjit.compiler.ops import views
from eagerjit.compiler.passes.dead import may_raise, remove_dead
from eagerjit.compiler.signature import Trace
from eagerjit.runtime.records import record, replace

REPEATED = 8
"""Operations of a value that many elements of a larger one read, at most: each may compute them."""
SHARE = 100
"""One of how many bytes has to be saved: the graph is scheduled once more for it."""
MOST_NODES = 64
"""Nodes above a value that are looked at."""


@record(frozen=True)
class Way:
    """How a kernel gets at a value: what it reads from memory, and what it computes of that."""

    reads: frozenset[Node] = frozenset()
    computes: frozenset[Node] = frozenset()

    def and_(self, other: Way) -> Way:
        """Both values."""
        return Way(self.reads | other.reads, self.computes | other.computes)


def recomputed(
    trace: Trace, scheduler: Scheduler, steps: list[Step], blocking: Blocking
) -> tuple[Trace, set[Node], dict[Node, Node]]:
    """The trace in which kernels compute again what they should, what they compute so, and what replaces which node."""
    stored = {node for step in steps if isinstance(step, Group) for node in step.full}
    if all(_bytes(node, trace.hints) < blocking.saved for node in stored):
        return trace, set(), {}
    found = _Recomputing(trace, scheduler, steps, blocking.again)
    moved = found.total()
    found.run()
    is_worth = found.saved >= blocking.saved and found.saved * SHARE > moved
    return found.rewritten(trace) if is_worth else (trace, set(), {})


def _known(size: sizes.Expr, hints: Mapping[str, int]) -> int:
    """A size in the call that is compiled for."""
    return sizes.evaluate(size, {name: hints.get(name, 64) for name in sizes.symbols(size)})


def _bytes(node: Node, hints: Mapping[str, int]) -> int:
    return _known(node.type.numel, hints) * node.dtype.itemsize


class _Recomputing:
    """Decides in program order, so that what a value is computed of is decided before it."""

    def __init__(self, trace: Trace, scheduler: Scheduler, steps: list[Step], operations: float):
        self.nodes, self.hints, self.step_of = trace.graph.nodes, trace.hints, scheduler.step_of
        self.find, self.operations = scheduler.find, operations
        self.again: set[Node] = set()
        self.saved: float = 0
        self.reads: dict[int, set[Node]] = {step.number: set() for step in steps}
        """What a step reads from memory."""
        self.readers: dict[Node, set[int]] = {}
        groups = [step for step in steps if isinstance(step, Group)]
        self.cost = {group.number: group.cost for group in groups}
        self.points = {group.number: self._known(sizes.product(group.dims)) for group in groups}
        self.fixed = {layout(n).root for n in (*trace.graph.results(), *(q.node for q in trace.questions))}
        """What has to lie in memory, whatever kernels compute again."""
        self.changed = {old for old, _ in trace.graph.writes}
        """Memory that the call overwrites as soon as nothing reads it any more."""
        self.full: set[Node] = set()
        for step in steps:
            self._note(step)
        bases = (n.inputs[0] for n in self.nodes if n.op is views.reshape and _joins_dims(n))
        self.joined = {base.base for base in bases}
        """Values that are read at places which are not affine."""

    def _note(self, step: Step) -> None:
        if isinstance(step, Group):
            self.full |= step.full
        elif isinstance(step, Region):
            self.changed.add(layout(step.node.inputs[0]).root)
        for node in step.nodes if isinstance(step, Group | HostStep) else [step.node]:
            read = [root for value in node.inputs for root in ends(value, self.step_of)]
            if not isinstance(step, Group):
                self.fixed.update(read)
            elif "gathers" in node.op.traits:
                self.fixed.add(layout(node.inputs[0]).root)
            for root in read:
                if self._step(root) != step.number or not isinstance(step, Group):
                    self.reads[step.number].add(root)
                    self.readers.setdefault(root, set()).add(step.number)

    def _step(self, node: Node) -> int | None:
        number = self.step_of.get(node)
        return None if number is None else self.find(number)

    def run(self) -> None:
        """Decide about every value that one kernel stores for others."""
        for node in self.nodes:
            if node in self.full and node in self.readers and node not in self.fixed and self._computable(node):
                self._decide(node)

    def _decide(self, value: Node) -> None:
        readers = self.readers[value]
        way = self._computed(value, readers, {})
        if way is None:
            return
        saved = self._bytes(value) * (1 + len(readers)) - self._moved(way.reads, value, readers)
        cost, count = sum(n.op.cost for n in way.computes), self._count(value)
        if saved <= 0 or cost * count > self.operations * saved:
            return
        if any(self.cost[n] + cost > MAX_COST or (self.points[n] > count and cost > REPEATED) for n in readers):
            return
        self.saved += saved
        self.again |= way.computes
        for number in self.readers.pop(value):
            self.cost[number] += cost
            self.reads[number].discard(value)
            self.reads[number] |= way.reads
            for root in way.reads:
                self.readers.setdefault(root, set()).add(number)

    def rewritten(self, trace: Trace) -> tuple[Trace, set[Node], dict[Node, Node]]:
        """The trace with copies of what is computed again, which other kernels read; these, and nodes made anew."""
        nodes: list[Node] = []
        replaced: dict[Node, Node] = {}
        copies: dict[Node, Node] = {}

        def copied(value: Node) -> Node:
            if value.base not in self.again or (value not in self.again and value.op.family != "view"):
                return replaced.get(value, value)
            if value not in copies:
                inputs = tuple(map(copied, value.inputs))
                copies[value] = Node(value.op, inputs, value.attributes, value.type, value.source)
                nodes.append(copies[value])
            return copies[value]

        for node in trace.graph.nodes:
            inputs = tuple(copied(i) if self._reads_again(node, i) else replaced.get(i, i) for i in node.inputs)
            if inputs != node.inputs:
                replaced[node] = Node(node.op, inputs, node.attributes, node.type, node.source)
            nodes.append(replaced.get(node, node))
        found = with_nodes(trace, nodes, replaced)
        return replace(found, graph=remove_dead(found.graph)), set(copies.values()), replaced

    def _reads_again(self, node: Node, value: Node) -> bool:
        """Whether the kernel of a node computes an operand again."""
        step, base = self._step(node), value.base
        return step is not None and base in self.again and self._step(base) != step

    # -- ways to a value ----------------------------------------------------------------------------------------------

    def _way(self, node: Node, readers: set[int], known: dict[Node, Way | None]) -> Way | None:
        """How the readers get at an operand with the fewest bytes; None where they can't."""
        if node in known:
            return known[node]
        known[node] = None
        found: Way | None
        family = node.op.family
        if len(known) > MOST_NODES:
            found = None
        elif family == "generator" and not node.inputs and "stateful" not in node.op.traits:
            found = Way()
        elif family == "argument" and node.attributes.get("number", False):
            found = Way()
        elif family == "view":
            keeps_order = node.op in (views.reshape, views.expand, views.slice_)
            found = self._way(node.inputs[0], readers, known) if keeps_order else None
        else:
            readable = node not in self.again and node not in self.changed and is_contiguous(node)
            read = Way(frozenset((node,))) if readable else None
            computed = None if self._in_memory(node) else self._computed(node, readers, known)
            ways = [w for w in (read, computed) if w is not None]
            found = min(ways, default=None, key=lambda w: self._moved(w.reads, node, readers))
        known[node] = found
        return found

    def _computed(self, node: Node, readers: set[int], known: dict[Node, Way | None]) -> Way | None:
        """How the readers get at a value by computing it."""
        if not self._computable(node):
            return None
        found = Way(computes=frozenset((node,)))
        for value in node.inputs:
            way = self._way(value, readers, known)
            if way is None:
                return None
            found = found.and_(way)
        return found

    def _computable(self, node: Node) -> bool:
        """Whether a value may be computed anywhere: elementwise, and without errors."""
        if node.op.family != "elementwise" or "gathers" in node.op.traits or may_raise(node):
            return False
        return node not in self.joined and not any(n.dtype.is_complex for n in (node, *node.inputs))

    # -- bytes --------------------------------------------------------------------------------------------------------

    def _in_memory(self, node: Node) -> bool:
        """Whether a value lies in memory anyway."""
        if node.op.family == "argument" or node in self.fixed:
            return True
        return node in self.readers and not self._is_joined(node)

    def _is_joined(self, node: Node) -> bool:
        """Whether this is a product that the kernel which alone reads it is joined with."""
        readers = self.readers.get(node, set())
        kernel = len(readers) == 1 and readers <= self.cost.keys()
        return kernel and node.op.family == "linear" and node not in self.fixed

    def total(self) -> int:
        """Bytes that all kernels store and read."""
        stored = sum(self._bytes(node) for node in self.readers if node in self.step_of)
        return stored + sum(self._bytes(node) for nodes in self.reads.values() for node in nodes)

    def _moved(self, values: Iterable[Node], result: Node, readers: set[int]) -> float:
        """Bytes that are stored and read so that the readers have a result of these values."""
        moved = 0
        for value in values:
            size = self._bytes(value)
            if not self._in_memory(value):
                moved += size * (2 if self._is_joined(value) else 1)
            size = min(size, self._count(result) * value.dtype.itemsize)
            moved += size * sum(value not in self.reads[number] for number in readers)
        return moved

    def _count(self, node: Node) -> int:
        return self._known(node.type.numel)

    def _known(self, size: sizes.Expr) -> int:
        return _known(size, self.hints)

    def _bytes(self, node: Node) -> int:
        return _bytes(node, self.hints)


def _joins_dims(node: Node) -> bool:
    """Whether a reshape makes one dimension of several."""
    if node.op is not views.reshape:
        return False
    shape = without_ones(node.type.shape)
    return refine(without_ones(node.inputs[0].type.shape), shape) != shape
