"""`f.verify(*args)`: the recorded graph run operation by operation beside the compiled kernels, and by NumPy.

Three computations of every value are compared: the compiled graph, in which kernels are fused; a program for each
operation alone, as eager calls run it; and the NumPy reference on the same operands. The first two agree bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from eagerjit.compiled.compilation import executable_of
from eagerjit.compiled.variants import Variant
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.signature import Fresh, Load, TensorLeaf, Trace
from eagerjit.compiler.unify import unify
from eagerjit.runtime.execute import MISS
from eagerjit.runtime.program import Op
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Tensor, new_tensor
from eagerjit.watching.observation import TraceBreak

REFERENCE_ULPS = 64.0
"""How far a kernel may be from NumPy, in units of the last place of the largest value among operands and result."""


@record(frozen=True)
class Divergence:
    """One operation whose results differ: which computations, the user's line, and by how much at the worst element."""

    between: str
    operation: str
    source: str
    ulps: float
    position: tuple[int, ...]
    found: Any
    expected: Any

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return (
            f"{self.between}: {self.operation}{where} gives {self.found} instead of {self.expected} at "
            f"{list(self.position)}, {self.ulps:g} ULPs apart"
        )


@record
class Verification:
    """What `verify` found: divergences in the order of the operations, and how far each operation is from NumPy."""

    name: str
    operations: int = 0
    divergences: list[Divergence] = field(default_factory=list)
    reference_ulps: dict[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing diverged."""
        return not self.divergences

    @property
    def first(self) -> Divergence | None:
        """The first operation that diverged."""
        return self.divergences[0] if self.divergences else None

    def __str__(self) -> str:
        head = f"{self.name}: {self.operations} operations"
        if self.ok:
            worst = max(self.reference_ulps.items(), key=lambda item: item[1], default=("nothing", 0.0))
            return f"{head}, all bit for bit those of single calls; farthest from NumPy: {worst[0]}, {worst[1]:g} ULPs"
        rest = f"\n  and {len(self.divergences) - 1} more" if len(self.divergences) > 1 else ""
        return f"{head}, first divergence:\n  {self.first}{rest}"


def verified(name: str, recording: Any, structure: Any, leaves: list[Any]) -> Verification:
    """Check a call, which is recorded for it; RuntimeError where that cannot be done."""
    try:
        variant = recording.record(structure, leaves)
    except TraceBreak as problem:
        raise RuntimeError(f"{name} cannot be compiled: {problem}") from problem
    variant.begin()
    return verify(name, variant, variant.given(leaves))


def verify(name: str, variant: Variant, arguments: Sequence[Any]) -> Verification:
    """Check one recorded call on its arguments; nothing that the function writes is written."""
    report = variant.report
    traced = report.traced
    graph, _ = unify(traced, {symbol: value for symbol, value in report.trace.hints.items()})
    leaves = _leaves(report.trace, report.objects, arguments)
    arrays = [_input(node, leaves) for node in graph.inputs]
    found = Verification(name, len(graph.nodes))
    single: dict[Node, np.ndarray] = dict(zip(graph.inputs, arrays, strict=True))
    fast = report.trace.fastmath
    exposed = [n for n in graph.nodes if n.op.family != "view"]
    fused = dict(zip(exposed, _run(graph, exposed, arrays, fast), strict=True))
    for node in graph.nodes:
        operands = [single[i] for i in node.inputs]
        with np.errstate(all="ignore"):
            reference = node.op.reference(*operands, **node.attributes)
        if node.op.family == "view":
            single[node] = reference
            continue
        reference = np.ascontiguousarray(reference).reshape(np.shape(reference))
        single[node] = _alone(node, operands)
        _compare_reference(found, node, operands, single[node], reference)
        _compare(found, "fused with others, against alone", node, fused[node], single[node])
    results = graph.results()
    for node, value in zip(results, _run(graph, results, arrays, fast), strict=True):
        _compare(found, "compiled, against operations alone", node, value, single[node])
    if not report.trace.writes and not report.trace.gradients:
        _compare_call(found, variant, arguments, graph, single)
    return found


def _leaves(trace: Trace, objects: list[Any], arguments: Sequence[Any]) -> list[Any]:
    """The values of all leaves, loaded as the compiled call loads them."""
    leaves: list[Any] = [*arguments, *[None] * (trace.n_leaves - len(arguments))]
    for b in trace.bindings:
        match b:
            case Load(leaf, Op.LOAD_OBJECT, (index,)):
                leaves[leaf] = objects[index]
            case Load(leaf, Op.LOAD_ITEM, (container, index)):
                leaves[leaf] = leaves[container][objects[index]]
            case Load(leaf, Op.LOAD_CELL, (index,)):
                leaves[leaf] = objects[index].cell_contents
            case Load(leaf, Op.LOAD_ATTRIBUTE, (owner, index)):
                leaves[leaf] = getattr(leaves[owner], objects[index])
            case Load(leaf, Op.LOAD_GRAD, (owner,)):
                leaves[leaf] = leaves[owner]._grad
    return leaves


def _input(node: Node, leaves: list[Any]) -> np.ndarray:
    """The array for an input of the graph; a gradient to come is a pattern without zeros."""
    if "cotangent" in node.attributes:
        shape = tuple(map(int, node.shape))  # type: ignore[arg-type]
        return (1.0 + np.arange(math.prod(shape)) % 7 / 8).astype(node.dtype.numpy).reshape(shape)
    value = leaves[node.attributes["leaf"]]
    array = value._data if isinstance(value, Tensor) else np.asarray(value)
    return np.array(array, node.dtype.numpy, order="C")


def _run(graph: Graph, results: list[Node], arrays: list[np.ndarray], fastmath: bool = False) -> list[np.ndarray]:
    """These nodes of a graph without symbols, compiled with its passes and kernels."""
    if not results:
        return []
    new: dict[Node, Node] = {}
    for leaf, (node, array) in enumerate(zip(graph.inputs, arrays, strict=True)):
        strides = None if array.flags.c_contiguous else tuple(s // array.itemsize for s in array.strides)
        new[node] = Node(elementwise.argument, (), {"leaf": leaf, "strides": strides}, node.type, node.source)
    inputs = list(new.values())
    for node in graph.nodes:
        new[node] = Node(node.op, tuple(new[i] for i in node.inputs), node.attributes, node.type, node.source)
    outputs = [new[n] for n in results]
    copied = Graph(graph.name, inputs, [new[n] for n in graph.nodes], outputs)
    bindings = [TensorLeaf(leaf, node, node.attributes["strides"]) for leaf, node in enumerate(inputs)]
    count = len(inputs)
    trace = Trace(copied, count, count, list(bindings), [Fresh(n) for n in outputs], [], {}, fastmath=fastmath)
    executable, _ = executable_of(trace, copied, [], pending=True)
    found = executable.run(tuple(new_tensor(a) for a in arrays))
    if found is MISS:
        raise RuntimeError(f"the program for {graph.name} does not take the values that it was made for")
    return [t._data for t in (found if isinstance(found, tuple) else (found,))]


def _alone(node: Node, operands: list[np.ndarray]) -> np.ndarray:
    """One operation by a program of its own, on operands that lie in memory as they do in the graph."""
    unique = list(dict.fromkeys(node.inputs))
    inputs = {n: Node(elementwise.argument, (), {}, n.type, n.source) for n in unique}
    values = dict(zip(node.inputs, operands, strict=True))
    one = Node(node.op, tuple(inputs[i] for i in node.inputs), node.attributes, node.type, node.source)
    return _run(Graph(node.op.name, list(inputs.values()), [one], [one]), [one], [values[n] for n in unique])[0]


def _compare(found: Verification, between: str, node: Node, value: np.ndarray, expected: np.ndarray) -> None:
    """Note a difference in any bit; NaNs are alike."""
    value, expected = np.asarray(value), np.asarray(expected)
    same = np.asarray((value == expected) | ((value != value) & (expected != expected)))
    if value.dtype.kind == "f":
        same = same & ((np.signbit(value) == np.signbit(expected)) | (value != value))
    if same.all():
        return
    distances = np.where(same, 0.0, np.maximum(_ulps(value, expected), 1e-9))
    position = tuple(map(int, np.unravel_index(int(distances.argmax()), distances.shape)))
    ulps = float(np.round(distances[position], 3))
    divergence = Divergence(between, node.op.name, node.source, ulps, position, value[position], expected[position])
    found.divergences.append(divergence)


def _compare_reference(
    found: Verification, node: Node, operands: list[np.ndarray], value: np.ndarray, reference: np.ndarray
) -> None:
    """Note how far a kernel is from NumPy; a divergence where rounding alone cannot explain it."""
    if node.dtype.kind != "float":
        if not np.array_equal(value, reference):
            _compare(found, "compiled alone, against NumPy", node, value, reference)
        return
    distances = _ulps(value, reference)
    name = node.op.name
    found.reference_ulps[name] = max(found.reference_ulps.get(name, 0.0), float(distances.max(initial=0.0)))
    wide = [np.abs(np.asarray(a, np.float64)) for a in (reference, *operands) if np.asarray(a).dtype.kind != "b"]
    scale = max((float(a[np.isfinite(a)].max(initial=0.0)) for a in wide), default=0.0)
    counts = [np.size(a) for a in operands] or [1]
    allowed = REFERENCE_ULPS * _epsilon(value) * max(scale, 1.0) * max(1.0, max(counts) / max(1, value.size))
    with np.errstate(all="ignore"):
        apart = np.abs(value.astype(np.float64) - reference.astype(np.float64))
    finite = np.isfinite(value.astype(np.float64)) & np.isfinite(reference.astype(np.float64))
    if (np.where(finite, apart, 0.0) > allowed).any():
        _compare(found, "compiled alone, against NumPy", node, value, reference)


def _epsilon(value: np.ndarray) -> float:
    """The distance from 1 to the next number of a floating dtype."""
    one = np.ones((), value.dtype)
    bits = one.view(f"i{value.dtype.itemsize}") + 1
    return float(np.float64(bits.view(value.dtype)) - 1.0)


def _ulps(value: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The distance in units of the last place of the expected number; infinite where one is not finite."""
    with np.errstate(all="ignore"):
        a, b = value.astype(np.float64), expected.astype(np.float64)
        if value.dtype.kind in "biu":
            return np.abs(a - b)
        _, exponent = np.frexp(b)
        unit = np.ldexp(_epsilon(value), np.maximum(exponent - 1, np.where(b == 0, -120, exponent - 1)))
        distance = np.abs(a - b) / unit
    alike = (a == b) | ((a != a) & (b != b))
    return np.asarray(np.where(alike, 0.0, np.where(np.isfinite(distance), distance, np.inf)))


def _compare_call(
    found: Verification, variant: Variant, arguments: Sequence[Any], graph: Graph, single: dict[Node, np.ndarray]
) -> None:
    """The compiled call itself, and its gradient, against operations alone."""
    flat = variant.executable.run(tuple(arguments))
    if flat is MISS:
        raise RuntimeError(f"{found.name}: the compiled call does not take the arguments that it was recorded with")
    flat = flat if isinstance(flat, tuple) else (flat,)
    outputs = variant.report.trace.outputs
    fresh = [i for i, o in enumerate(outputs) if isinstance(o, Fresh)]
    backward = variant.backward
    kept = set(backward.kept) if backward is not None else set()
    given = [i for i in fresh if i not in kept]
    for index, node in zip(given, graph.outputs, strict=False):
        _compare(found, "the call, against operations alone", node, flat[index]._data, single[node])
    if backward is None:
        return
    cotangents = [new_tensor(single[n]) for n in graph.inputs if "cotangent" in n.attributes][: len(backward.roots)]
    grads = backward.executable.run(cotangents, [flat[i] for i in backward.kept], arguments)
    if grads is MISS:
        raise RuntimeError(f"{found.name}: the compiled gradient does not take the values of its own call")
    for node, grad in zip(graph.outputs[len(given) :], grads, strict=False):
        _compare(found, "the gradient, against operations alone", node, grad._data, single[node])
