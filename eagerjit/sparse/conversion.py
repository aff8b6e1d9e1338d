"""Sparse tensors of dense ones and back, of other layouts, dtypes and devices, coalesced, copied."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.ops import views
from eagerjit.runtime import dtypes
from eagerjit.sparse.access import coordinates_in
from eagerjit.sparse.pattern import Compressed, Coordinates
from eagerjit.sparse.tensor import SparseTensor, like, made
from eagerjit.tensors.making import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from eagerjit.tensors.tensor import Shape, Tensor


def flat(indices: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The numbers of places in row-major order."""
    if len(sizes) == 1:
        return indices[0]
    total = indices.new_zeros((indices.shape[1],))
    for row, size in zip(indices.unbind(0), sizes, strict=True):
        total = total * size + row
    return total


def _count(sizes: Any) -> int:
    return math.prod(map(int, sizes))


def unflat(numbers: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The indices of places by their numbers."""
    from eagerjit.ops.index import stack

    found = []
    for size in reversed(sizes):
        found.append(numbers % max(size, 1))
        numbers = numbers // max(size, 1)
    return stack(found[::-1]) if found else numbers.new_zeros((0, numbers.shape[0]))


# -- coalesced --------------------------------------------------------------------------------------------------------
def coalesce(self: Tensor) -> Any:
    """The same tensor with its places in order, the values of equal ones added up; itself if it is known to be so."""
    pattern = coordinates_in("coalesce", self)
    assert isinstance(self, SparseTensor)
    if pattern.coalesced:
        return self
    found, order, places = pattern.kept("coalesced", lambda: _distinct(pattern))
    entries = self._entries if order is None else self._entries[order]
    if places is not None:
        entries = _sums(entries, places, found.count)
    return made(found, entries if entries is not self._entries else views.alias(entries), self._sizes)


def _sums(entries: Tensor, places: Tensor, count: int) -> Tensor:
    """Values added up by place; of bools whether one holds."""
    if entries.dtype is dtypes.bool_:
        return _sums(entries.to(dtypes.int64), places, count) > 0
    return entries.new_zeros((count, *entries.shape[1:])).index_add(0, places, entries)


def _distinct(pattern: Coordinates) -> tuple[Coordinates, Tensor | None, Tensor | None]:
    """The places once and in order; in which order the entries come, and which place each of these is at."""
    numbers, order, places = flat(pattern.checked(), pattern.sizes), None, None
    indices = pattern.indices
    if numbers.numel() > 1 and not bool((numbers[1:] >= numbers[:-1]).all()):
        order = numbers.argsort(stable=True)
        numbers = numbers[order]
        indices = indices[:, order]
    if numbers.numel() > 1 and bool((numbers[1:] == numbers[:-1]).any()):
        distinct, places = numbers.unique_consecutive(return_inverse=True)
        indices = unflat(distinct, pattern.sizes)
    return Coordinates(indices, pattern.sizes, True), order, places


def once_each(gradient: SparseTensor) -> SparseTensor:
    """A gradient with each place once: what comes twice in a tensor has its gradient twice."""
    pattern = gradient._pattern
    if not isinstance(pattern, Coordinates) or pattern.coalesced:
        return gradient
    found, order, places = pattern.kept("coalesced", lambda: _distinct(pattern))
    if places is None:
        return gradient
    entries = gradient._entries if order is None else gradient._entries[order]
    return made(found, entries.new_zeros((found.count, *entries.shape[1:])).index_copy(0, places, entries))


# -- dense ------------------------------------------------------------------------------------------------------------
def to_dense(self: SparseTensor, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
    """The dense tensor: values of equal places are added up."""
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    pattern, entries = self._pattern, self._entries
    numbers = (
        flat(pattern.checked(), pattern.sizes)
        if pattern.sizes
        else entries.new_zeros((entries.shape[0],), dtype=dtypes.int64)
    )
    return _sums(entries, numbers, _count(pattern.sizes)).reshape(tuple(self._sizes))


def to_sparse(self: Tensor, *arguments: Any, layout: Any = None, blocksize: Any = None, dense_dim: Any = None,
              sparse_dim: Any = None) -> Any:  # fmt: skip
    """The tensor in layout `sparse_coo` with so many sparse dimensions (all unless told), or in another layout."""
    if arguments:
        sparse_dim = arguments[0]
    if blocksize is not None and layout not in (sparse_bsr, sparse_bsc):
        raise RuntimeError(f"to_sparse: conversion to {layout or sparse_coo} with a blocksize is not supported")
    if layout is not None and layout is not sparse_coo:
        return to_layout(self, layout, dense_dim)
    if isinstance(self, SparseTensor):
        return _as_coo(self)
    dims = self.ndim if sparse_dim is None else int(sparse_dim)
    if dims > self.ndim or dims < 0 or (dims == 0 and self.ndim > 0):
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{self.ndim}] range, but {dims} is given"
        )
    sizes = tuple(map(int, self.shape))
    mask = self.detach() != 0
    if dims < self.ndim:
        mask = mask.reshape((*sizes[:dims], _count(sizes[dims:]))).any(-1)
    indices = mask.nonzero().t().contiguous() if dims else mask.reshape(1).nonzero().t()[:0].contiguous()
    if dims == 0:
        return made(Coordinates(indices, (), True), self.reshape(1)[: int(bool(mask))], sizes)
    entries = self.reshape((_count(sizes[:dims]), *sizes[dims:]))[flat(indices, sizes[:dims])]
    return made(Coordinates(indices, sizes[:dims], True), entries, sizes)


def _as_coo(self: SparseTensor) -> SparseTensor:
    pattern = self._pattern
    if isinstance(pattern, Coordinates):
        return self
    found = Coordinates(pattern.coordinates(), pattern.sizes, pattern.layout is sparse_csr)
    return coalesce(made(found, views.alias(self._entries), self._sizes))


def to_layout(self: Tensor, layout: Any, dense_dim: int | None = None) -> Any:
    """The tensor in a layout. Raises RuntimeError for compressed layouts of what is no matrix."""
    if layout is strided:
        return self.to_dense()
    if layout in (sparse_bsr, sparse_bsc):
        raise NotImplementedError(f"there are no tensors of layout {layout}, of the sparse ones only COO, CSR and CSC")
    if isinstance(self, SparseTensor) and self._pattern.layout is layout:
        return self
    source = coalesce(
        self
        if isinstance(self, SparseTensor) and self.is_sparse
        else to_sparse(self, None if dense_dim is None else self.ndim - dense_dim)
    )
    if layout is sparse_coo:
        return source
    if len(source._pattern.sizes) != 2:
        raise RuntimeError(
            f"to_sparse_{layout.name[-3:]}: expected a matrix, got {len(source._pattern.sizes)} sparse dimensions of a "
            f"tensor of shape {list(source._sizes)}"
        )
    dim = 0 if layout is sparse_csr else 1
    found, order = source._pattern.kept(f"compressed {dim}", lambda: _compressed(source._pattern, dim))
    entries = views.alias(source._entries) if order is None else source._entries[order]
    return made(found, entries, source._sizes)


def _compressed(pattern: Coordinates, dim: int) -> tuple[Compressed, Tensor | None]:
    lines = pattern.lines(dim)
    return Compressed(sparse_csc if dim else sparse_csr, lines.starts, lines.places, pattern.sizes), lines.order


def to_sparse_coo(self: Tensor) -> Any:
    """The tensor in layout `sparse_coo`."""
    return to_layout(self, sparse_coo)


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Any:
    """The matrix in layout `sparse_csr`."""
    return to_layout(self, sparse_csr, dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Any:
    """The matrix in layout `sparse_csc`."""
    return to_layout(self, sparse_csc, dense_dim)


def to_sparse_bsr(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Any:
    """Refused: there are no blocks."""
    return to_layout(self, sparse_bsr)


def to_sparse_bsc(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Any:
    """Refused: there are no blocks."""
    return to_layout(self, sparse_bsc)


# -- copies -----------------------------------------------------------------------------------------------------------
def to(self: SparseTensor, *arguments: Any, **options: Any) -> SparseTensor:
    """The tensor in another dtype or on another device; itself if nothing changes."""
    if arguments and isinstance(arguments[0], SparseTensor):
        arguments = (arguments[0]._entries, *arguments[1:])
    return _moved(self, self._entries.to(*arguments, **options))


def _moved(self: SparseTensor, entries: Tensor) -> SparseTensor:
    if entries is self._entries:
        return self
    pattern = self._pattern if entries.device == self._entries.device else self._pattern.to(entries.device)
    return made(pattern, entries, self._sizes)


def moving(name: str) -> Any:
    """A method that converts the values."""
    return lambda self, *arguments, **options: _moved(self, getattr(self._entries, name)(*arguments, **options))


def clone(self: SparseTensor, *, memory_format: Any = None) -> SparseTensor:
    """A copy in memory of its own."""
    if memory_format is not None:
        raise RuntimeError(f"unsupported memory format option {memory_format}")
    return made(self._pattern.cloned(), self._entries.clone(), self._sizes)


def detach(self: SparseTensor) -> SparseTensor:
    """The same tensor without history."""
    return made(self._pattern, self._entries.detach(), self._sizes)


def requires_grad_(self: SparseTensor, requires_grad: bool = True) -> SparseTensor:
    """Sets `requires_grad`, in place."""
    self._entries.requires_grad_(requires_grad)
    return self


def detach_(self: SparseTensor) -> SparseTensor:
    """Drop the history, in place."""
    self._entries = self._entries.detach()
    return self


def copy_(self: Tensor, other: Tensor, non_blocking: bool = False) -> Tensor:
    """Take over another sparse tensor's places and values. Raises RuntimeError if only one of both is sparse."""
    if not isinstance(self, SparseTensor) or not isinstance(other, SparseTensor):
        kinds = [("torch.sparse" if isinstance(t, SparseTensor) else "torch") for t in (self, other)]
        raise RuntimeError(
            f"copy_() between dense and sparse Tensors is not implemented! Found self type = {kinds[0]} tensor of "
            f"{self.dtype} and src type = {kinds[1]} tensor of {other.dtype}"
        )
    if tuple(self._sizes) != tuple(other._sizes) and self._pattern.layout is not sparse_coo:
        raise RuntimeError(f"copy_: sizes {list(self._sizes)} and {list(other._sizes)} are not equal")
    return become(self, made(other._pattern.cloned(), other._entries.to(self.dtype, copy=True), other._sizes))


def become(self: SparseTensor, other: SparseTensor) -> SparseTensor:
    """Take over what another tensor consists of: a write in place. Raises RuntimeError for a leaf with gradients."""
    from eagerjit.runtime import mode

    if self._requires_grad and self._entries._node is None and mode.grad_mode():
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    if not self._requires_grad or mode.grad_mode() or other._requires_grad:
        self._entries = other._entries
    else:
        self._entries = other._entries.detach().requires_grad_()
    self._pattern, self._sizes = other._pattern, other._sizes
    return self


def zero_(self: SparseTensor) -> SparseTensor:
    """Forget all values, in place."""
    from eagerjit.sparse.construction import empty_coo

    if self._pattern.layout is not sparse_coo:
        self._entries.zero_()
        return self
    return become(self, empty_coo(tuple(self._sizes), len(self._pattern.sizes), self.dtype, self.device))


def zeros_like(input: SparseTensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
               requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None) -> Any:  # fmt: skip
    """A tensor of the same sizes and layout without values."""
    from eagerjit.sparse.construction import empty_coo, zeros_of_layout
    from eagerjit.tensors.creation import zeros

    layout, dtype, device = layout or input.layout, dtype or input.dtype, device or input.device
    if layout is strided:
        return zeros(tuple(input._sizes), dtype=dtype, device=device, requires_grad=requires_grad)
    if layout is sparse_coo:
        if memory_format is not None:
            raise RuntimeError("memory format option is only supported by strided tensors")
        found = empty_coo(tuple(input._sizes), len(input._pattern.sizes), dtype, device)
    else:
        found = zeros_of_layout(input._sizes, layout, dtype, device)
    return found.requires_grad_(requires_grad)


def new_zeros(self: SparseTensor, *sizes: Any, dtype: Any = None, layout: Any = None, device: Any = None,
              requires_grad: bool = False, pin_memory: bool = False) -> Any:  # fmt: skip
    """A tensor of the same layout and dtype without values."""
    from eagerjit.sparse.construction import zeros_of_layout
    from eagerjit.tensors.creation import zeros

    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    layout, dtype, device = layout or self.layout, dtype or self.dtype, device or self.device
    if layout is strided:
        return zeros(tuple(given), dtype=dtype, device=device, requires_grad=requires_grad)
    return zeros_of_layout(given, layout, dtype, device).requires_grad_(requires_grad)


def new(self: SparseTensor, *arguments: Any, **options: Any) -> Any:
    """PyTorch's old way to make a tensor of this kind: nothing, sizes, or indices and values and sizes.

    Raises TypeError for anything else.
    """
    from eagerjit.sparse.construction import sparse_coo_tensor

    if len(arguments) in (2, 3) and all(isinstance(part, Tensor) for part in arguments[:2]):
        return sparse_coo_tensor(*arguments, device=self.device)
    sizes = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], Shape) else arguments
    if not all(isinstance(size, int) for size in sizes):
        raise TypeError("new() of a sparse tensor takes sizes, or indices and values; see torch.sparse_coo_tensor()")
    return new_zeros(self, *sizes) if arguments else new_zeros(self, 0)


