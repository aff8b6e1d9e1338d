"""Compiling a recorded call: forward, and backward where gradients leave it, cut from one joint graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from eagerjit.autograd import walk_graph
from eagerjit.autograd.release import first_freed
from eagerjit.autograd.saved import operations
from eagerjit.compiled.compilation import Report, describe, executable_of, simplified
from eagerjit.compiled.parts import Cut, Part
from eagerjit.compiled.visits import Numbers, Visit, visit_of
from eagerjit.compiled.walks import Summary, Walk, cotangent, leaves_with_gradients, own, walk
from eagerjit.compiler.ir import Graph, Node, ancestors
from eagerjit.compiler.matching import matches
from eagerjit.compiler.partition import gradient_trace, saved_values, with_siblings
from eagerjit.compiler.passes.dead import may_raise
from eagerjit.compiler.signature import Fresh, TensorLeaf, Trace
from eagerjit.recording.given_memory import leaves_given
from eagerjit.recording.trace import Tracer
from eagerjit.runtime.connections import KnownGradients
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak
from eagerjit.watching.slots import Places

Again = Callable[["Backward", Sequence[Any]], AbstractContextManager[tuple[Tracer, list[Any]]]]
Compile = Callable[[], tuple[Any, Report, "Backward | None"]]
"""Makes the executable of a call, the report on it, and its gradient."""


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
    apart       leaves that require gradients and that none flows to: the call has read them detached
    end         the name and line of the last operation
    changes     what the call changes so that it cannot be made again, if there is any such thing
    written     the tensors that it writes to, whose contents do not matter for its results
    leaves      the tensors that gradients go to or that matter for them
    tensors     where a call finds them
    kept        which outputs of the executable are values kept for the gradient; `kept_nodes` what they are
    parts       gradients by the results that have them and the leaves that they are for
    complete    the key of the gradient when all results have one, for all leaves
    hidden      values inside the call that gradients of gradients reach, by (operation, result)
    twice       histories of gradients
    known       the gradients that native code finds by itself
    asked       how many questions the call and its gradient ask
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
    changes: str = ""
    written: Places = field(default_factory=Places)
    apart: frozenset[Hashable] = frozenset()
    leaves: list[int] = field(default_factory=list)
    tensors: Places = field(default_factory=Places)
    kept: list[int] = field(default_factory=list)
    kept_nodes: list[Node] = field(default_factory=list)
    parts: dict[tuple[tuple[int, ...], tuple[Hashable, ...]], Part] = field(default_factory=dict)
    complete: tuple[tuple[int, ...], tuple[Hashable, ...]] = ((), ())
    hidden: dict[tuple[int, int], int] = field(default_factory=dict)
    twice: dict[Any, Any] = field(default_factory=dict)
    known: KnownGradients = field(default_factory=KnownGradients)
    asked: int = 0

    def describe(self) -> None:
        """Tell native code how many values inside the call gradients reach, and whether results depend on others."""
        self.known.describe(len(self.hidden), bool(self.inner))
        for twice in self.twice.values():
            twice.known.describe(len(self.hidden), False)

    def ends(self, visit: Visit, freed: Numbers) -> bool:
        """Whether nothing of the call is left to walk where these operations were freed."""
        return visit.results <= freed and all(number in freed for number, _ in self.hidden)

    @property
    def executable(self) -> Cut:
        """The gradient when all results have one."""
        return self.parts[self.complete].plain

    @property
    def report(self) -> Report:
        """What compiling that gradient produced."""
        return self.executable.report

    def record(self, arguments: Sequence[Any]) -> AbstractContextManager[tuple[Tracer, list[Any]]]:
        """A second recording of a call: within it, its tracer and its results."""
        return self.again(self, arguments)


def root_positions(results: Sequence[Any]) -> list[int]:
    """Which results have gradients."""
    return [
        i
        for i, r in enumerate(results)
        if isinstance(r, Tensor) and type(r._data) is Node and r._node is not None and first_freed(r._node) is None
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
    given = leaves_given(tracer)
    if any(saved.leaf in given and saved.is_read() for saved in walked.saved):
        # The plain call's gradient reads what it shows by then, which may be other memory once more.
        raise TraceBreak("a tensor was given other memory, and a gradient reads it", tracer.begins)
    joint = _Joint(
        describe(tracer, n_arguments, [*results, *walked.gradients, *walked.totals], **conditions),
        len(results),
        walked.summary(),
        _places(tracer, n_arguments),
        given,
        frozenset(targets),
    )
    made = [results[i] for i in roots]
    inner, all_of_it = _inner(tracer, made), operations(tracer, made)
    visit = visit_of(all_of_it, made, made, all_of_it, targets, list(targets))
    last = max((results[i]._node for i in roots), key=lambda node: node.sequence)
    end = last.op.name, last.source
    backward = Backward(tracer.name, roots, joint.where, recorded, answers, conditions, again, rerun, inner, end)
    backward.apart, backward.asked = _apart(tracer, made, targets), len(tracer.questions)
    return partial(_compile_both, joint, tracer.objects, backward, visit)


def _compile_alone(trace: Trace, objects: list[Any]) -> tuple[Any, Report, None]:
    return *executable_of(trace, trace.graph, objects, pending=True), None


def _compile_both(
    joint: _Joint, objects: list[Any], backward: Backward, visit: Visit
) -> tuple[Any, Report, Backward]:
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
    computed = with_siblings(trace.graph, ancestors([*given, *numbers, *_unused_checks(trace.graph)]))
    bindings = joint.bindings()
    written = {leaf for leaf, _ in trace.writes}
    changed = written | joint.given
    kept = saved_values(computed, nodes, {n for n, b in bindings.items() if b.leaf in changed})
    measured = [trace.questions[position].node for position in trace.measured().values()]
    kept += [node for node in measured if node not in (*kept, *bindings)]
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
    backward.written = Places(joint.where[leaf] for leaf in written)
    if not changed.isdisjoint(reached):
        backward.changes = "tensors that its results depend on"
    backward.leaves = list(dict.fromkeys([*joint.summary.targets, *reached]))  # type: ignore[list-item]  # keys are leaves
    backward.tensors = Places(joint.where[leaf] for leaf in backward.leaves)
    backward.kept = list(range(joint.n_results, joint.n_results + len(kept)))
    backward.kept_nodes = kept
    part = joint.part(received, nodes, kept, list(range(len(kept))))
    part.visit = visit
    wanted = tuple(leaf for leaf in backward.leaves if leaf in joint.differentiated and leaf not in backward.apart)
    backward.complete = tuple(range(len(backward.roots))), wanted
    backward.parts[backward.complete] = part
    backward.describe()
    return executable, report, backward


def _inner(tracer: Tracer, roots: list[Tensor]) -> tuple[int, ...]:
    """The roots on which others depend."""
    if len(roots) == 1:
        return ()
    used = {walk_graph.key_of(t) for node in operations(tracer, roots) for t in walk_graph.edges_of(node)}
    return tuple(i for i, r in enumerate(roots) if walk_graph.key_of(r) in used)


def _apart(tracer: Tracer, roots: list[Tensor], targets: dict[Hashable, Tensor]) -> frozenset[Hashable]:
    """The targets that no operation of the plain call has on its way to a root."""
    used = {walk_graph.key_of(t) for node in operations(tracer, roots) for t in walk_graph.edges_of(node)}
    used |= {walk_graph.key_of(t) for t in roots}
    before = {k: t for k, t in targets.items() if t._node is None or t._node.sequence < tracer.first_sequence}
    return frozenset(key for key, t in before.items() if walk_graph.key_of(t) not in used)


def compile_part(
    backward: Backward, tracer: Tracer, results: list[Any], walked: Walk, more: Sequence[Node] = ()
) -> Part:
    """The gradient recorded by a walk, cut out of a second recording of a call that was compiled before.

    It is given what the call has kept, and `more`.
    """
    joint = _joint_again(backward, tracer, results, [*walked.gradients, *walked.totals], walked)
    nodes, received = joint.simplify()
    found = matches([*backward.kept_nodes, *more], [*joint.trace.graph.inputs, *joint.trace.graph.nodes])
    return joint.part(received, nodes, list(found.values()), list(found))


def compile_keeping(
    backward: Backward, tracer: Tracer, results: list[Any], gradients: list[Tensor], walked: Walk, given: int,
    alone: bool,
) -> tuple[Cut, list[Node]] | None:  # fmt: skip
    """Gradients recorded after their call that give, besides, what their own gradient needs and is dear.

    None where there is nothing of the kind, unless they are wanted `alone` too. They take the first `given` of the
    gradients to come.
    """
    joint = _joint_again(backward, tracer, results, [*map(own, gradients), *walked.gradients], walked)
    nodes, received = joint.simplify()
    graph, count = joint.trace.graph, len(gradients)
    found = matches(backward.kept_nodes, [*graph.inputs, *graph.nodes])
    kept = saved_values(ancestors(nodes[:count]), nodes[count:], set(), set(found.values()))
    if not (kept or alone) or joint.trace.writes or joint.trace.questions:
        return None
    on_host = joint.on_host[:count] + [False] * len(kept)
    bindings, wanted = joint.bindings(), [*nodes[:count], *kept]
    cut = gradient_trace(joint.trace, received[:given], list(found.values()), wanted, bindings, on_host)
    if any(leaf not in joint.where for leaf in cut.numbers):
        return None
    return Cut(cut, list(found), joint.where), kept


def _joint_again(
    backward: Backward, tracer: Tracer, results: list[Any], gradients: list[Tensor], walked: Walk
) -> _Joint:
    """A second recording of a call with gradients; other tensors may lie now where the call found these."""
    n_arguments = len(tracer.arguments or ())
    trace = describe(tracer, n_arguments, [*results, *gradients], **backward.conditions)
    return _Joint(trace, len(results), walked.summary(), _places(tracer, n_arguments) | backward.where,
                  leaves_given(tracer))  # fmt: skip


@dataclass
class _Joint:
    """A recorded call with gradients: its trace, how many of its results are the call's, and what the rest are.

    given           the leaves that show other memory when the call has ended
    differentiated  the leaves that require a gradient
    on_host         which of the gradients lie on the host, once `simplify` has run
    """

    trace: Trace
    n_results: int
    summary: Summary
    where: dict[int, Any]
    given: frozenset[int]
    differentiated: frozenset[Hashable] = frozenset()
    on_host: list[bool] = field(default_factory=list)

    def simplify(self) -> tuple[list[Node], list[Node]]:
        """Run the passes: the nodes of the gradients and of the totals, and the gradients to come."""
        simplified(self.trace)
        outputs = [o for o in self.trace.outputs[self.n_results :] if isinstance(o, Fresh)]
        nodes, self.on_host = [o.node for o in outputs], [o.on_host for o in outputs]
        return nodes, [n for n in self.trace.graph.inputs if "cotangent" in n.attributes]

    def bindings(self) -> dict[Node, TensorLeaf]:
        """The tensors among the leaves, by their nodes."""
        return {b.node: b for b in self.trace.bindings if isinstance(b, TensorLeaf)}

    def part(self, received: list[Node], nodes: list[Node], kept: list[Node], positions: list[int]) -> Part:
        """The gradients, cut out as programs of their own that are given `kept`, values of the call."""
        trace, summary, bindings = self.trace, self.summary, self.bindings()
        changed = {leaf for leaf, _ in trace.writes} | self.given
        count, begun = len(summary.targets), len(received) - len(summary.repeated)
        starts = dict(zip(summary.repeated, received[begun:], strict=True))

        def cut(summed: tuple[Hashable, ...]) -> Cut:
            chosen = [count + i if key in summed else i for i, key in enumerate(summary.targets)]
            wanted, on_host = [nodes[i] for i in chosen], [self.on_host[i] for i in chosen]
            taken = [*received[:begun], *(starts[key] for key in summed)]
            found = gradient_trace(trace, taken, kept, wanted, bindings, on_host)
            if changed & set(found.read) or any(i not in self.where for i in found.numbers):
                raise RuntimeError(f"{trace.graph.name}: this gradient needs values that the call has overwritten")
            return Cut(found, positions, self.where)

        return Part(summary.targets, summary.repeated, cut(()), cut, summary.saved, late=summary.late)


def _unused_checks(graph: Graph) -> list[Node]:
    """What the function computes for nothing but the error that it may end in."""
    used = {i for n in graph.nodes for i in n.inputs} | set(graph.results())
    found = [n for n in graph.nodes if n not in used and may_raise(n)]
    return [n for n in found if not any("cotangent" in i.attributes for i in ancestors([n]))]


def _places(tracer: Tracer, n_arguments: int) -> dict[int, Any]:
    """Where a call finds its leaves: among its arguments, or as tensors from outside."""
    out: dict[int, Any] = {i: i for i in range(n_arguments)}
    return out | {leaf: t for t, leaf in tracer.outside() if leaf >= n_arguments} | tracer.slots
