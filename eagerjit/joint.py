"""Compiling a recorded call: forward, and backward where gradients leave it, cut from one joint graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from eagerjit.autograd import engine
from eagerjit.autograd.node import is_freed
from eagerjit.autograd.saved import Saved, operations, saved_by
from eagerjit.compilation import Report, describe, executable_of, simplified
from eagerjit.compiler.ir import Graph, Node, TensorType
from eagerjit.compiler.matching import matches
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.partition import GradientTrace, ancestors, gradient_trace, saved_values
from eagerjit.compiler.passes.dead import may_raise
from eagerjit.compiler.signature import Fresh, TensorLeaf, Trace
from eagerjit.guards import add_guards, inspect_code
from eagerjit.journal import value_at
from eagerjit.observation import TraceBreak
from eagerjit.observer import Observer
from eagerjit.runtime.execute import MISS
from eagerjit.tensor import Tensor
from eagerjit.trace import Tracer

Again = Callable[["Backward", Sequence[Any]], AbstractContextManager[tuple[Tracer, list[Any]]]]
Compile = Callable[[], tuple[Any, Report, "Backward | None"]]
"""Makes the executable of a call, the report on it, and its gradient."""


class Cut:
    """A part of a joint graph, compiled: what it takes of the call besides the gradients that come in."""

    def __init__(self, found: GradientTrace, kept: list[int], where: dict[int, Any]):
        self.executable, self.report = executable_of(found.trace, found.trace.graph, [])
        self.kept, self.numbers, self.read = kept, [where[leaf] for leaf in found.numbers], found.read
        self.tensors = [where[leaf] for leaf in found.tensors]

    def run(self, values: Sequence[Tensor], kept: Sequence[Tensor], arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Its results for incoming gradients, and what the call kept and was called with; MISS if it refuses them."""
        read = [value_at(place, arguments) for place in (*self.numbers, *self.tensors)]
        found = self.executable.run((*values, *[kept[i] for i in self.kept], *read))
        return found if found is MISS or isinstance(found, tuple) else (found,)


@dataclass
class Part:
    """The compiled gradient of some results: what reaches the targets, alone or added to what reached them before.

    targets     what gets a gradient: leaves of the call, or keys of another kind
    repeated    those of them that are used more than once
    cut         compiles the same gradient added, use by use, to what reached some of these before: so its sums are
                those of the plain call
    saved       values that the plain call's gradient refuses to find overwritten
    visited     the operations that the gradient goes through, None for all of the call's
    """

    targets: list[Hashable]
    repeated: list[Hashable]
    plain: Cut
    cut: Callable[[tuple[Hashable, ...]], Cut]
    saved: list[Saved]
    visited: frozenset[int] | None = None
    onto: dict[tuple[Hashable, ...], Cut] = field(default_factory=dict)

    def totals(
        self,
        values: Sequence[Tensor],
        kept: Sequence[Tensor],
        arguments: Sequence[Any],
        starts: dict[Hashable, Tensor | None],
    ) -> dict[Hashable, Tensor]:
        """Every target's gradient added to its start, in the order in which the plain call adds."""
        summed = tuple([t for t in self.repeated if starts.get(t) is not None])
        if summed:
            onto = self.onto.get(summed)
            if onto is None:
                onto = self.onto[summed] = self.cut(summed)
            begun: list[Any] = [starts[t] for t in summed]
            found = onto.run((*values, *[t.contiguous() for t in begun]), kept, arguments)
        else:
            found = self.plain.run(values, kept, arguments)
        if found is MISS:
            raise RuntimeError("the compiled gradient of a call does not take the gradients that reached it")
        totals = dict(zip(self.targets, found, strict=True))
        for target, start in starts.items():
            if start is not None and target in totals and target not in summed:
                totals[target] = start + totals[target]
        return totals


