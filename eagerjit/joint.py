"""Compiling a recorded call: forward, and backward where gradients leave it, cut from one joint graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from eagerjit.autograd import engine
from eagerjit.compilation import Report, describe, executable_of, simplified
from eagerjit.compiler.ir import Graph, Node, TensorType
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.partition import ancestors, gradient_trace, saved_values
from eagerjit.compiler.signature import Fresh, TensorLeaf, Trace
from eagerjit.observation import TraceBreak
from eagerjit.tensor import Tensor
from eagerjit.trace import Tracer
from eagerjit.variants import Backward, Onto

Compile = Callable[[], tuple[Any, Report, Backward | None]]
"""Makes the executable of a call, the report on it, and its gradient."""


def compile_call(
    tracer: Tracer, n_arguments: int, results: list[Any], rerun: Callable[..., Any], **conditions: Any
) -> Compile:
    """What compiles a recording and, where results need gradients, its gradient. Runs inside the tracer.

    What is returned runs inside the tracer too, but needs nothing more of the call: any thread may run it, once.
    """
    roots = [
        i
        for i, r in enumerate(results)
        if isinstance(r, Tensor) and type(r._data) is Node and r._node is not None and r._node.inputs is not None
    ]
    if not roots:
        return partial(_compile_alone, describe(tracer, n_arguments, results, **conditions), tracer.objects)
    return _record_gradient(tracer, n_arguments, results, roots, rerun, conditions)


def _compile_alone(trace: Trace, objects: list[Any]) -> tuple[Any, Report, None]:
    return *executable_of(trace, trace.graph, objects, pending=True), None


def _record_gradient(
    tracer: Tracer, n_arguments: int, results: list[Any], roots: list[int], rerun: Any, conditions: dict[str, Any]
) -> Compile:
    """Record the gradient too."""
    targets = [b for b in tracer.bindings if isinstance(b, TensorLeaf)]
    leaves = {b.leaf: t for t, b in _tensors(tracer, targets) if t._requires_grad}
    incoming = [_incoming(tracer, results[i]) for i in roots]
    before = tracer.source
    trail: engine.Trail = {engine.key_of(t): [] for t in leaves.values()}
    try:
        grads = engine.run([results[i] for i in roots], incoming, list(leaves.values()), True, False, trail)
    except RuntimeError as error:
        raise TraceBreak(f"it has no gradient: {error}", tracer.name) from error
    finally:
        tracer.source = before
    reached = [(leaf, g) for leaf, g in zip(leaves, grads, strict=True) if g is not None]
    uses = {leaf: trail[engine.key_of(leaves[leaf])] for leaf, _ in reached}
    repeated = [leaf for leaf, found in uses.items() if len(found) > 1]
    totals = {leaf: _total(tracer, leaves[leaf], uses[leaf]) for leaf in repeated}
    sums = [totals.get(leaf, g) for leaf, g in reached]
    gradients_ = [g.contiguous() for g in (*(g for _, g in reached), *sums)]
    trace = describe(tracer, n_arguments, [*results, *gradients_], **conditions)
    outside = {leaf: tensor for tensor, leaf in tracer.outside()}
    joint = _Joint(trace, tracer.objects, len(results), roots, [leaf for leaf, _ in reached], repeated, outside, rerun)
    return joint.compile


@dataclass
class _Joint:
    """A recorded call with its gradient.

    roots       the results that need gradients, by position
    targets     the leaves that have gradients
    repeated    those that are sums of several uses
    outside     the tensors by leaf
    """

    trace: Trace
    objects: list[Any]
    n_results: int
    roots: list[int]
    targets: list[int]
    repeated: list[int]
    outside: dict[int, Tensor]
    rerun: Callable[..., Any]

    def compile(self) -> tuple[Any, Report, Backward]:
        """Cut the joint graph in two and compile both."""
        trace, roots, n_results = self.trace, self.roots, self.n_results
        traced = trace.graph
        simplified(trace)
        received = [n for n in trace.graph.inputs if "cotangent" in n.attributes]
        cotangents, starts = received[: len(roots)], received[len(roots) :]
        outputs, gradients = trace.outputs[:n_results], trace.outputs[n_results:]
        nodes = [o.node for o in gradients if isinstance(o, Fresh)]
        wanted, summed = nodes[: len(self.targets)], nodes[len(self.targets) :]
        given = [o.node for o in outputs if isinstance(o, Fresh)] + [value for _, value in trace.writes]
        asked = [q.node for q in trace.questions]
        given += asked
        # A number of the call may be read by the gradient alone.
        forward = ancestors([*given, *(n for n in trace.graph.inputs if n.attributes.get("number"))])
        bindings = {b.node: b for b in trace.bindings if isinstance(b, TensorLeaf)}
        written = {leaf for leaf, _ in trace.writes}
        kept = saved_values(forward, nodes, {n for n, b in bindings.items() if b.leaf in written})
        kept += [q.node for q in trace.questions if q.size is not None and q.node not in (*kept, *bindings)]
        trace.graph = Graph(
            trace.graph.name,
            [n for n in trace.graph.inputs if "cotangent" not in n.attributes],
            [n for n in trace.graph.nodes if n in forward],
            [*(o.node for o in outputs if isinstance(o, Fresh)), *kept, *asked],
            trace.graph.writes,
        )
        trace.outputs = [*outputs, *(Fresh(n) for n in kept)]
        executable, report = executable_of(trace, traced, self.objects)
        backward_trace, integers, used = gradient_trace(trace, cotangents, kept, wanted, bindings)
        compiled, backward_report = executable_of(backward_trace, backward_trace.graph, [])
        onto_trace, _, onto_used = gradient_trace(trace, [*cotangents, *starts], kept, summed, bindings)
        where = {b.leaf: b.leaf if b.leaf < trace.n_arguments else self.outside[b.leaf] for b in bindings.values()}
        tensors = list(dict.fromkeys([*used, *onto_used, *self.targets]))

        def onto() -> _Selected:
            executable, _ = executable_of(onto_trace, onto_trace.graph, [])
            return _Selected(executable, [tensors.index(leaf) for leaf in onto_used])

        backward = Backward(
            trace.graph.name,
            _Selected(compiled, [tensors.index(leaf) for leaf in used]),
            roots,
            list(range(n_results, n_results + len(kept))),
            integers,
            [where[leaf] for leaf in tensors],
            [where[leaf] for leaf in self.targets],
            backward_report,
            self.rerun,
            Onto([where[leaf] for leaf in self.repeated], onto),
            trace.fastmath,
        )
        return executable, report, backward


class _Selected:
    """A gradient's executable, which reads some of the tensors of its node."""

    def __init__(self, executable: Any, positions: list[int]):
        self.executable, self.positions = executable, positions

    def run(self, values: tuple[Any, ...], tensors: tuple[Any, ...]) -> Any:
        """Run it on these values and those tensors that it reads."""
        return self.executable.run((*values, *[tensors[i] for i in self.positions]))


def _total(tracer: Tracer, target: Tensor, uses: list[Tensor]) -> Tensor:
    """The gradients of a tensor's uses added one by one to an input of the joint graph."""
    total = _incoming(tracer, target)
    for grad in uses:
        total = total + grad
    return total


def _tensors(tracer: Tracer, bindings: list[TensorLeaf]) -> list[tuple[Tensor, TensorLeaf]]:
    by_leaf = {leaf: tensor for tensor, leaf in tracer.outside()}
    return [(by_leaf[b.leaf], b) for b in bindings if b.leaf in by_leaf]


def _incoming(tracer: Tracer, result: Tensor) -> Tensor:
    """A gradient to come, as an input of the joint graph."""
    type_ = tracer.value(result).type
    node = Node(elementwise.argument, (), {"cotangent": True}, TensorType(type_.dtype, type_.shape))
    tracer.inputs.append(node)
    return tracer.wrap(node)
