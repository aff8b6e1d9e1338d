"""Gradients of gradients of compiled calls, compiled as the gradients are.

The gradient of a call depends on the call's arguments, on the gradients that reach its results, and on values inside
the call. On the tape it is a node of its own whose inputs are all of these: the values inside are further results of
the call's node. So what reaches such a value from the gradient's gradient is added to what reaches it from the call's
results, where the plain call adds them up, and in the same order.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from eagerjit.autograd import engine, walk_graph
from eagerjit.autograd.function import FunctionOp
from eagerjit.autograd.node import GradNode
from eagerjit.autograd.saved import operations
from eagerjit.compiled.joint import Backward, compile_keeping, compile_part
from eagerjit.compiled.parts import Cut, Part
from eagerjit.compiled.visits import visit_of
from eagerjit.compiled.walks import Walk, cotangent, leaves_with_gradients, walk
from eagerjit.compiler.ir import Node
from eagerjit.runtime import mode
from eagerjit.runtime.connections import KnownGradients
from eagerjit.tensors.tensor import Tensor

if TYPE_CHECKING:
    from eagerjit.recording.trace import Tracer


def hidden_values(tracer: Tracer, roots: Sequence[Tensor], hidden: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Values inside a recorded call, named by (operation, result)."""
    if not hidden:
        return []
    nodes = operations(tracer, roots)
    return [nodes[number].outputs()[index] for number, index in hidden]


class Twice:
    """The history of one gradient of a compiled call.

    present     the results whose gradients came in
    wanted      the leaves whose gradients were asked for
    flags       which of these, and of the starts, have a history
    started     the repeated targets that something had reached before
    outputs     the targets whose gradients have a history
    hidden      the results of the call's node that the gradient depends on, values inside the call among them
    targets     the leaves that have a gradient
    keeping     computes the gradients, and of what their own gradient needs what is dear: `kept_nodes`
    keys        what the gradient depends on: gradients and starts that were given, these results, leaves of the call
    known       its gradients that native code finds by itself
    asks        whether it acts on what the call and its gradient do not ask for, which nothing compares: numbers, and
                what code of the program's own reads; or the gradients are others than those without a history, and
                nothing computes them
    """

    def __init__(
        self,
        backward: Backward,
        arguments: tuple[Any, ...],
        present: tuple[int, ...],
        wanted: tuple[Hashable, ...],
        flags: tuple[bool, ...],
        started: tuple[Hashable, ...],
    ):
        self.backward, self.present, self.wanted, self.flags, self.started = backward, present, wanted, flags, started
        self.parts: dict[tuple[tuple[int, ...], tuple[Hashable, ...]], Part] = {}
        self.joined: dict[tuple[tuple[int, ...], tuple[int, ...], tuple[Hashable, ...]], Part] = {}
        self.known = KnownGradients()
        with backward.record(arguments) as (tracer, results):
            recorded = _Recorded(self, tracer, results)
            self.outputs = list(recorded.outputs)
            self.hidden = [position for position, _ in recorded.inside()]
            self.targets = list(recorded.gradients)
            self.asks = recorded.runs_code(tracer)
            kept = None if self.asks else self._keeping(recorded, tracer, results)
            self.asks = self.asks or tracer.asks_beyond(backward.asked) or (kept is None and recorded.has_two)
        self.keeping: Cut | None
        self.kept_nodes: list[Node]
        self.keeping, self.kept_nodes = (None, []) if kept is None else kept
        self.name = f"{backward.name}_backward"
        self.keys: list[Hashable] = [("given", i) for i in range(len(flags))]
        self.keys += [*(("result", position) for position in self.hidden), *backward.leaves]

    def _keeping(self, recorded: _Recorded, tracer: Tracer, results: list[Any]) -> tuple[Cut, list[Node]] | None:
        """The gradients with what their own gradient needs, unless something is added to them use by use."""
        walked = recorded.walk_back(tracer, results, self.outputs) if self.outputs else None
        if self.started or walked is None:
            return None
        gradients = list(recorded.gradients.values())
        given = len(self.flags)
        return compile_keeping(self.backward, tracer, results, gradients, walked, given, recorded.has_two)

    def part(self, present: tuple[int, ...], wanted: tuple[Hashable, ...], arguments: tuple[Any, ...]) -> Part:
        """The gradients of some of these gradients for some of what they depend on."""
        found = self.parts.get((present, wanted))
        if found is None:
            with self.backward.record(arguments) as (tracer, results):
                recorded = _Recorded(self, tracer, results)
                walked = recorded.walk_back(tracer, results, [self.outputs[i] for i in present], wanted)
                found = compile_part(self.backward, tracer, results, walked, self.kept_nodes)
            self.parts[present, wanted] = found
        return found

    def part_with_call(
        self,
        present: tuple[int, ...],
        results_present: tuple[int, ...],
        wanted: tuple[Hashable, ...],
        arguments: tuple[Any, ...],
    ) -> Part:
        """The gradients of some of these gradients and of some of the call's results, for leaves of the call."""
        key = present, results_present, wanted
        found = self.joined.get(key)
        if found is None:
            with self.backward.record(arguments) as (tracer, results):
                recorded = _Recorded(self, tracer, results)
                values = recorded.roots + hidden_values(tracer, recorded.roots, list(self.backward.hidden))
                roots = [recorded.outputs[self.outputs[i]] for i in present] + [values[i] for i in results_present]
                incoming = [cotangent(tracer, r) for r in roots]
                walked = walk(tracer, roots, incoming, recorded.leaves, results, wanted)
                found = compile_part(self.backward, tracer, results, walked, self.kept_nodes)
                reached = [values[i] for i in results_present] + [t for _, t in recorded.inside()]
                found.visit = visit_of(
                    recorded.operations, recorded.roots, reached, recorded.operations, recorded.leaves, wanted
                )
            self.joined[key] = found
        return found


