"""What a compiled call looks at before it asks the world anything: all that the recording has found, but answers.

A call that finds something else may never come to the questions of this version: nothing must be drawn or taken for it.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from eagerjit.compiled.compilation import executable_of
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph
from eagerjit.compiler.signature import Binding, FloatLeaf, IntLeaf, Load, SameGuard, TensorLeaf, Trace
from eagerjit.recording.trace import Tracer
from eagerjit.runtime.program import Op
from eagerjit.runtime.records import replace
from eagerjit.state import set_tracer


def beginning(tracer: Tracer, places: Set[int], grad_mode: Any) -> Any:
    """The program that looks at it. `places` are the ids of the objects in which compiled code finds answers."""
    bindings = _before_answers(tracer, places)
    told = {s for b in bindings for s in _sizes_told(b)}
    guards = [g for g in tracer.assumptions.guards if (sizes.symbols(g.a) | sizes.symbols(g.b)) <= told]
    inputs = [b.node for b in bindings if isinstance(b, (TensorLeaf, FloatLeaf))]
    graph = Graph(f"{tracer.name}_beginning", inputs, [], [])
    n_arguments, hints = len(tracer.arguments or ()), dict(tracer.assumptions.hints)
    trace = Trace(graph, n_arguments, tracer.n_leaves, bindings, [], guards, hints, grad_mode, device=tracer.device)
    before = set_tracer(None)
    try:
        return executable_of(trace, graph, list(tracer.objects), pending=True)[0]
    finally:
        set_tracer(before)


def _before_answers(tracer: Tracer, places: Set[int]) -> list[Binding]:
    """The bindings of leaves that are no answers or results of NumPy's, and are not found in these."""
    late, kept = {tracer.host.leaf}, list[Binding]()
    for b in tracer.bindings:
        if isinstance(b, Load):
            of_object = b.op in (Op.LOAD_OBJECT, Op.LOAD_CELL)
            found_late = id(tracer.objects[b.operands[0]]) in places if of_object else b.operands[0] in late
            late |= {b.leaf} if found_late else set()
        if b.leaf not in late and not (isinstance(b, SameGuard) and b.other in late):
            kept.append(replace(b))
    return kept


def _sizes_told(binding: Binding) -> frozenset[str]:
    """The symbols of the sizes that a leaf tells."""
    if isinstance(binding, IntLeaf):
        return sizes.symbols(binding.size)
    if not isinstance(binding, TensorLeaf):
        return frozenset()
    return frozenset().union(*map(sizes.symbols, (*binding.node.type.shape, *(binding.strides or ()))))