@dataclass
class Backward:
    """What the gradients of a compiled call are made of, and those that were asked for so far.

    roots       which results have a gradient
    where       leaf -> argument by position, or tensor
    forward     the operations recorded, before any pass
    answers     the values that the recording asked for
    again       records the call again: (this, arguments) -> (tracer, results)
    rerun       makes the plain call
    inner       which of the roots others depend on
    end         the name and line of the last operation
    changes     whether the call changes Python objects, so that it cannot be made again
    leaves      the tensors that gradients go to or that matter for them
    tensors     the same: arguments by position, others themselves
    kept        which outputs of the executable are values kept for the gradient; `kept_nodes` what they are
    parts       gradients by the results that have them
    hidden      values inside the call that gradients of gradients reach, by (operation, result)
    twice       histories of gradients
    """

    name: str
    roots: list[int]
    where: dict[int, Any]
    forward: list[Node]
    answers: list[Any]
    conditions: dict[str, Any]
    again: Again
    rerun: Callable[..., Any]
    inner: tuple[int, ...]
    end: tuple[str, str]
    changes: bool = False
    leaves: list[int] = field(default_factory=list)
    tensors: list[Any] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    kept_nodes: list[Node] = field(default_factory=list)
    parts: dict[tuple[int, ...], Part] = field(default_factory=dict)
    hidden: dict[tuple[int, int], int] = field(default_factory=dict)
    twice: dict[Any, Any] = field(default_factory=dict)

    @property
    def executable(self) -> Cut:
        """The gradient when all results have one."""
        return self.parts[tuple(range(len(self.roots)))].plain

    @property
    def report(self) -> Report:
        """What compiling that gradient produced."""
        return self.executable.report

    def record(self, arguments: Sequence[Any]) -> AbstractContextManager[tuple[Tracer, list[Any]]]:
        """A second recording of a call: within it, its tracer and its results."""
        return self.again(self, arguments)


@dataclass
class Summary:
    """What gradients that were recorded are of: without a tensor of the recording. See `Part`."""

    targets: list[Hashable]
    repeated: list[Hashable]
    saved: list[Saved]


@dataclass
class Walk:
    """Gradients recorded in a trace, alone and added up from a start."""

    targets: list[Hashable]
    gradients: list[Tensor]
    repeated: list[Hashable]
    totals: list[Tensor]
    saved: list[Saved]

    def summary(self) -> Summary:
        """What outlives the recording."""
        return Summary(self.targets, self.repeated, self.saved)


def walk(
    tracer: Tracer,
    roots: list[Tensor],
    incoming: list[Tensor],
    targets: dict[Hashable, Tensor],
    results: Sequence[Any],
) -> Walk:
    """Record the gradients of roots with respect to targets, each alone and added up from a start."""
    before, watched = tracer.source, tracer.observation
    trail: engine.Trail = {engine.key_of(t): [] for t in targets.values()}
    observer = Observer(tracer, set())
    try:
        with observer:
            grads = engine.run(roots, incoming, list(targets.values()), True, False, trail)
    except RuntimeError as error:
        raise TraceBreak(f"it has no gradient: {error}", tracer.name) from error
    finally:
        tracer.source, tracer.observation = before, watched
        observer.journal.undo()
    _check_backward(tracer, observer)
    reached = [(key, g) for key, g in zip(targets, grads, strict=True) if g is not None]
    uses = {key: trail[engine.key_of(targets[key])] for key, _ in reached}
    repeated = [key for key, found in uses.items() if len(found) > 1]
    starts = [cotangent(tracer, targets[key]) for key in repeated]
    totals = {key: total(start, uses[key]) for key, start in zip(repeated, starts, strict=True)}
    return Walk(
        [key for key, _ in reached],
        [_own(g) for _, g in reached],
        repeated,
        [_own(totals.get(key, g)) for key, g in reached],
        saved_by(tracer, roots, [targets[key] for key, _ in reached], results),
    )


def _check_backward(tracer: Tracer, observer: Observer) -> None:
    """Guards for what hooks and gradients of the user's own read; what they change would be changed only once."""
    if not observer.lines:
        return
    journal = observer.journal
    if tracer.broken is not None:
        raise tracer.broken
    journal.finished()
    if journal.operations:
        source = journal.operations[0].source
        raise TraceBreak("a gradient changes Python objects, which compiled code would not do", source)
    tracer.guards += add_guards(tracer, inspect_code(None, observer), journal)


def total(start: Tensor, uses: list[Tensor]) -> Tensor:
    """The gradients of a tensor's uses added one by one."""
    for grad in uses:
        start = start + grad
    return start


