"""A model's call as a graph of primitives, which remembers the library's ops that they came from."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from eagerjit import pytree
from eagerjit.autograd.modes import no_grad
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node, ancestors
from eagerjit.compiler.ops import elementwise
from eagerjit.nn.module import Module
from eagerjit.recording.numbers import SymbolicInt, expression
from eagerjit.recording.trace import Tracer
from eagerjit.runtime.records import record
from eagerjit.tensors.creation import from_numpy
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak

Axes = dict[int, str]
"""Names of the dimensions whose sizes differ from call to call, by dimension."""


@record
class Recorded:
    """What was recorded.

    inputs      one per tensor of the call
    outputs     nodes of the results, in order
    held        other tensors that were read, by the node
    calls       ops by the node of a result: (the op's name, its arguments with nodes for tensors, the result's number)
    known       sizes that are the same in every call, by symbol
    varying     (the input's number, its dimension, the name) of the others, by symbol
    """

    inputs: list[Node]
    outputs: list[Node]
    held: dict[Node, Tensor]
    calls: dict[Node, tuple[str, tuple[Any, ...], int]]
    known: dict[str, int]
    varying: dict[str, tuple[int, int, str]]


class _Tracer(Tracer):
    """Records values on types, as `torch.jit.trace` does: control flow is that of the call."""

    def __init__(self, name: str):
        super().__init__(name)
        self.calls: dict[Node, tuple[str, tuple[Any, ...], int]] = {}
        self.read: dict[Node, Tensor] = {}

    def capture(self, tensor: Tensor) -> Node:
        """Note whose values a node has that the model reads besides its arguments."""
        node = super().capture(tensor)
        self.read.setdefault(node, tensor)
        return node

    def result_of(self, op: Any, arguments: tuple[Any, ...]) -> Any:
        """Note the op by its results."""
        given = self._as_nodes(arguments)
        result = super().result_of(op, arguments)
        for number, tensor in enumerate(result if isinstance(result, tuple) else (result,)):
            node = self.value(tensor) if isinstance(tensor, Tensor) else None
            if node is not None and node.op is not elementwise.argument and node not in nodes_in(given):
                self.calls[node] = op.name, given, number
        return result

    def _as_nodes(self, arguments: Any) -> Any:
        if isinstance(arguments, Tensor):
            return self.value(arguments)
        if isinstance(arguments, SymbolicInt):
            return expression(arguments)
        return tuple(map(self._as_nodes, arguments)) if type(arguments) is tuple else arguments


def nodes_in(arguments: tuple[Any, ...]) -> Iterator[Node]:
    """The nodes among an op's arguments."""
    for argument in arguments:
        if isinstance(argument, Node):
            yield argument
        elif type(argument) is tuple:
            yield from nodes_in(argument)


def _example(tensor: Tensor, axes: Axes, times: int) -> Tensor:
    """A contiguous tensor like the given one, whose varying sizes are so many times as large, and not 0 or 1.

    Sizes 0 and 1 would count as known.
    """
    array = tensor.detach().numpy()
    for dim in axes:
        count = array.shape[dim]
        repeated = np.arange(max(count, 2) * times) % max(count, 1)
        array = array.take(repeated, dim) if count else np.zeros(_with(array.shape, dim, 2 * times), array.dtype)
    return from_numpy(np.array(array, order="C"))


def _with(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return (*shape[:dim], size, *shape[dim + 1 :])


def recorded(model: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], axes: Sequence[Axes]) -> Recorded:
    """Record a call; `axes` are those of its tensors, in order. RuntimeError where it cannot be recorded.

    Where sizes differ from call to call a second recording of larger tensors tells whether the graph serves them too.
    """
    tracer, found = _recorded(model, args, kwargs, axes, 1)
    if any(axes):
        try:
            same = _text(tracer, found) == _text(*_recorded(model, args, kwargs, axes, 2))
        except Exception as error:  # whatever the model raises for other sizes
            warnings.warn(f"torch.onnx.export: twice the sizes could not be tried: {error}", stacklevel=4)
        else:
            if not same:
                _warn(tracer, found)
    return found


def _recorded(
    model: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], axes: Sequence[Axes], times: int
) -> tuple[_Tracer, Recorded]:
    leaves: list[Any] = []
    structure = pytree.flatten((tuple(args), kwargs), leaves)
    named_axes = iter(axes)
    stand_ins = [_example(x, next(named_axes), times) if isinstance(x, Tensor) else x for x in leaves]
    tracer = _Tracer(getattr(model, "__name__", type(model).__name__))
    with _unchanged(model), tracer, no_grad():
        tensors = [x for x in stand_ins if isinstance(x, Tensor)]
        nodes = [tracer.tensor_leaf(x, tracer.new_leaf(), symbolic=True) for x in tensors]
        positional, named = pytree.unflatten(structure, stand_ins)
        outputs = [tracer.value(x) for x in _results(tracer.name, model, positional, named)]
    known, varying = _sizes(tracer, nodes, axes)
    return tracer, Recorded(nodes, outputs, tracer.read, tracer.calls, known, varying)


