"""Products of sparse matrices whose terms are reduced by other than a sum."""

from __future__ import annotations

from typing import Any

from eagerjit.ops.index import cat
from eagerjit.runtime import dtypes
from eagerjit.sparse import products
from eagerjit.sparse.tensor import SparseTensor
from eagerjit.tensors.creation import arange
from eagerjit.tensors.making import sparse_csr
from eagerjit.tensors.tensor import Tensor

_REDUCTIONS = {"sum": "sum", "mean": "mean", "amax": "amax", "amin": "amin", "max": "amax", "min": "amin"}
_NUMBERS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
_NONE = object()


def mm(sparse: Any, dense: Any, reduce: Any = _NONE) -> Any:
    """A matrix product, sparse if both matrices are.

    With `reduce` "mean", "amax" or "amin" the terms of each sum are reduced so, for a matrix of layout `sparse_csr` and
    a dense one; rows without entries give 0, and of equal terms the first one gets the gradient. Raises RuntimeError
    for other layouts, shapes, dtypes and reductions, NotImplementedError for a first matrix in coordinates.
    """
    if reduce is _NONE:
        return products.mm(sparse, dense)
    if not isinstance(reduce, str):
        raise TypeError(f"_sparse_mm(): argument 'reduce' (position 3) must be str, not {type(reduce).__name__}")
    _check(sparse, dense)
    if reduce == "prod":
        raise RuntimeError("sparse_mm_reduce: reduce type of prod has not been enabled.")
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if _REDUCTIONS[reduce] in ("sum", "mean"):
        found = products.product("sparse_mm_reduce", sparse, dense)
        return found if reduce == "sum" else found / _counts(sparse).clamp(min=1).unsqueeze(1).to(found.dtype)
    return _extremes(sparse, dense, _REDUCTIONS[reduce])


def _check(matrix: Any, dense: Any) -> None:
    layout = getattr(matrix, "layout", None)
    if not isinstance(matrix, SparseTensor) or len(matrix._pattern.parts) == 1:
        raise NotImplementedError(f"Could not run 'aten::_sparse_mm_reduce_impl' with arguments of layout {layout}")
    if layout is not sparse_csr:
        raise RuntimeError(f"sparse_mm_reduce: expect self to be SparseCsr, got {layout}")
    if isinstance(dense, SparseTensor):
        raise RuntimeError(f"Expected tensor to have Strided Layout, but got tensor with {dense.layout} Layout")
    if matrix.dtype not in _NUMBERS:
        raise NotImplementedError(f'"spmm_reduce_kernel" not implemented for {matrix.dtype}')


def _counts(matrix: SparseTensor) -> Tensor:
    starts = matrix._pattern.lines(0).starts
    return starts[1:] - starts[:-1]


def _extremes(matrix: SparseTensor, dense: Tensor, reduction: str) -> Tensor:
    """The first of the largest or the smallest terms of each sum, through which its gradient goes."""
    products.check_product("sparse_mm_reduce", matrix, dense)
    rows, columns = matrix._pattern.checked().unbind(0)
    terms = matrix._entries.unsqueeze(1) * dense[columns]
    count, shape = terms.shape[0], (matrix._sizes[0], terms.shape[1])
    place, fixed = rows.unsqueeze(1).expand(terms.shape), terms.detach()
    extreme = fixed.new_zeros(shape).scatter_reduce(0, place, fixed, reduction, include_self=False)
    reached = (fixed == extreme[rows]).logical_or(fixed.isnan())
    entry = arange(count, device=terms.device).unsqueeze(1).where(reached, count)
    first = entry.new_full(shape, count).scatter_reduce(0, place, entry, "amin")
    return cat.call((terms, terms.new_zeros((1, shape[1])))).gather(0, first)