def _own(grad: Tensor) -> Tensor:
    """A gradient as a contiguous value of the trace."""
    grad = grad.contiguous()
    return grad if type(grad._data) is Node else grad.clone()


def cotangent(tracer: Tracer, result: Tensor) -> Tensor:
    """A gradient to come, as an input of the joint graph."""
    type_ = tracer.value(result).type
    node = Node(elementwise.argument, (), {"cotangent": True}, TensorType(type_.dtype, type_.shape))
    tracer.inputs.append(node)
    return tracer.wrap(node)


def leaves_with_gradients(tracer: Tracer) -> dict[Hashable, Tensor]:
    """The outside tensors that gradients of a trace go to, by leaf."""
    bound = {b.leaf for b in tracer.bindings if isinstance(b, TensorLeaf)}
    return {leaf: t for t, leaf in tracer.outside() if leaf in bound and t._requires_grad}


def root_positions(results: Sequence[Any]) -> list[int]:
    """Which results have gradients."""
    return [
        i
        for i, r in enumerate(results)
        if isinstance(r, Tensor) and type(r._data) is Node and r._node is not None and not is_freed(r._node)
    ]


# -- compiling --------------------------------------------------------------------------------------------------------


def compile_call(
    tracer: Tracer,
    n_arguments: int,
    results: list[Any],
    forward: int,
    again: Again,
    rerun: Callable[..., Any],
    **conditions: Any,
) -> Compile:
    """What compiles a recording and, where results need gradients, its gradient. Runs inside the tracer.

    The first `forward` operations are the call's. What is returned runs inside the tracer too, but needs nothing more
    of the call: any thread may run it, once.
    """
    roots = root_positions(results)
    if not roots:
        return partial(_compile_alone, describe(tracer, n_arguments, results, **conditions), tracer.objects)
    recorded, answers = tracer.nodes[:forward], list(tracer.values)
    targets = leaves_with_gradients(tracer)
    incoming = [cotangent(tracer, results[i]) for i in roots]
    walked = walk(tracer, [results[i] for i in roots], incoming, targets, results)
    joint = _Joint(
        describe(tracer, n_arguments, [*results, *walked.gradients, *walked.totals], **conditions),
        len(results),
        walked.summary(),
        _places(tracer, n_arguments),
    )
    inner = _inner(tracer, [results[i] for i in roots])
    last = max((results[i]._node for i in roots), key=lambda node: node.sequence)
    end = last.name, last.source
    backward = Backward(tracer.name, roots, joint.where, recorded, answers, conditions, again, rerun, inner, end)
    return partial(_compile_both, joint, tracer.objects, backward)


def _compile_alone(trace: Trace, objects: list[Any]) -> tuple[Any, Report, None]:
    return *executable_of(trace, trace.graph, objects, pending=True), None


def _compile_both(joint: _Joint, objects: list[Any], backward: Backward) -> tuple[Any, Report, Backward]:
    """Cut the joint graph in two and compile both."""
    trace = joint.trace
    traced = trace.graph
    nodes, received = joint.simplify()
    outputs = trace.outputs[: joint.n_results]
    given = [o.node for o in outputs if isinstance(o, Fresh)] + [value for _, value in trace.writes]
    asked = [q.node for q in trace.questions]
    given += asked
    # A number of the call may be read by the gradient alone.
    numbers = [n for n in trace.graph.inputs if n.attributes.get("number")]
    computed = ancestors([*given, *numbers, *_unused_checks(trace.graph)])
    bindings = joint.bindings()
    written = {leaf for leaf, _ in trace.writes}
    kept = saved_values(computed, nodes, {n for n, b in bindings.items() if b.leaf in written})
    kept += [q.node for q in trace.questions if q.size is not None and q.node not in (*kept, *bindings)]
    trace.graph = Graph(
        trace.graph.name,
        [n for n in trace.graph.inputs if "cotangent" not in n.attributes],
        [n for n in trace.graph.nodes if n in computed],
        [*(o.node for o in outputs if isinstance(o, Fresh)), *kept, *asked],
        trace.graph.writes,
    )
    trace.outputs = [*outputs, *(Fresh(n) for n in kept)]
    executable, report = executable_of(trace, traced, objects)
    needed = ancestors([outputs[i].node for i in backward.roots])  # type: ignore[union-attr]
    reached = [b.leaf for n, b in bindings.items() if n in needed]
    backward.leaves = list(dict.fromkeys([*reached, *joint.summary.targets]))
    backward.tensors = [joint.where[leaf] for leaf in backward.leaves]
    backward.kept = list(range(joint.n_results, joint.n_results + len(kept)))
    backward.kept_nodes = kept
    part = joint.part(received, nodes, kept, list(range(len(kept))))
    backward.parts[tuple(range(len(backward.roots)))] = part
    return executable, report, backward


