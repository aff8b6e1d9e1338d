"""Values of a call that is being recorded, for Python code that asks for them.

What a question needs is compiled for the sizes of this call, and run. Whatever the function still holds of that is kept
with the answer, so that a loop whose every round asks (an adaptive step, a search, an iteration until convergence)
computes each round once, and rounds that do the same share one program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.compiled.compilation import executable_of
from eagerjit.compiled.stored import program_key
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node, TensorType
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.signature import Binding, FloatLeaf, Fresh, Output, TensorLeaf, Trace
from eagerjit.compiler.unify import Replacements, renewed
from eagerjit.runtime import execute
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.tensors.placement import HOST, host_array

if TYPE_CHECKING:
    from eagerjit.recording.trace import Tracer


def answer(tracer: Tracer, node: Node) -> np.ndarray:
    """The value that a node has in the call being recorded."""
    if node.op.family == "argument":
        found = _given(tracer, {node})[node]
        return np.asarray(found, node.dtype.numpy) if isinstance(found, float) else host_array(found._data)
    if node not in tracer.answered:
        _compute(tracer, node)
    return host_array(tracer.answered[node]._data)


def _compute(tracer: Tracer, node: Node) -> None:
    """Compute a node, and what it is made of and the call still holds."""
    used, known = _unknown(tracer, node)
    held = {_memory(n) for n in tracer.held()}
    nodes = [n for n in tracer.nodes if n in used]
    results = [n for n in nodes if n is node or (n in held and "literal" not in n.op.traits)]
    values: dict[Node, Any] = known | _given(tracer, known.keys())
    hints = tracer.assumptions.hints
    fixed: Replacements = dict(hints)
    new: dict[Node, Node] = {}
    leaves: list[Any] = []
    bindings: list[Binding] = []
    for n in dict.fromkeys(i for user in nodes for i in user.inputs if i not in used):
        new[n], binding = _input(n, len(leaves), values[n], hints)
        bindings.append(binding)
        leaves.append(values[n])
    for n in nodes:
        new[n] = renewed(n, new, fixed)
    inputs = [new[n] for n in new if n not in used]
    graph = Graph(f"{tracer.name}_question", inputs, [new[n] for n in nodes], [new[n] for n in results])
    outputs: list[Output] = [Fresh(new[n], False, tracer.is_on_host(n)) for n in results]
    trace = Trace(graph, len(leaves), len(leaves), bindings, outputs, [], {}, device=tracer.device)
    found = _executable(tracer, trace).run(tuple(leaves))
    if found is execute.MISS:
        raise RuntimeError("the value of a traced tensor could not be computed for this call")
    kept = {n: x for n, x in tracer.answered.items() if n in held or x.numel() == 1}
    tracer.answered = kept | dict(zip(results, found if len(results) > 1 else (found,), strict=True))


def _executable(tracer: Tracer, trace: Trace) -> Any:
    """What computes a question, which may have been asked of other values before."""
    key = program_key(trace)
    if key not in tracer.asking:
        tracer.asking[key] = executable_of(trace, trace.graph, list(tracer.objects), pending=True)[0]
    return tracer.asking[key]


def _unknown(tracer: Tracer, node: Node) -> tuple[set[Node], dict[Node, Any]]:
    """What has to be computed for a node; the values that this begins with, None for inputs of the call."""
    used: set[Node] = set()
    known: dict[Node, Any] = {}
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current in used or current in known:
            continue
        if current.op.family == "argument" or current in tracer.answered:
            known[current] = tracer.answered.get(current)
        else:
            used.add(current)
            waiting += current.inputs
    return used, known


def _memory(node: Node) -> Node:
    """What a view shows."""
    while node.op.family == "view":
        node = node.inputs[0]
    return node


def _given(tracer: Tracer, nodes: Any) -> dict[Node, Any]:
    """What inputs of the call were when it began: tensors and floats."""
    tensors = {leaf: tensor for tensor, leaf in tracer.outside()}
    found: dict[Node, Any] = {}
    for node in nodes:
        if "number" in node.attributes and node.op.family == "argument":
            found[node] = tracer.float_given(node)
        elif node.op.family == "argument":
            found[node] = tensors[node.attributes["leaf"]]
    return found


def _input(node: Node, leaf: int, value: Any, hints: dict[str, int]) -> tuple[Node, Binding]:
    """An input for a value that is known, and how it is bound."""
    shape = tuple(sizes.evaluate(d, hints) for d in node.shape)
    type_ = TensorType(node.dtype, shape)
    if isinstance(value, float):
        made = Node(elementwise.argument, (), {"leaf": leaf, "number": True}, type_)
        return made, FloatLeaf(leaf, made)
    strides = None
    if node.op.family == "argument" and node.attributes["strides"] is not None:
        strides = tuple(sizes.evaluate(s, hints) for s in node.attributes["strides"])
    made = Node(elementwise.argument, (), {"leaf": leaf, "strides": strides}, type_)
    place = value._data.memory.device.index if isinstance(value._data, DeviceArray) else HOST
    return made, TensorLeaf(leaf, made, strides, 2, place)
