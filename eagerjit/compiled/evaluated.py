"""Calls that are recorded and not compiled: NumPy evaluates those with floats of 8 bits and some with complex numbers,
and those on the meta device have types alone.

Gradients follow PyTorch's convention, that of the conjugate: with respect to z = x + iy it is dL/dx + i dL/dy. Rules
are written for real numbers, where they are transposed Jacobians; for a function with a complex derivative what is
wanted is the conjugate of the rule on the conjugated gradient, and so one rule serves both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.shapes import inverse
from eagerjit.recording.trace import Tracer
from eagerjit.runtime import mode
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.meta_array import meta_array
from eagerjit.runtime.source import here
from eagerjit.state import state
from eagerjit.tensors.placement import gpu, host_array, named, put, store
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Tensor, new_tensor, storage_of
from eagerjit.watching.observation import TraceBreak
from eagerjit.watching.values_asked import ValueAsked, values_refused

if TYPE_CHECKING:
    from eagerjit.calling.dispatch import Op


EVALUATED: list[Any] = []
"""Stands for the programs of calls that NumPy evaluates."""


def has_complex(arguments: Any) -> bool:
    """Whether complex numbers are among arguments, or asked for."""
    for a in arguments:
        if isinstance(a, Tensor):
            if a.dtype.kind == "complex":  # asked for every gradient that is recorded
                return True
        elif isinstance(a, complex):
            return True
        elif isinstance(a, DType):
            if a.is_complex:
                return True
        elif type(a) in (tuple, list) and has_complex(a):
            return True
    return False


def with_tensors(arguments: tuple[Any, ...], numbers: frozenset[int], steady: frozenset[int]) -> tuple[Any, ...]:
    """The arguments of an eager call with tensors for complex `numbers`, so that another value compiles nothing.

    Bodies compare those that are `steady`, which of complex ones are constants.
    """
    if not any(type(arguments[i]) is complex for i in numbers - steady):
        return arguments
    dtype = result_type(*(arguments[i] for i in numbers if arguments[i] is not None))
    return tuple(new_tensor(np.array(a, dtype.numpy)) if type(a) is complex else a for a in arguments)


class _Recorded(NamedTuple):
    """An op's body, recorded on the sizes of one call."""

    tracer: Tracer
    result: Any
    nodes: list[Node]
    writes: list[tuple[int, Node]]
    given: dict[int, Tensor]


def _recorded(op: Op, arguments: tuple[Any, ...]) -> _Recorded:
    """The op's body on these arguments; `given` are the tensors by leaf."""
    tracer = Tracer(op.name)
    tracer.values_only = tracer.evaluated = True
    tracer.source = op.name
    given: dict[int, Tensor] = {}
    with values_refused(op.name, arguments), tracer:
        before = mode.set_grad_mode(False)
        try:
            result = op.computed(tuple([_stand_in(tracer, a, given) for a in arguments]))
            results = result if isinstance(result, tuple) else (result,)
            writes = tracer.final_writes()
            given |= {leaf: x for x, leaf in tracer.outside() if leaf not in given}
            return _Recorded(tracer, result, [tracer.value(r) for r in results], writes, given)
        finally:
            mode.set_grad_mode(before)


_OF_REALS = frozenset(
    "floor ceil trunc round floordiv remainder fmod atan2 maximum minimum lt le gt ge signbit erf erfc erfinv "
    "gamma_series gamma_fraction amax amin argmax argmin search running".split()
)
"""Primitives that complex numbers have none of: NumPy compares them by their real parts first."""


def _refuse_complex(op: Op, nodes: list[Node]) -> None:
    """Refuse an op of real numbers whose arguments are complex."""
    for node in nodes:
        given = next((x.type.dtype for x in node.inputs if x.type.dtype.is_complex), None)
        if given is not None and node.op.name in _OF_REALS:
            raise NotImplementedError(f'"{op.name}" not implemented for {given}')


