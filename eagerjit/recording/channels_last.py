"""Channels last: the order in memory (batch, points, channels) of a tensor of (batch, channels, points).

A tensor lies so where PyTorch takes it to from its strides (`suggest_memory_format`), which need not leave out gaps.
Strides along dimensions of one element tell nothing here, since no recording keeps them: what lies in row-major order
too, as one channel does, or channels of a single point, is row-major.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import is_contiguous, layout
from eagerjit.recording.memory_order import Exprs, Order, copied, laid_out
from eagerjit.state import state
from eagerjit.tensors.limits import format_named
from eagerjit.tensors.tensor import Tensor

FORMATS = {"channels_last": 4, "channels_last_3d": 5}
"""How many dimensions a tensor of each of these memory formats has."""
RANKS = (4, 5)
"""How many dimensions tensors have that ops ask for their memory format, but for some that ask those of lines too."""


def last_order(rank: int) -> Order:
    """The dimensions in the order of memory, channels last."""
    return (0, *range(2, rank), 1)


def lies_last(tensor: Tensor, ranks: Sequence[int] = RANKS) -> bool:
    """Whether a tensor is taken to lie with channels last."""
    if tensor.ndim not in ranks:
        return False
    if state.tracer is not None:
        return node_lies_last(laid_out(state.tracer, tensor), ranks)
    return array_lies_last(tensor._data, ranks)


def array_lies_last(array: Any, ranks: Sequence[int] = RANKS) -> bool:
    """The same of an array."""
    return array.ndim in ranks and not array.flags.c_contiguous and _are_last(array.shape, array.strides)


def node_lies_last(node: Node, ranks: Sequence[int] = RANKS) -> bool:
    """The same of a value of a recording."""
    shape = node.type.shape
    return len(shape) in ranks and not is_contiguous(node) and _are_last(shape, layout(node).strides)


def _are_last(shape: Exprs, strides: Exprs) -> bool:
    """Whether no steps are shorter than all that lies between them: along channels, then from the last point on."""
    if 0 in shape or shape[1] == 1 or all(n == 1 for n in shape[2:]):
        return False
    reach: sizes.Expr = 1  # less than any step in bytes, and at most one in elements
    for dim in reversed(last_order(len(shape))):
        if shape[dim] == 1:
            continue
        if sizes.less(strides[dim], reach):
            return False
        reach = sizes.mul(strides[dim], shape[dim])
    return True


def put_last(tracer: Any, made: Any, ranks: Sequence[int] = RANKS) -> Any:
    """What an op's body has made, copied so that it lies with channels last where it has channels."""
    if isinstance(made, tuple):
        return tuple([put_last(tracer, part, ranks) for part in made])
    if made.ndim not in ranks:
        return made
    return tracer.wrap(copied(tracer, tracer.value(made), last_order(made.ndim)))


def in_format_of(made: Any, tensors: Sequence[Any], ranks: Sequence[int] = RANKS) -> Any:
    """A tensor, with channels last if one of others lies so, and only then; what is none is given back."""
    if not isinstance(made, Tensor) or made.ndim not in ranks:
        return made
    wanted = any(isinstance(x, Tensor) and lies_last(x, ranks) for x in tensors)
    if lies_last(made, ranks) is wanted:
        return made
    if not wanted:
        return made.contiguous()
    if made.ndim == 3:  # which no memory format is for
        return made.transpose(1, 2).contiguous().transpose(1, 2)
    formats = {rank: name for name, rank in FORMATS.items()}
    return made.clone(memory_format=format_named(formats[made.ndim]))
