"""Graphs run as operations."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

from eagerjit.calling.dispatch import OPS, Op, emit
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.ops.host import NONE, NUMBER, TENSOR, host
from eagerjit.compiler.sizes import Size
from eagerjit.compiler.text import graph_key
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime.host import FUNCTIONS
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor


def evaluate(graph: Graph, arguments: tuple[Tensor, ...]) -> list[Tensor]:
    """Record a graph's operations in the present trace; the results are its outputs."""
    tracer = state.tracer
    assert tracer is not None
    values: dict[Node, Tensor] = dict(zip(graph.inputs, arguments, strict=True))
    called: dict[Any, Any] = {}
    source = tracer.source
    try:
        for node in graph.nodes:
            tracer.source = node.source
            inputs = [values[n] for n in node.inputs]
            if node.op is host:
                values[node] = _called(node, inputs, called)
            else:
                values[node] = emit(node.op, *inputs, **node.attributes)
    finally:
        tracer.source = source
    return [values[n] for n in graph.outputs]


def _called(node: Node, inputs: list[Tensor], called: dict[Any, Any]) -> Tensor:
    """A result of a Python function's call, made once for all its results, by the op that has its gradient."""
    name, arguments = node.attributes["function"], node.attributes["arguments"]
    key = node.inputs, name, arguments
    if key not in called:
        called[key] = call_by_name(name, arguments, inputs)
    results = called[key]
    return results[node.attributes["result"]] if isinstance(results, tuple) else results


def call_by_name(name: str, arguments: tuple[Any, ...], inputs: Sequence[Tensor]) -> Any:
    """The results of a Python function that graphs call, on the tape."""
    function: Any = FUNCTIONS[name]
    if hasattr(function, "replayed"):
        return function.replayed(arguments[len(inputs) :], inputs)
    given = iter(inputs)
    return OPS[name].run(tuple([_argument(a, given) for a in arguments]))


def _argument(entry: Any, inputs: Iterator[Tensor]) -> Any:
    """What an op was called with, from what the graph holds."""
    if isinstance(entry, tuple):
        return tuple([_argument(e, inputs) for e in entry])
    if isinstance(entry, Size):
        return SymbolicInt(entry)
    if not isinstance(entry, str):
        return entry
    if entry == TENSOR:
        return next(inputs)
    if entry == NUMBER:
        assert state.tracer is not None
        return TracedFloat(state.tracer.value(next(inputs)), None)
    return None if entry == NONE else entry[1:]


class GraphOp(Op):
    """A graph as an operation: (*inputs) -> outputs. None of its outputs is an input. Its sizes are in the graph."""

    differentiable, rules, symbolic = False, None, False

    def __init__(self, graph: Graph):
        self.name, self.graph = graph.name, graph
        self.parameters = tuple(f"p{i}" for i in range(len(graph.inputs)))
        self.defaults = (inspect.Parameter.empty,) * len(self.parameters)
        self.numbers = self.shapes = frozenset()
        self.programs, self.gradients = {}, {}
        self.entries = []

    def body(self, *arguments: Tensor) -> Any:
        """Run the graph; results have memory of their own, in order."""
        found = zip(self.graph.outputs, evaluate(self.graph, arguments), strict=True)
        results = [r.clone() if node.op.family == "view" else r for node, r in found]
        return results[0] if len(results) == 1 else tuple(results)


_known: OrderedDict[str, GraphOp] = OrderedDict()
_LIMIT = 256


def run_graph(graph: Graph, arguments: list[Tensor]) -> list[Tensor]:
    """The outputs of a graph as one operation, compiled once where it runs eagerly."""
    values: dict[Node, Tensor] = dict(zip(graph.inputs, arguments, strict=True))
    computed = [n for n in dict.fromkeys(graph.outputs) if n not in values]
    if computed:
        result = _op(Graph(graph.name, graph.inputs, graph.nodes, computed)).run(tuple(arguments))
        values.update(zip(computed, result if isinstance(result, tuple) else (result,), strict=True))
    return [values[n] for n in graph.outputs]


def _op(graph: Graph) -> GraphOp:
    if state.tracer is not None:
        return GraphOp(graph)
    key = graph_key(graph)
    op = _known.pop(key, None) or GraphOp(graph)
    _known[key] = op
    if len(_known) > _LIMIT:
        _known.popitem(last=False)
    return op
