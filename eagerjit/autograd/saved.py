"""Values that a compiled call's gradient must find as they were: those that the plain call's gradient reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from eagerjit.autograd import walk_graph
from eagerjit.autograd.function import Context
from eagerjit.autograd.node import GradNode, described, overwritten, positions_read
from eagerjit.autograd.reads import Reader, reader_of
from eagerjit.compiler.ir import Node
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Tensor


@record(frozen=True)
class Saved:
    """A value that an operation saved: the call's result number `result`, or its tensor at `leaf`.

    name, source    the operation and its line
    index           the operation's input that the value is, -1 for its output
    reader          whether the operation's gradient reads it after all
    """

    name: str
    source: str
    index: int
    result: int = -1
    leaf: int = -1
    reader: Reader | None = field(default=None, compare=False, repr=False)

    def is_read(self) -> bool:
        """Whether the gradient reads the value, rather than its sizes alone."""
        return self.reader is None or self.reader.reads(self.index + 2)

    def error(self, tensor: Tensor, version: int, place: Any) -> RuntimeError:
        """What the plain call says to a value that was overwritten."""
        what = f"{described(tensor)}, the output"
        if self.index >= 0:
            now = tensor._storage.version if tensor._storage is not None else 0
            what = f"{described(tensor)}, now at version {now} (expected {version}), input {self.index}"
        return RuntimeError(overwritten(what, self.name, self.source, place))


def operations(tracer: Any, roots: Sequence[Tensor]) -> list[GradNode]:
    """The call's operations that results depend on, in the order of execution: the same in every recording of it."""
    found: set[GradNode] = set()
    stack = [r._node for r in roots]
    while stack:
        node = stack.pop()
        if node is not None and node not in found and node.sequence > tracer.first_sequence:
            found.add(node)
            stack += [t._node for t in walk_graph.edges_of(node)]
    return sorted(found, key=lambda node: node.sequence)


def between(roots: Sequence[Tensor], ends: Iterable[Tensor], targets: Sequence[Tensor]) -> walk_graph.Nodes:
    """The operations that lead from roots to targets, in a call that ends at `ends`."""
    wanted = {walk_graph.key_of(t) for t in targets}
    return walk_graph.relevant(walk_graph.collect(roots, {walk_graph.key_of(t) for t in ends})[0], wanted)


def saved_by(
    tracer: Any, roots: Sequence[Tensor], ends: Iterable[Tensor], targets: Sequence[Tensor], results: Sequence[Any]
) -> list[Saved]:
    """What the operations between targets and roots have saved of outside tensors and of results."""
    nodes = between(roots, ends, targets)
    bases = {id(_memory(r)): i for i, r in enumerate(results) if isinstance(r, Tensor) and type(r._data) is Node}
    made = [(i, _memory(r)) for i, r in enumerate(results) if isinstance(r, Tensor) and r._node is not None]
    made_by: dict[int, list[tuple[int, int]]] = {}
    for i, r in made:
        made_by.setdefault(id(r._node), []).append((r._index, i))
    found: dict[Saved, None] = {}
    for node, edges in nodes.items():
        read = _positions(node, edges)
        reader = reader_of(node.op, node.inputs or (), edges)
        for index, result in made_by.get(id(node), ()) if read is None or 1 in read else ():
            if node.reads_result(index):
                found[Saved(node.op.name, node.source, -1, result=result, reader=reader)] = None
        for index, x in _tensors(node, read):
            base = _memory(x)
            if id(base) in tracer.leaf_of:
                found[Saved(node.op.name, node.source, index, leaf=tracer.leaf_of[id(base)], reader=reader)] = None
            elif id(base) in bases:
                found[Saved(node.op.name, node.source, index, result=bases[id(base)], reader=reader)] = None
    return list(found)


def _positions(node: GradNode, edges: list[Any]) -> frozenset[int] | None:
    """Which of (g, out, *inputs) the gradient rules of a node read; None for all."""
    op = node.op
    if op.rules is None:
        return None
    used = [positions_read(rule) for rule, e in zip(op.rules, edges, strict=False) if rule and e is not None]
    return frozenset().union(*used)


def _tensors(node: GradNode, read: frozenset[int] | None) -> list[tuple[int, Tensor]]:
    """The tensors that a node's gradient reads, with their positions; of a custom function those that it saved."""
    context = getattr(node.op, "context", None)
    if isinstance(context, Context):
        return [(i, t) for i, t in enumerate(context.kept()) if t is not None]
    tensors = [(i, x) for i, x in enumerate(node.inputs or ()) if isinstance(x, Tensor)]
    return [(i, x) for i, x in tensors if read is None or i + 2 in read]


def _memory(tensor: Tensor) -> Tensor:
    """The tensor whose memory this one lies in: one from outside, or the first that was made of it."""
    while tensor._view is not None and type(tensor._data) is Node:
        tensor = tensor._view.base
    return tensor
