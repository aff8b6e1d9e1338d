"""Forward mode: tangents pushed along the tape, from the tensors that a function started from to its results.

The tangent of an operation is the transpose of its gradient: the gradient is linear in what comes in, so the engine
differentiates it with respect to that. One set of rules serves both directions, and the incoming gradient itself is
dead code that never runs. A Function with a `jvp` of its own says itself what its tangents are.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from eagerjit.autograd import engine, walk_graph
from eagerjit.autograd.expansion import current, expand_checkpoints
from eagerjit.autograd.function import NO_TANGENTS, Function, FunctionOp
from eagerjit.autograd.node import GradNode
from eagerjit.autograd.stale import check_versions
from eagerjit.calling.dispatch import Op
from eagerjit.runtime import mode
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor


class TangentOp(Op):
    """(*tangents of the arguments flagged in `needs`, *outputs, *arguments) -> tangents of an op's real outputs."""

    differentiable, fused_rules, rules = True, True, None

    def __init__(self, op: Op, needs: tuple[bool, ...], n_outputs: int):
        self.name, self.symbolic = f"{op.name}_tangent", op.symbolic
        self.op, self.needs, self.n_outputs = op, needs, n_outputs
        first = sum(needs) + n_outputs
        self.parameters = tuple(f"p{i}" for i in range(first + len(needs)))
        self.defaults = (inspect.Parameter.empty,) * len(self.parameters)
        self.numbers = frozenset(i + first for i in op.numbers)
        self.shapes = frozenset(i + first for i in op.shapes)
        self.programs, self.gradients = {}, {}
        self.entries = []

    def body(self, *values: Any) -> Any:
        """Transpose the op's gradient."""
        count = sum(self.needs)
        gradient = self.op.gradient_body(self.needs, self.n_outputs)
        tangents, rest = values[:count], values[count:]
        recording = mode.grad_mode()
        if not recording:
            rest = tuple(_plain(v) for v in rest)
        outputs, arguments = rest[: self.n_outputs], rest[self.n_outputs :]
        before = mode.set_grad_mode(True)
        try:
            probes = [*map(_probe, outputs)]
            found = gradient(*probes, *outputs, *arguments)
            grads = [g for g, needed in zip(found, self.needs, strict=True) if needed]
            results = transpose(grads, tangents, probes, recording)
        finally:
            mode.set_grad_mode(before)
        return results[0] if len(results) == 1 else tuple(results)


def _probe(output: Tensor) -> Tensor:
    """A stand-in for a result, that gradients of gradients go to: in a recording one that is seen to be made in it."""
    if not output.dtype.is_differentiable:
        return output
    probe = output.detach().requires_grad_()
    return probe if state.tracer is None else probe.view_as(probe)


def transpose(grads: Sequence[Any], tangents: Sequence[Any], probes: Sequence[Any], create_graph: bool) -> list[Tensor]:
    """Tangents of the real outputs, given gradients that depend on the probes linearly."""
    connected = [(g, t) for g, t in zip(grads, tangents, strict=True) if isinstance(g, Tensor) and g._requires_grad]
    targets = [p for p in probes if p.dtype.is_differentiable]
    starts = [t if t.dtype is g.dtype else t.to(g.dtype) for g, t in connected]
    found = engine.run([g for g, _ in connected], starts, targets, create_graph, create_graph)
    return [p.detach().new_zeros(p.shape) if f is None else f for p, f in zip(targets, found, strict=True)]


def _plain(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) and value._requires_grad else value


_tangent_ops: WeakKeyDictionary[Op, dict[Any, TangentOp]] = WeakKeyDictionary()


def push(outputs: Sequence[Tensor], leaves: Sequence[tuple[Tensor, Tensor]], create_graph: bool) -> list[Tensor | None]:
    """The tangents of `outputs`, given those of the leaves; None where an output does not depend on them."""
    roots = [o for o in outputs if o._requires_grad]
    tangents: dict[Any, Tensor] = {walk_graph.key_of(leaf): tangent for leaf, tangent in leaves}
    nodes, stale, several = walk_graph.collect(roots, set(tangents), True)
    while create_graph and expand_checkpoints(nodes):
        nodes, stale, several = walk_graph.collect(roots, set(tangents), True)
    outputs = [current(o) for o in outputs]
    nodes = walk_graph.relevant(nodes, set(tangents))
    before = mode.set_grad_mode(create_graph)
    try:
        for node, edges in reversed(nodes.items()):
            if node in stale:
                needs = tuple([e is not None for e in edges])
                node.op.check(node, node.outputs(), needs) if node in several else check_versions(node, edges)
            _push_node(node, edges, tangents, create_graph)
    finally:
        mode.set_grad_mode(before)
    return [tangents.get(walk_graph.key_of(o)) if o._requires_grad else None for o in outputs]


