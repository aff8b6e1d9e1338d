"""Gradients of parts of one tensor, added where they belong.

The gradient of a slice is zeros with what came in at its place. Those of several slices are added up, and each is as
large as the tensor; so is what a slice that was written leaves of the gradient that came in. So where the memory of the
first one is the walk's own, the others are added there, with the bits of the sum: that adds zero to all other elements,
which changes -0.0 alone, and of this there is none once zero has been added, nor in what that leaves.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from eagerjit.autograd.accumulation import borrowed
from eagerjit.autograd.node import GradNode
from eagerjit.runtime.native.agreed import PART_SHOWN
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Tensor, new_tensor

FEW = 4096
"""Elements of a tensor up to which sums are as quick."""


@record
class Sum:
    """What gradients of parts are added to, and the part of it where -0.0 may be; None: nowhere."""

    total: weakref.ref[Tensor]
    signed: Callable[[Tensor], Tensor] | None


class Placed:
    """The sums of one walk that began with the gradient of a part or of the rest, by their keys."""

    def __init__(self) -> None:
        self.found: dict[Any, Sum] = {}

    def begin(self, key: Any, node: GradNode, total: Tensor, grad: Tensor) -> None:
        """Note the gradient that a node made of one that came in, which nothing has been added to."""
        before = self.found.pop(node, None)
        data = total._data
        own = type(total) is Tensor and type(data) is np.ndarray and data.size > FEW and not borrowed(total)
        if own and total.dtype.is_floating_point and total.dtype.itemsize > 1:
            unsigned = before is not None and before.signed is None and before.total() is grad
            self.found[key] = Sum(weakref.ref(total), None if unsigned else _signed(node))

    def add(self, key: Any, node: GradNode, total: Tensor | None, grad: Tensor) -> bool:
        """Add what has reached a slice to the sum for its base; whether that could be done here."""
        known = self.found.get(key)
        if known is None or total is None or known.total() is not total:
            return False
        if type(grad) is not Tensor or grad.dtype is not total.dtype:
            return False
        part = _shown(node, total)
        if known.signed is None:
            part.add_(grad)
            return True
        found = part + grad
        known.signed(total).add_(0.0)
        known.signed = None
        part.copy_(found)
        return True


def _signed(node: GradNode) -> Callable[[Tensor], Tensor]:
    """The part of a gradient that a node made where -0.0 may be."""
    return partial(_shown, node) if node.op.parts == PART_SHOWN else lambda total: total


def _shown(node: GradNode, base: Tensor) -> Tensor:
    """What a recorded slice shows of another tensor than its own."""
    assert node.inputs is not None
    return new_tensor(node.op.view_eager(base._data, *node.inputs[1:]))
