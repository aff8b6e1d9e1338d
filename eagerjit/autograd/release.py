"""What a walk leaves of the nodes that it has gone through. One that has saved no values can be walked again, as in
PyTorch: `X = cat([x, t], 1)` may be made once, outside of a training loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from eagerjit.autograd.expansion import current
from eagerjit.autograd.node import GradNode, any_requires_grad, edge
from eagerjit.autograd.walk_graph import flat
from eagerjit.compiler.ir import Node
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor, new_tensor

_SEQUENCES = (tuple, list)
_ZERO = np.zeros(16, np.uint8)  # as wide as the widest dtype


def release(nodes: dict[GradNode, list[Any]], several: set[GradNode], untouched: set[GradNode]) -> None:
    """Drop the values of the nodes of a walk, and the nodes that cannot be walked again as a whole.

    `nodes` are ordered from the last executed to the first; `several` stand for several operations each, no gradient
    has reached the `untouched`.
    """
    gone: set[GradNode] = set()
    for node, edges in reversed(nodes.items()):
        if node in untouched:
            continue
        if node in several:
            if not node.op.release(node, gone):
                continue
        elif lasts(node, gone, edges):
            if state.tracer is None:
                lighten(node)
            continue
        gone.add(node)
        node.inputs = node.output = None


def lasts(node: GradNode, gone: Collection[GradNode], edges: Sequence[Any] | None = None) -> bool:
    """Whether a node saves no values and its gradients, by the edges given, flow to none of the nodes that are gone."""
    saved, inputs = getattr(node.op, "saved_by", None), node.inputs
    if saved is None or inputs is None:
        return False
    for x, read in zip(inputs, saved, strict=False):
        if read and any_requires_grad((x,)) and any(p is None or _holds_tensors(inputs[p]) for p in read):
            return False
    if not gone or all(map(_is_light, inputs)):
        return True
    return all(t._node not in gone for t in (sources(inputs, node) if edges is None else flat(edges)))


def sources(values: Sequence[Any], node: GradNode) -> Iterator[Tensor]:
    """The tensors that gradients flow to among these inputs of a node."""
    for x in values:
        if isinstance(x, Tensor):
            if (found := _source(x, node)) is not None:
                yield found
        elif isinstance(x, _SEQUENCES):
            yield from sources(x, node)


def _source(tensor: Tensor, node: GradNode) -> Tensor | None:
    return edge(current(tensor), node) if tensor._requires_grad else None


def _holds_tensors(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, _SEQUENCES) and any(map(_holds_tensors, value)))


def lighten(node: GradNode) -> None:
    """Put shapes in the place of a node's values; leaves stay what they are."""
    inputs, output = node.inputs or (), node.output
    if not all(_is_light(x) for x in inputs):
        node.inputs = tuple([_light(x, node) for x in inputs])
    node.output = tuple(map(hollow, output)) if type(output) is tuple else hollow(output)
    node.versions = node.overwritten = None


def _is_light(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value._node is None and value._requires_grad
    return type(value) not in _SEQUENCES or all(map(_is_light, value))


def _light(value: Any, node: GradNode) -> Any:
    if type(value) in _SEQUENCES:
        return type(value)(_light(x, node) for x in value)
    if _is_light(value):
        return value
    source = _source(value, node)
    if source is None:
        return new_tensor(hollow(value._data))
    return source if source._node is None else without_value(source)


def without_value(tensor: Tensor) -> Tensor:
    """A tensor with another one's history and none of its memory."""
    made = new_tensor(hollow(tensor._data))
    made._node, made._index, made._requires_grad = tensor._node, tensor._index, tensor._requires_grad
    return made


def hollow(data: np.ndarray) -> np.ndarray:
    """An array of a shape and dtype, on the same device, that holds next to nothing."""
    if type(data) is np.ndarray:
        return np.ndarray(data.shape, data.dtype, _ZERO, strides=(0,) * data.ndim)
    found: np.ndarray = new_tensor(data).new_zeros(()).expand(data.shape)._data
    return found


def first_freed(node: GradNode) -> GradNode | None:
    """The first that a walk from a node of a trace would meet of those whose values an earlier walk has freed."""
    waiting, seen = [node], {id(node)}
    freed: list[GradNode] = []
    while waiting:
        current = waiting.pop()
        if current.inputs is None:
            freed.append(current)
            continue
        for x in current.inputs:
            for tensor in x if type(x) in (tuple, list) else (x,):
                # What comes from outside of the trace is not walked with it.
                if isinstance(tensor, Tensor) and type(tensor._data) is Node and tensor._node is not None:
                    if id(tensor._node) not in seen:
                        seen.add(id(tensor._node))
                        waiting.append(tensor._node)
    return max(freed, key=lambda n: n.sequence, default=None)