def _push_node(node: GradNode, edges: list[Any], tangents: dict[Any, Tensor], create_graph: bool) -> None:
    """Add the tangents of a node's outputs."""
    known = [_of_edge(e, tangents) for e in edges]
    if not any(k is not None for k in known):
        return
    results = _tangents(node, known, create_graph)
    if type(node.output) is not tuple:
        tangents[node] = results[0]
        return
    real = [i for i, o in enumerate(node.outputs()) if o.dtype.is_differentiable]
    for index, result in zip(real, results, strict=True):
        tangents[node, index] = result


def _of_edge(edge: Any, tangents: dict[Any, Tensor]) -> Any:
    if isinstance(edge, list):
        found = [_of_edge(e, tangents) for e in edge]
        return found if any(f is not None for f in found) else None
    return None if edge is None else tangents.get(walk_graph.key_of(edge))


def _tangents(node: GradNode, known: list[Any], create_graph: bool) -> list[Tensor]:
    """Tangents of a node's real outputs."""
    op, inputs = node.op, node.inputs
    assert inputs is not None
    if getattr(op, "linear", False):
        if op.name == "view":  # whose strides may allow what the tangent's do not
            known = [None if k is None else k.contiguous() for k in known]
        filled = [
            _filled(k, x) if isinstance(x, (Tensor, list, tuple)) else x for k, x in zip(known, inputs, strict=True)
        ]
        return [op(*filled) if callable(op) else op.run(tuple(filled))]
    needs = tuple(k is not None for k in known)
    given = tuple(k for k in known if k is not None)
    if isinstance(op, FunctionOp) and op.function.jvp is not Function.jvp:
        return op.push(node, known)
    if not isinstance(op, Op):
        return _foreign(node, needs, given, create_graph)
    n_outputs = node.n_outputs
    made = _tangent_ops.setdefault(op, {})
    tangent_op = made.get((needs, n_outputs))
    if tangent_op is None:
        tangent_op = made[needs, n_outputs] = TangentOp(op, needs, n_outputs)
    result = tangent_op.run((*given, *node.outputs(), *inputs))
    return list(result) if isinstance(result, tuple) else [result]


def _filled(tangent: Any, value: Any) -> Any:
    """A linear op's argument replaced by its tangent: zeros where there is none."""
    if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
        parts = tangent if tangent is not None else [None] * len(value)
        return [_filled(t, v) for t, v in zip(parts, value, strict=True)]
    if not isinstance(value, Tensor):
        return value
    return value.detach().new_zeros(value.shape) if tangent is None else tangent


def _foreign(node: GradNode, needs: tuple[bool, ...], given: tuple[Any, ...], create_graph: bool) -> list[Tensor]:
    """Tangents of what no trace can hold: a compiled call, a custom function, an operation of NumPy's."""
    before = mode.set_grad_mode(True)
    try:
        probes = [*map(_probe, node.outputs())]
        found = node.op.backward(node, tuple(probes), needs, True)
        grads = [g for g, needed in zip(found, needs, strict=True) if needed]
        if isinstance(node.op, FunctionOp) and any(isinstance(g, Tensor) and not g._requires_grad for g in grads):
            raise NotImplementedError(NO_TANGENTS)  # NumPy's gradients depend on nothing
        return transpose(grads, given, probes, create_graph)
    finally:
        mode.set_grad_mode(before)


def depends_on_others(tensors: Sequence[Any], private: set[int]) -> bool:
    """Whether gradients flow from here to any tensor but the private starting points of a transform."""
    seen: set[GradNode] = set()
    stack = [t for t in tensors if isinstance(t, Tensor) and t._requires_grad]
    while stack:
        tensor = stack.pop()
        node = tensor._node
        if node is None:
            if id(tensor) not in private:
                return True
        elif node not in seen:
            seen.add(node)
            for x in node.inputs or ():
                for t in x if isinstance(x, (list, tuple)) else (x,):
                    if isinstance(t, Tensor) and t._requires_grad:
                        stack.append(t)
    return False
