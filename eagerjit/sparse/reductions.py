"""Sums, norms and softmaxes of sparse tensors."""

from __future__ import annotations

from typing import Any

from eagerjit.ops import views
from eagerjit.runtime import dtypes
from eagerjit.sparse.conversion import coalesce, flat, to_layout, to_sparse_coo
from eagerjit.sparse.pattern import Coordinates
from eagerjit.sparse.tensor import SparseTensor, like, made
from eagerjit.tensors.making import sparse_coo
from eagerjit.tensors.tensor import Tensor


def _dims(dim: Any, ndim: int) -> list[int]:
    found = [views.dimension(d, ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    if len(set(found)) != len(found):
        raise RuntimeError("dim appears multiple times in the list of dims")
    return sorted(found)


def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum of all elements, or along dimensions: a sparse tensor if sparse dimensions are left."""
    if not isinstance(input, SparseTensor):
        return input.sum(dtype=dtype) if dim is None else input.sum(dim, keepdim, dtype=dtype)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return input._entries.sum(dtype=dtype)
    dims = _dims(dim, len(input._sizes))
    if input.layout is not sparse_coo:
        return _compressed_sum(input, dims, keepdim, dtype)
    pattern, entries = input._pattern, input._entries
    count = len(pattern.sizes)
    dense = [d - count + 1 for d in dims if d >= count]
    entries = entries.sum(dense, dtype=dtype) if dense else entries if dtype is None else entries.to(dtype)
    kept = [d for d in range(count) if d not in dims]
    if not kept:
        found = entries.sum(0, dtype=dtype)
    elif len(kept) == count:
        found = made(pattern, entries)
    else:
        entries = entries if dtype is not None or entries.dtype.is_floating_point else _widened(entries)
        sizes = tuple(pattern.sizes[d] for d in kept)
        found = coalesce(made(Coordinates(pattern.coordinates()[kept], sizes, False), entries))
    if keepdim:
        for d in dims:
            found = found.unsqueeze(d)
    return found


def _widened(entries: Tensor) -> Tensor:
    return entries if entries.dtype.is_complex else entries.to(dtypes.int64)


def _compressed_sum(input: SparseTensor, dims: list[int], keepdim: bool, dtype: Any) -> Any:
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    indices = input._pattern.coordinates().clone()
    sizes = list(input._pattern.sizes)
    for d in dims:
        indices[d] = 0
        sizes[d] = 1
    entries = input._entries if dtype is None else input._entries.to(dtype)
    return to_layout(coalesce(made(Coordinates(indices, tuple(sizes), False), entries)), input.layout)


def norm(input: SparseTensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The norm of all elements."""
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dim is not None and len(_dims(dim, len(input._sizes))) != len(input._sizes):
        raise RuntimeError("norm_sparse currently only supports full reductions")
    source = coalesce(input) if input.layout is sparse_coo else input
    return source._entries.reshape(-1).norm(2 if p == "fro" else p, dtype=dtype)


def any(input: SparseTensor) -> Any:
    """Whether any value is not zero."""
    return input._entries.any()


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Softmax along a dimension over the values there are: other elements count as -inf, and stay zero."""
    return _softmax(input, dim, dtype, False)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of `softmax` at the values there are."""
    return _softmax(input, dim, dtype, True)


def _softmax(input: Any, dim: int, dtype: Any, logarithm: bool) -> Any:
    if not isinstance(input, SparseTensor):
        return input.log_softmax(dim, dtype=dtype) if logarithm else input.softmax(dim, dtype=dtype)
    source = coalesce(to_sparse_coo(input))
    pattern, entries = source._pattern, source._entries if dtype is None else source._entries.to(dtype)
    if not entries.dtype.is_floating_point:
        raise NotImplementedError(f'"softmax" not implemented for {entries.dtype}')
    dim = views.dimension(dim, len(source._sizes))
    if dim >= len(pattern.sizes):
        along = dim - len(pattern.sizes) + 1
        return like(source, entries.log_softmax(along) if logarithm else entries.softmax(along))
    if not entries.numel():
        return like(source, entries)
    rest = [d for d in range(len(pattern.sizes)) if d != dim]
    numbers = (
        flat(pattern.checked()[rest], tuple(pattern.sizes[d] for d in rest))
        if rest
        else entries.new_zeros((entries.shape[0],), dtype=dtypes.int64)
    )
    lines, line = numbers.unique(return_inverse=True)
    shape = (lines.shape[0], *entries.shape[1:])
    lowest = entries.new_full(shape, -float("inf"))
    level = lowest.index_reduce(0, line, entries.detach(), "amax")
    level = level.where(level.isfinite(), 0.0)
    shifted = entries - level[line]
    powers = shifted.exp()
    totals = entries.new_zeros(shape).index_add(0, line, powers)
    return like(source, shifted - totals.log()[line] if logarithm else powers / totals[line])


HANDLERS: dict[str, Any] = {"sum": sum, "norm": norm, "any": any}
