"""Gradients of parts of one tensor, added where they belong.

The gradient of a slice is zeros with what came in at its place. Those of several slices are added up, and each is as
large as the tensor. So where slices lie beside each other and the first one's memory is the walk's own, the others are
added to the zeros there, with the bits of the sum: that adds zero to all other elements, which changes -0.0 alone, and
of this there is none but in the first slice, and no more once zero has been added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.autograd.accumulation import borrowed
from eagerjit.autograd.node import GradNode
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Tensor, new_tensor

FEW = 4096
"""Elements of a tensor up to which sums are as quick."""


@record
class Sum:
    """What slices from `start` to `stop` along a dimension have been added to; the first while it is the only one."""

    total: Tensor
    dim: int
    start: int
    stop: int
    first: GradNode | None


class Placed:
    """The sums of one walk that began with a slice's gradient, by their keys."""

    def __init__(self) -> None:
        self.found: dict[Any, Sum] = {}

    def begin(self, key: Any, node: GradNode, total: Tensor) -> None:
        """Note the gradient of a slice, which nothing has been added to."""
        data = total._data
        own = type(total) is Tensor and type(data) is np.ndarray and data.size > FEW and not borrowed(total)
        if own and total.dtype.is_floating_point and total.dtype.itemsize > 1:
            self.found[key] = Sum(total, *_span(node), node)

    def add(self, key: Any, node: GradNode, total: Tensor | None, grad: Tensor) -> bool:
        """Add what has reached a slice to the sum for its base; whether that could be done here."""
        known = self.found.get(key)
        if known is None or known.total is not total or type(grad) is not Tensor or grad.dtype is not total.dtype:
            return False
        dim, start, stop = _span(node)
        if dim != known.dim or (start < known.stop and stop > known.start):
            return False
        if known.first is not None:
            _shown(total, known.first).add_(0.0)
            known.first = None
        _shown(total, node).add_(grad)
        known.start, known.stop = min(known.start, start), max(known.stop, stop)
        return True


def _span(node: GradNode) -> tuple[int, int, int]:
    """The dimension that a recorded slice cuts, and from where to where."""
    assert node.inputs is not None
    return node.op.span(*node.inputs[1:])


def _shown(base: Tensor, node: GradNode) -> Tensor:
    """What a recorded slice shows of another tensor than its own."""
    assert node.inputs is not None
    return new_tensor(node.op.view_eager(base._data, *node.inputs[1:]))
