"""Compiling a recorded call: forward, and backward where gradients leave it, cut from one joint graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.autograd import engine
from eagerjit.compilation import Report, describe, executable_of, finish, simplified
from eagerjit.compiler.ir import Graph, Node, TensorType
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.partition import ancestors, gradient_trace, saved_values
from eagerjit.compiler.signature import Fresh, TensorLeaf
from eagerjit.observation import TraceBreak
from eagerjit.tensor import Tensor
from eagerjit.trace import Tracer
from eagerjit.variants import Backward, Onto


def compile_call(
    tracer: Tracer, n_arguments: int, results: list[Any], rerun: Callable[..., Any], **conditions: Any
) -> tuple[Any, Report, Backward | None]:
    """Compile a recording; where results need gradients, its gradient too. Runs inside the tracer."""
    roots = [
        i
        for i, r in enumerate(results)
        if isinstance(r, Tensor) and type(r._data) is Node and r._node is not None and r._node.inputs is not None
    ]
    if not roots:
        executable, report = finish(tracer, n_arguments, results, **conditions)
        return executable, report, None
    return _compile_joint(tracer, n_arguments, results, roots, rerun, conditions)


def _compile_joint(
    tracer: Tracer, n_arguments: int, results: list[Any], roots: list[int], rerun: Any, conditions: dict[str, Any]
) -> tuple[Any, Report, Backward]:
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
    traced = trace.graph
    simplified(trace)
    received = [n for n in trace.graph.inputs if "cotangent" in n.attributes]
    cotangents, starts = received[: len(roots)], received[len(roots) :]
    outputs, gradients = trace.outputs[: len(results)], trace.outputs[len(results) :]
    nodes = [o.node for o in gradients if isinstance(o, Fresh)]
    wanted, summed = nodes[: len(reached)], nodes[len(reached) :]
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
    executable, report = executable_of(trace, traced, tracer.objects)
    backward_trace, integers, used = gradient_trace(trace, cotangents, kept, wanted, bindings)
    compiled, backward_report = executable_of(backward_trace, backward_trace.graph, [])
    onto_trace, _, onto_used = gradient_trace(trace, [*cotangents, *starts], kept, summed, bindings)
    where = {b.leaf: b.leaf if b.leaf < n_arguments else _outside(tracer, b.leaf) for b in bindings.values()}
    target_leaves = [leaf for leaf, _ in reached]
    tensors = list(dict.fromkeys([*used, *onto_used, *target_leaves]))

    def onto() -> _Selected:
        executable, _ = executable_of(onto_trace, onto_trace.graph, [])
        return _Selected(executable, [tensors.index(leaf) for leaf in onto_used])

    backward = Backward(
        tracer.name,
        _Selected(compiled, [tensors.index(leaf) for leaf in used]),
        roots,
        list(range(len(results), len(results) + len(kept))),
        integers,
        [where[leaf] for leaf in tensors],
        [where[leaf] for leaf in target_leaves],
        backward_report,
        rerun,
        Onto([where[leaf] for leaf in repeated], onto),
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


def _outside(tracer: Tracer, leaf: int) -> Tensor:
    return next(t for t, found in tracer.outside() if found == leaf)


def _incoming(tracer: Tracer, result: Tensor) -> Tensor:
    """A gradient to come, as an input of the joint graph."""
    type_ = tracer.value(result).type
    node = Node(elementwise.argument, (), {"cotangent": True}, TensorType(type_.dtype, type_.shape))
    tracer.inputs.append(node)
    return tracer.wrap(node)