class _Recorded:
    """A call and its gradient, both on the tape of a recording.

    has_two     whether an operation computes a gradient that has a history in another way than one without, and the
                call may run again where nothing compiled computes it
    """

    def __init__(self, twice: Twice, tracer: Tracer, results: list[Any]):
        backward = twice.backward
        self.backward, self.first = backward, tracer.first_sequence
        self.roots = [results[i] for i in backward.roots]
        self.leaves = leaves_with_gradients(tracer)
        chosen = [self.roots[i] for i in twice.present]
        self.operations = operations(tracer, self.roots)
        two = any(getattr(node.op, "has_two_gradients", False) for node in self.operations)
        self.has_two = two and not backward.changes
        self.given = [cotangent(tracer, r) for r in (*chosen, *(self.leaves[key] for key in twice.started))]
        for tensor, flag in zip(self.given, twice.flags, strict=True):
            tensor._requires_grad = flag
        self.mark = mode.next_sequence()
        starts = dict(zip(twice.started, self.given[len(chosen) :], strict=True))
        # A gradient that is derived adds up in an order that depends on what it is asked for.
        wanted = [key for key in twice.wanted if key in self.leaves]
        found = engine.run(
            chosen, self.given[: len(chosen)], [self.leaves[key] for key in wanted], True, True, None, 0,
            [starts.get(key) for key in wanted], list(self.leaves.values()),
        )  # fmt: skip
        self.gradients = {key: g for key, g in zip(wanted, found, strict=True) if g is not None}
        self.outputs = {key: g for key, g in self.gradients.items() if g._requires_grad}

    def runs_code(self, tracer: Tracer) -> bool:
        """Whether a walk back runs code of the program's own."""
        made = [n for n in operations(tracer, list(self.outputs.values())) if n.sequence > self.mark]
        return any(n.hooks or isinstance(n.op, FunctionOp) for n in made)

    def walk_back(
        self, tracer: Tracer, results: list[Any], outputs: list[Hashable], wanted: Sequence[Hashable] | None = None
    ) -> Walk:
        """Record the gradient of some gradients, as far as the call."""
        targets: dict[Hashable, Tensor] = {("given", i): t for i, t in enumerate(self.given) if t._requires_grad}
        targets |= {("result", position): t for position, t in self.inside()}
        targets |= self.leaves
        roots = [self.outputs[key] for key in outputs]
        incoming = [cotangent(tracer, r) for r in roots]
        tracer.first_sequence = self.mark  # the walk ends where the call does
        return walk(tracer, roots, incoming, targets, results, wanted)

    def inside(self) -> list[tuple[int, Tensor]]:
        """The call's results and values inside it that the gradient depends on, with their positions."""
        numbers = {node: i for i, node in enumerate(self.operations)}
        results = {walk_graph.key_of(r): i for i, r in enumerate(self.roots)}
        found: dict[int, Tensor] = {}
        seen: set[GradNode] = set()
        stack = [g._node for g in self.outputs.values()]
        while stack:
            node = stack.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            for tensor in walk_graph.edges_of(node):
                made_by = tensor._node
                if made_by is None or made_by.sequence < self.first:
                    continue  # a leaf of the call, or an argument with a history of its own
                if made_by.sequence > self.mark:
                    stack.append(made_by)
                    continue
                position = results.get(walk_graph.key_of(tensor))
                if position is None:
                    hidden = self.backward.hidden
                    name = numbers[made_by], tensor._index
                    position = len(self.roots) + hidden.setdefault(name, len(hidden))
                found[position] = tensor
        return sorted(found.items())
