"""Values of a call that is being recorded, for Python code that asks for them.

What a question needs is compiled for any sizes of what it begins with, or where that takes more to be known of them for
those of this call, and run. Whatever the function still holds of that is kept with the answer, so that a loop whose
every round asks (an adaptive step, a search, an iteration until convergence) computes each round once, and rounds that
do the same share one program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.compiled.compilation import executable_of
from eagerjit.compiled.stored import program_key
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node, TensorType
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.signature import Binding, FloatLeaf, Fresh, IntLeaf, Output, TensorLeaf, Trace
from eagerjit.compiler.unify import Replacements, renewed, symbols_in
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
    held = {n.base for n in tracer.held()}
    nodes = [n for n in tracer.nodes if n in used]
    results = [n for n in nodes if n is node or (n in held and "literal" not in n.op.traits)]
    values: dict[Node, Any] = known | _given(tracer, known.keys())
    begins = list(dict.fromkeys(i for user in nodes for i in user.inputs if i not in used))
    leaves = tuple(values[n] for n in begins)
    hints: Replacements = dict(tracer.assumptions.hints)
    any_, counts = _symbols_of(begins, nodes, tracer.assumptions)
    try:
        executable = _executable(tracer, _trace(tracer, begins, leaves, nodes, results, hints | any_, counts))
        leaves += tuple(counts.values())
    except KeyError:  # a size had to be known
        executable = _executable(tracer, _trace(tracer, begins, leaves, nodes, results, hints, {}))
    found = executable.run(leaves)
    if found is execute.MISS:
        raise RuntimeError("the value of a traced tensor could not be computed for this call")
    kept = {n: x for n, x in tracer.answered.items() if n in held or x.numel() == 1}
    tracer.answered = kept | dict(zip(results, found if len(results) > 1 else (found,), strict=True))


def _symbols_of(
    begins: Sequence[Node], nodes: Sequence[Node], assumptions: sizes.Assumptions
) -> tuple[Replacements, dict[str, int]]:
    """New symbols for sizes of 2 and more: those by which inputs are known, and counts, which are given beside.

    One for equal ones; what is made of these follows.
    """
    made: Replacements = {}
    counts: dict[str, int] = {}
    for size in (sizes.simplified(d) for n in begins for d in n.shape):
        if sizes.is_symbol(size) and sizes.evaluate(size, assumptions.hints) > 1:
            made.setdefault(str(size), sizes.symbol(f"s{len(made)}"))
    used = {s for n in nodes for s in symbols_in((n.shape, tuple(n.attributes.values())))}
    for name in sorted(used, key=sizes.order):
        for other in sorted(sizes.symbols(assumptions.facts.get(name, sizes.symbol(name))) - made.keys()):
            if assumptions.hints[other] > 1:
                made[other] = sizes.symbol(f"s{len(made)}")
                counts[str(made[other])] = assumptions.hints[other]
    told = {k: fact for k, fact in assumptions.facts.items() if sizes.symbols(fact) <= made.keys()}
    return made | {name: sizes.substitute(fact, made) for name, fact in told.items()}, counts


def _trace(
    tracer: Tracer, begins: Sequence[Node], leaves: Sequence[Any], nodes: Sequence[Node], results: Sequence[Node],
    fixed: Replacements, counts: dict[str, int],
) -> Trace:  # fmt: skip
    """The computation of results from values that are known, and counts after them, with these sizes."""
    new: dict[Node, Node] = {}
    bindings: list[Binding] = []
    for leaf, (n, value) in enumerate(zip(begins, leaves, strict=True)):
        new[n], binding = _input(n, leaf, value, fixed)
        bindings.append(binding)
    bindings += [IntLeaf(leaf, sizes.symbol(name)) for leaf, name in enumerate(counts, len(leaves))]
    for n in nodes:
        new[n] = renewed(n, new, fixed)
    inputs, n_leaves = [new[n] for n in begins], len(leaves) + len(counts)
    graph = Graph(f"{tracer.name}_question", inputs, [new[n] for n in nodes], [new[n] for n in results])
    outputs: list[Output] = [Fresh(new[n], False, tracer.is_on_host(n)) for n in results]
    return Trace(graph, n_leaves, n_leaves, bindings, outputs, [], {}, device=tracer.device)


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


def _input(node: Node, leaf: int, value: Any, fixed: Replacements) -> tuple[Node, Binding]:
    """An input for a value that is known, and how it is bound."""
    shape = tuple(sizes.substitute(d, fixed) for d in node.shape)
    type_ = TensorType(node.dtype, shape)
    if isinstance(value, float):
        made = Node(elementwise.argument, (), {"leaf": leaf, "number": True}, type_)
        return made, FloatLeaf(leaf, made)
    strides = None
    if node.op.family == "argument" and node.attributes["strides"] is not None:
        strides = tuple(sizes.substitute(s, fixed) for s in node.attributes["strides"])
    made = Node(elementwise.argument, (), {"leaf": leaf, "strides": strides}, type_)
    place = value._data.memory.device.index if isinstance(value._data, DeviceArray) else HOST
    return made, TensorLeaf(leaf, made, strides, 2, place)
