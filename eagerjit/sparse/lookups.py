"""Rows of a table, and elements of a tensor, whose gradient is a sparse tensor: of what was read."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.autograd.node import GradNode, record
from eagerjit.ops.index import stack
from eagerjit.ops.views import dimension
from eagerjit.sparse.pattern import Coordinates
from eagerjit.sparse.tensor import made
from eagerjit.state import state
from eagerjit.tensors.creation import arange
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line


class _Lookup:
    """The op that the tape's node refers to."""

    name, rules = "embedding", ()

    def backward(self, node: GradNode, grads: tuple[Any, ...], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """The gradient of the table: the gradients of the rows read, in their order, equal ones not added up."""
        weight, input, padding_idx = node.inputs  # type: ignore[misc]
        numbers, rows = input.detach().reshape(-1).long(), grads[0].reshape((-1, weight.shape[1]))
        if padding_idx is not None:
            kept = (numbers != padding_idx).nonzero().squeeze(1)
            numbers, rows = numbers[kept], rows[kept]
        pattern = Coordinates(numbers.unsqueeze(0), (int(weight.shape[0]),), False)
        return made(pattern, rows), None, None


_lookup = _Lookup()


class _Gathering:
    """The op that the tape's node refers to."""

    name, rules = "gather", ()

    def backward(self, node: GradNode, grads: tuple[Any, ...], needs: tuple[bool, ...], create_graph: bool) -> Any:
        """The gradient of the tensor: those of the elements read, in their order, equal places not added up."""
        input, dim, index = node.inputs  # type: ignore[misc]
        read, places = index.detach().reshape(-1).long(), []
        for axis, size in enumerate(index.shape if input.ndim else ()):
            along = arange(size, device=index.device).reshape(-1, *(1,) * (index.ndim - axis - 1))
            places.append(read if axis == dim else along.expand(index.shape).reshape(-1))
        where = stack(places) if places else read.new_empty((0, read.shape[0]))
        return made(Coordinates(where, tuple(map(int, input.shape)), False), grads[0].reshape(-1)), None, None


_gathering = _Gathering()


def looked_up(
    op: Any, weight: Tensor, input: Tensor, padding_idx: int | None, by_frequency: bool, error: str
) -> Tensor:
    """What an op reads of a table that is a leaf. Raises RuntimeError for gradients divided by frequency."""
    if by_frequency:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    if state.tracer is not None:
        raise TraceBreak("the gradient of an embedding with sparse=True is a sparse tensor", user_line())
    with no_grad():
        rows = op.call(weight, input, padding_idx, False, error)
    record(_lookup, (weight, input.clone(), padding_idx), rows)
    return rows


def gathered(op: Any, input: Tensor, dim: int, index: Tensor) -> Tensor:
    """What an op reads of a leaf at an index along a dimension."""
    if state.tracer is not None:
        raise TraceBreak("the gradient of gather with sparse_grad=True is a sparse tensor", user_line())
    with no_grad():
        found: Tensor = op.call(input, dim, index)
    record(_gathering, (input, dimension(dim, input.ndim), index.clone()), found)
    return found