def tensor(data: SparseTensor, *, requires_grad: bool = False, **options: Any) -> Any:
    """A copy without history."""
    return clone(to(detach(data), **options)).requires_grad_(requires_grad)


def new_tensor(self: SparseTensor, *arguments: Any, **options: Any) -> Tensor:
    """A dense tensor of this dtype and device."""
    return self._entries.new_tensor(*arguments, **options)


def sparse_mask(self: Tensor, mask: Any) -> Any:
    """The elements of a tensor at the places of a sparse one, which may be zeros."""
    if not isinstance(mask, SparseTensor):
        raise RuntimeError("sparse_mask expects a sparse mask, got a strided tensor")
    if tuple(self.shape) != tuple(mask._sizes):
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size "
            f"{list(mask._sizes)}"
        )
    pattern = mask._pattern
    if isinstance(self, SparseTensor):
        if self._pattern is pattern:
            return self
        self = self.to_dense()
    numbers = flat(pattern.checked(), pattern.sizes)
    entries = self.reshape((_count(pattern.sizes), *mask._sizes[len(pattern.sizes) :]))[numbers]
    return like(mask, entries)


HANDLERS: dict[str, Any] = {
    **{f.__name__: f for f in (
        coalesce, to_dense, to_sparse, to_sparse_coo, to_sparse_csr, to_sparse_csc, to_sparse_bsr, to_sparse_bsc, to,
        clone, detach, detach_, requires_grad_, copy_, zero_, zeros_like, new_zeros, new_tensor, new, sparse_mask,
        tensor,
    )},
    **{name: moving(name) for name in (
        "float", "double", "half", "bfloat16", "long", "int", "short", "char", "byte", "bool", "cfloat", "cdouble",
        "cpu", "cuda", "to_device",
    )},
    "as_tensor": to, "asarray": to, "empty_like": zeros_like, "new_empty": new_zeros,
    "type_as": lambda self, other: to(self, other.dtype),
}  # fmt: skip
