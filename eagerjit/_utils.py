"""Tensors side by side in one vector, as programs that send gradients between processes put them."""

from __future__ import annotations

from collections.abc import Sequence

from eagerjit.ops.index import cat
from eagerjit.tensors.tensor import Tensor


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All elements of tensors of one dtype as a vector."""
    return cat.call([t.reshape(-1) for t in tensors], 0)


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of a vector in the shapes of tensors."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors, strict=True))