def evaluate(op: Op, arguments: tuple[Any, ...]) -> Any:
    """The op's result by NumPy, and what it writes written."""
    from eagerjit.compiler.evaluate import evaluate_graph  # few programs need it

    tracer, result, nodes, writes, given = _recorded(op, arguments)
    _refuse_complex(op, tracer.nodes)
    graph = Graph(op.name, tracer.inputs, tracer.nodes, [*nodes, *(node for _, node in writes)])
    arrays = evaluate_graph(graph, [host_array(given[n.attributes["leaf"]]._data) for n in tracer.inputs])
    for (leaf, _), array in zip(writes, arrays[len(nodes) :], strict=True):
        store(given[leaf]._data, array)
    made = tuple(new_tensor(_in_order(tracer, n, a)) for n, a in zip(nodes, arrays, strict=False))
    if tracer.device is not None:
        made = put(made, gpu(named(tracer.device)))
    return made if isinstance(result, tuple) else made[0]


def _in_order(tracer: Tracer, node: Node, array: np.ndarray) -> np.ndarray:
    """A result in memory of its own, in the order that the recording gives it there."""
    if node not in tracer.turned:
        return np.array(array, order="C")
    dims = node.attributes["dims"]
    return np.array(array.transpose(inverse(dims)), order="C").transpose(dims)


def _on_meta(tracer: Tracer, node: Node) -> Any:
    """The same without memory."""
    kind: Any = (node.inputs[0] if node in tracer.turned else node).type
    made = meta_array(kind.shape, kind.dtype.numpy)
    return made.transpose(node.attributes["dims"]) if node in tracer.turned else made


def without_memory(op: Op, arguments: tuple[Any, ...]) -> Any:
    """The op's result on the meta device: shapes and dtypes, as its body is recorded. What it writes has been written.

    Raises NotImplementedError where these depend on values.
    """
    try:
        tracer, result, nodes, writes, given = _recorded(op, arguments)
    except TraceBreak as broken:
        raise NotImplementedError(f"{op.name}(): tensors on meta have no values, and {broken.reason}") from None
    for leaf, _ in writes:
        storage = storage_of(given[leaf])
        storage.version, storage.source = storage.version + 1, here()
    made = tuple(new_tensor(_on_meta(tracer, n)) for n in nodes)
    return made if isinstance(result, tuple) else made[0]


def computed(op: Op, arguments: tuple[Any, ...]) -> Any:
    """The result of an eager call; who counts operations is told of it."""
    result = op.eager(arguments)
    if state.counting is not None:
        state.counting.called(op, arguments, result)
    return result


def operands(op: Op, arguments: tuple[Any, ...], name: str) -> list[tuple[tuple[int, ...], ...]]:
    """The shapes of what each primitive of this name is given in the op's body; none where its values decide."""
    try:
        recorded = _recorded(op, arguments)
    except (TraceBreak, ValueAsked):
        return []
    needed = [*recorded.nodes, *(node for _, node in recorded.writes)]
    seen = set(needed)
    for node in needed:
        new = [x for x in node.inputs if x not in seen]
        seen.update(new)
        needed += new
    return [tuple(x.type.shape for x in node.inputs) for node in needed if node.op.name == name]  # type: ignore[misc]


def _stand_in(tracer: Tracer, argument: Any, given: dict[int, Tensor]) -> Any:
    """A tensor of its own for every tensor among the arguments."""
    if isinstance(argument, Tensor):
        stand_in, leaf = new_tensor(argument._data), tracer.new_leaf()
        tracer.tensor_leaf(stand_in, leaf, symbolic=False)
        given[leaf] = argument
        return stand_in
    if type(argument) in (tuple, list):
        return type(argument)(_stand_in(tracer, a, given) for a in argument)
    return argument


def conjugated(rule: Any, g: Any, out: Any, arguments: tuple[Any, ...], **attributes: Any) -> Any:
    """A rule on gradients of complex numbers."""
    flipped = tuple(x.conj() for x in g) if isinstance(g, tuple) else g.conj()
    found = rule(flipped, out, *arguments, **attributes)
    if isinstance(found, (tuple, list)):
        return type(found)(None if x is None else x.conj() for x in found)
    return found if found is None else found.conj()