def _text(tracer: _Tracer, found: Recorded) -> str:
    """The graph of what the results are computed from."""
    needed = ancestors(found.outputs)
    inputs, nodes = ([n for n in some if n in needed] for some in (tracer.inputs, tracer.nodes))
    return str(Graph("", inputs, nodes, found.outputs))


@contextmanager
def _unchanged(model: Any) -> Iterator[None]:
    """Modules have what they had before: what a recording assigns to them is of no use elsewhere."""
    modules = list(model.modules()) if isinstance(model, Module) else []
    tables = [table for m in modules for table in (vars(m), *vars(m).values()) if isinstance(table, dict)]
    before = [(table, dict(table)) for table in tables]
    try:
        yield
    finally:
        for table, items in before:
            for key in [k for k in table if k not in items]:
                del table[key]
            for key, value in items.items():
                if key not in table or table[key] is not value:
                    table[key] = value


def _results(name: str, model: Callable[..., Any], args: Any, kwargs: Any) -> list[Tensor]:
    try:
        found = model(*args, **kwargs)
    except TraceBreak as problem:
        raise RuntimeError(
            f"torch.onnx.export: {name} cannot be written as one graph: {problem.reason} ({problem.source})"
        ) from None
    leaves: list[Any] = []
    pytree.flatten(found, leaves)
    wrong = next((x for x in leaves if not isinstance(x, Tensor) and x is not None), None)
    if wrong is not None:
        raise RuntimeError(f"torch.onnx.export: {name} returns a {type(wrong).__name__}, not tensors alone")
    return [x for x in leaves if x is not None]


def _sizes(tracer: _Tracer, nodes: list[Node], axes: Sequence[Axes]) -> tuple[dict[str, int], dict[str, Any]]:
    known = dict(tracer.assumptions.hints)
    varying = {}
    for number, (node, named) in enumerate(zip(nodes, axes, strict=True)):
        for dim, name in named.items():
            symbol = str(node.shape[dim])
            if symbol in known:
                varying[symbol] = number, dim, name
    return {symbol: size for symbol, size in known.items() if symbol not in varying}, varying


def _warn(tracer: _Tracer, found: Recorded) -> None:
    """Say what the graph takes for granted of sizes that differ from call to call."""
    names = {symbol: sizes.symbol(name) for symbol, (_, _, name) in found.varying.items()}
    guards = [guard.replaced({**found.known, **names}) for guard in tracer.assumptions.guards]
    relied = [str(guard) for guard in guards if not guard.is_certain()]
    warnings.warn(
        "torch.onnx.export: larger tensors make another graph, so that the exported one may be right only where "
        f"{' and '.join(relied) or 'sizes are those of the example'}",
        stacklevel=5,
    )