def _inner(tracer: Tracer, roots: list[Tensor]) -> tuple[int, ...]:
    """The roots on which others depend."""
    if len(roots) == 1:
        return ()
    used = {engine.key_of(t) for node in operations(tracer, roots) for t in engine.edges_of(node)}
    return tuple(i for i, r in enumerate(roots) if engine.key_of(r) in used)


def compile_part(backward: Backward, tracer: Tracer, results: list[Any], walked: Walk) -> Part:
    """The gradient recorded by a walk, cut out of a second recording of a call that was compiled before."""
    n_arguments = len(tracer.arguments or ())
    joint = _Joint(
        describe(tracer, n_arguments, [*results, *walked.gradients, *walked.totals], **backward.conditions),
        len(results),
        walked.summary(),
        _places(tracer, n_arguments),
    )
    nodes, received = joint.simplify()
    found = matches(backward.kept_nodes, [*joint.trace.graph.inputs, *joint.trace.graph.nodes])
    return joint.part(received, nodes, list(found.values()), list(found))


@dataclass
class _Joint:
    """A recorded call with gradients: its trace, how many of its results are the call's, and what the rest are."""

    trace: Trace
    n_results: int
    summary: Summary
    where: dict[int, Any]

    def simplify(self) -> tuple[list[Node], list[Node]]:
        """Run the passes: the nodes of the gradients and of the totals, and the gradients to come."""
        simplified(self.trace)
        nodes = [o.node for o in self.trace.outputs[self.n_results :] if isinstance(o, Fresh)]
        return nodes, [n for n in self.trace.graph.inputs if "cotangent" in n.attributes]

    def bindings(self) -> dict[Node, TensorLeaf]:
        """The tensors among the leaves, by their nodes."""
        return {b.node: b for b in self.trace.bindings if isinstance(b, TensorLeaf)}

    def part(self, received: list[Node], nodes: list[Node], kept: list[Node], positions: list[int]) -> Part:
        """The gradients, cut out as programs of their own that are given `kept`, values of the call."""
        trace, summary, bindings = self.trace, self.summary, self.bindings()
        written = {leaf for leaf, _ in trace.writes}
        count, begun = len(summary.targets), len(received) - len(summary.repeated)
        starts = dict(zip(summary.repeated, received[begun:], strict=True))

        def cut(summed: tuple[Hashable, ...]) -> Cut:
            wanted = [nodes[count + i if key in summed else i] for i, key in enumerate(summary.targets)]
            taken = [*received[:begun], *(starts[key] for key in summed)]
            found = gradient_trace(trace, taken, kept, wanted, bindings)
            if written & set(found.read) or any(i not in self.where for i in found.numbers):
                raise RuntimeError(f"{trace.graph.name}: this gradient needs values that the call has overwritten")
            return Cut(found, positions, self.where)

        return Part(summary.targets, summary.repeated, cut(()), cut, summary.saved)


def _unused_checks(graph: Graph) -> list[Node]:
    """What the function computes for nothing but the error that it may end in."""
    used = {i for n in graph.nodes for i in n.inputs} | set(graph.results())
    found = [n for n in graph.nodes if n not in used and may_raise(n)]
    return [n for n in found if not any("cotangent" in i.attributes for i in ancestors([n]))]


def _places(tracer: Tracer, n_arguments: int) -> dict[int, Any]:
    """Where a call finds its leaves: among its arguments, or as tensors from outside."""
    out: dict[int, Any] = {i: i for i in range(n_arguments)}
    return out | {leaf: t for t, leaf in tracer.outside() if leaf >= n_arguments} | tracer.slots
