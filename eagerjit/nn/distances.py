"""Distances and similarities of vectors."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.calling.elementwise import SteppedOp
from eagerjit.nn.module import Module
from eagerjit.ops.exponents import decided
from eagerjit.ops.loss import check_tensor
from eagerjit.ops.reduce import norm
from eagerjit.ops.shaping import broadcast_tensors
from eagerjit.tensors.outputs import write_out
from eagerjit.tensors.promotion import TYPE_NAMES, result_type
from eagerjit.tensors.tensor import Tensor


def _normalize(input: Tensor, p: Any, dim: Any, eps: Any) -> Tensor:
    """input divided by its norm along a dimension, the norm at least eps."""
    return input / norm(input, p, dim, keepdim=True).clamp(min=eps)


_normalize_op = SteppedOp("normalize", _normalize, numbers=("p", "eps"))
_normalize_op.steady = frozenset((1,))


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """input divided by its norm of order p along a dimension, the norm at least eps. The result has input's shape."""
    order = int(p) if type(p := decided(p)) is float and p.is_integer() else p
    result = _normalize_op.call(input, order, dim, eps)
    return result if out is None else write_out("normalize", result, out)


def _length(norm: Tensor, eps: Any) -> Tensor:
    """A norm, at least eps: its slope is that of the norm below eps too, as PyTorch has it."""
    return norm.clamp(min=eps)


_length_op = Op("length", _length, (lambda g, out, norm, eps: g, None), ("eps",))


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along a dimension, which goes away; x1 and x2 broadcast.

    Norms count as at least eps. Raises RuntimeError unless one is floating point.
    """
    dtype = result_type(x1, x2)
    if not dtype.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {TYPE_NAMES[dtype]}")
    x1, x2 = x1.to(dtype), x2.to(dtype)
    if tuple(x1.shape) != tuple(x2.shape):
        x1, x2 = broadcast_tensors(x1, x2)
    first = x1 / _length_op.call(norm(x1, 2, dim, keepdim=True), eps)
    second = x2 / _length_op.call(norm(x2, 2, dim, keepdim=True), eps)
    return (first * second).sum(dim)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The norm of order p of x1 - x2 + eps over the last dimension, which goes away unless `keepdim`."""
    check_tensor("pairwise_distance", "x2", 2, x2)
    return norm(x1 - x2 + eps, p, -1, keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along a dimension."""

    def __init__(self, dim: int = 1, eps: float = 1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The norm of x1 - x2 + eps over the last dimension."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
