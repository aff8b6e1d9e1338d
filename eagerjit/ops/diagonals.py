"""Matrices of zeros but for what lies along a diagonal."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.calling.public import public
from eagerjit.ops import padding, views
from eagerjit.ops.shaping import atleast_2d
from eagerjit.tensors.creation import arange
from eagerjit.tensors.fitting import whole
from eagerjit.tensors.promotion import result_type
from eagerjit.tensors.tensor import Tensor


def block_diag(*tensors: Any) -> Tensor:
    """A matrix with these matrices along its diagonal and zeros elsewhere."""
    given = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    parts = [atleast_2d(x) for x in given]
    for x in parts:
        if x.ndim != 2:
            raise RuntimeError(f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Found {x.ndim}-D")
    return _blocks.call(parts)


def _block_diag(parts: Any) -> Tensor:
    rows, columns = sum(x.shape[0] for x in parts), sum(x.shape[1] for x in parts)
    out = parts[0].new_zeros((rows, columns), dtype=result_type(*parts))
    row, column = 0, 0
    for x in parts:
        out = padding.replace_block(out, x, (row, column), (1, 1))
        row, column = row + x.shape[0], column + x.shape[1]
    return out


def _block_diag_rule(g: Any, out: Any, parts: Any) -> list[Any]:
    grads = []
    row: Any = 0
    column: Any = 0
    for x in parts:
        lines = views.slice_dim(g, 0, row, row + x.shape[0])
        grads.append(views.slice_dim(lines, 1, column, column + x.shape[1]).to(x.dtype))
        row, column = row + x.shape[0], column + x.shape[1]
    return grads


_blocks = Op("block_diag", _block_diag, (_block_diag_rule,), fused_rules=False)
_blocks.linear = True


@public
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices, in two dimensions of the result, with vectors on a diagonal."""
    rank = input.ndim + 1
    a, b = views.dimension(dim1, rank), views.dimension(dim2, rank)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if input.shape[-1] + abs(offset) == 0:
        return input.reshape((*input.shape, 0))
    found = _diagonals.call(input, whole(offset))
    return found if (a, b) == (rank - 2, rank - 1) else found.movedim((-2, -1), (a, b))


def _diag_embed(input: Tensor, offset: int) -> Tensor:
    """Every element in a row of its own, where the column is as far from the row as `offset` says."""
    size = input.shape[-1] + abs(offset)
    around = [0] * (input.ndim - 1)
    if offset:
        input = padding.surrounded(input, (*around, max(-offset, 0)), (*around, max(offset, 0)))
    places = arange(size, device=input.device)
    return input.unsqueeze(-1).where(places - places.unsqueeze(-1) == offset, input.new_zeros(()))


_diagonals = Op("diag_embed", _diag_embed, (lambda g, out, input, offset: g.diagonal(offset, -2, -1), None))


@public
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements of input on a diagonal."""
    return diag_embed(input.reshape(-1), offset)
