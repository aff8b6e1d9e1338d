"""A model's call as a graph of primitives, which remembers the library's ops that they came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from eagerjit import pytree
from eagerjit.autograd.modes import no_grad
from eagerjit.calling.dispatch import OPS
from eagerjit.compiler.ir import Graph, Node, ancestors
from eagerjit.compiler.ops import elementwise
from eagerjit.compiler.sizes import Guard, Size
from eagerjit.nn.module import Module
from eagerjit.pytree import Structure
from eagerjit.recording.numbers import SymbolicInt, expression
from eagerjit.recording.trace import Tracer
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.records import record
from eagerjit.tensors.creation import from_numpy
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak

Axes = dict[int, str]
"""Names of the dimensions whose sizes differ from call to call, by dimension."""


class Call(NamedTuple):
    """The op that a node is a result of: its arguments, with nodes for tensors, and which of several results it is.

    `number` is None for the only one.
    """

    op: str
    arguments: tuple[Any, ...]
    number: int | None


@record
class Recorded:
    """What was recorded.

    inputs      one per tensor of the call
    structure   of what it returned; `leaves` has nodes for tensors, and sizes for numbers that come from sizes
    writes      tensors that it wrote, and what they hold afterwards
    nodes       everything that was computed, in order
    held        other tensors that were read, by the node
    calls       ops by the node of a result
    guards      what was taken for granted of sizes, but for what ops did, which find out again when they are called
    known       sizes that are the same in every call, by symbol
    varying     (the input's number, its dimension, the name) of the others, by symbol
    """

    inputs: list[Node]
    structure: Structure
    leaves: list[Any]
    writes: list[tuple[Tensor, Node]]
    nodes: list[Node]
    held: dict[Node, Tensor]
    calls: dict[Node, Call]
    guards: list[Guard]
    known: dict[str, int]
    varying: dict[str, tuple[int, int, str]]

    @property
    def outputs(self) -> list[Node]:
        """The nodes of the tensors that were returned, in order."""
        return [leaf for leaf in self.leaves if isinstance(leaf, Node)]

    def text(self) -> str:
        """The graph of what the results are computed from."""
        needed = ancestors(self.outputs)
        inputs, nodes = ([n for n in some if n in needed] for some in ((*self.inputs, *self.held), self.nodes))
        return str(Graph("", inputs, nodes, self.outputs))


class _Tracer(Tracer):
    """Records values on types, as `torch.jit.trace` does: control flow is that of the call."""

    def __init__(self, name: str):
        super().__init__(name)
        self.calls: dict[Node, Call] = {}
        self.read: dict[Node, Tensor] = {}

    def capture(self, tensor: Tensor) -> Node:
        """Note whose values a node has that the model reads besides its arguments."""
        node = super().capture(tensor)
        self.read.setdefault(node, tensor)
        return node

    def result_of(self, op: Any, arguments: tuple[Any, ...]) -> Any:
        """Note the op by its results."""
        given, writes = self._as_nodes(arguments), sum(self._writes.values())
        before, self.assumptions.guards = self.assumptions.guards, {}
        try:
            result = super().result_of(op, arguments)
        finally:
            asked, self.assumptions.guards = self.assumptions.guards, before
        named: Any = OPS.get(op.name)
        if sum(self._writes.values()) > writes or not _is_plain(given) or named is not op:
            before.update(asked)  # called again it would write again, as draws do to the state of their generator
            return result
        several = isinstance(result, tuple)
        for number, tensor in enumerate(result if several else (result,)):
            node = self.value(tensor) if isinstance(tensor, Tensor) else None
            if node is not None and node.op is not elementwise.argument and node not in nodes_in(given):
                self.calls[node] = Call(op.name, given, number if several else None)
        return result

    def _as_nodes(self, arguments: Any) -> Any:
        if isinstance(arguments, Tensor):
            return self.value(arguments)
        if isinstance(arguments, SymbolicInt):
            return expression(arguments)
        return tuple(map(self._as_nodes, arguments)) if type(arguments) is tuple else arguments


_PLAIN = (bool, int, float, complex, str, type(None), DType, Node, Size)


def _is_plain(arguments: Any) -> bool:
    """Whether arguments say all that there is to know of a call."""
    if type(arguments) is tuple:
        return all(map(_is_plain, arguments))
    return type(arguments) in _PLAIN


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


def recorded(
    asked: str, model: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], axes: Sequence[Axes],
    times: int = 1,
) -> Recorded:  # fmt: skip
    """Record a call; `axes` are those of its tensors, in order. RuntimeError, naming what was asked for, where it
    cannot be recorded. Sizes that vary may be so many times as large as those given.
    """
    leaves: list[Any] = []
    structure = pytree.flatten((tuple(args), kwargs), leaves)
    named_axes = iter(axes)
    stand_ins = [_example(x, next(named_axes), times) if isinstance(x, Tensor) else x for x in leaves]
    tracer = _Tracer(getattr(model, "__name__", type(model).__name__))
    with _unchanged(model), tracer, no_grad():
        tensors = [x for x in stand_ins if isinstance(x, Tensor)]
        nodes = [tracer.tensor_leaf(x, tracer.new_leaf(), symbolic=True) for x in tensors]
        positional, named = pytree.unflatten(structure, stand_ins)
        try:
            found = model(*positional, **named)
        except TraceBreak as problem:
            raise RuntimeError(
                f"{asked}: {tracer.name} cannot be written as one graph: {problem.reason} ({problem.source})"
            ) from None
        results: list[Any] = []
        shape = pytree.flatten(found, results)
        results = [tracer.value(x) if isinstance(x, Tensor) else _as_size(x) for x in results]
        writes = [(tensor, tracer.value(tensor)) for tensor in tracer.written.values()]
    known, varying = _sizes(tracer, nodes, axes)
    guards = list(tracer.assumptions.guards)
    return Recorded(
        nodes, shape, results, writes, tracer.nodes, tracer.read, tracer.calls, guards, known, varying
    )


def _as_size(value: Any) -> Any:
    return expression(value) if isinstance(value, SymbolicInt) else value


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


def _sizes(tracer: _Tracer, nodes: list[Node], axes: Sequence[Axes]) -> tuple[dict[str, int], dict[str, Any]]:
    known = dict(tracer.assumptions.hints)
    varying = {}
    for number, (node, named) in enumerate(zip(nodes, axes, strict=True)):
        for dim, name in named.items():
            symbol = str(node.shape[dim])
            if symbol in known:
                varying[symbol] = number, dim, name
    return {symbol: size for symbol, size in known.items() if symbol not in varying}, varying
