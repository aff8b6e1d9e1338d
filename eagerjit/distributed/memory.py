"""A tensor's elements as a flat ndarray that can be sent, or received into."""

from __future__ import annotations

import numpy as np

from eagerjit.ops.index import concrete
from eagerjit.tensors.tensor import Tensor, new_tensor

REASON = "processes exchanged tensors"


def of(tensor: Tensor) -> np.ndarray:
    """A flat ndarray of a tensor's elements: its memory where that is in order and the CPU's, else a copy of it."""
    source = tensor.detach()
    return np.ascontiguousarray(concrete(source.cpu() if source.is_cuda else source, REASON)).reshape(-1)


def written(tensor: Tensor, array: np.ndarray) -> None:
    """Bring what has been received into `of(tensor)` to the tensor, where that is a copy."""
    values = array.reshape(tuple(tensor.shape))
    target = tensor.detach()
    if target.is_cuda:
        target.copy_(new_tensor(values))
        return
    memory = concrete(target, REASON)
    if not memory.flags.c_contiguous:
        memory[...] = values
