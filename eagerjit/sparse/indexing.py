"""Parts of sparse tensors, and sparse tensors of parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.ops import views
from eagerjit.ops.index import cat as dense_cat
from eagerjit.sparse.conversion import to_layout, to_sparse_coo
from eagerjit.sparse.pattern import Compressed, Coordinates, sorted_lines
from eagerjit.sparse.products import meetings
from eagerjit.sparse.tensor import SparseTensor, made, unsupported
from eagerjit.tensors.making import sparse_coo
from eagerjit.tensors.tensor import Tensor


def _parts(tensor: SparseTensor) -> tuple[Coordinates, Tensor]:
    """Coordinates and values, also of a compressed layout."""
    found = to_sparse_coo(tensor)
    return found._pattern, found._entries


def select(input: SparseTensor, dim: int, index: int) -> Any:
    """The slice at one index of a dimension: dense if no sparse dimension is left."""
    dim = views.dimension(dim, len(input._sizes))
    size = int(input._sizes[dim])
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input._sizes)} at dimension {dim}"
        )
    pattern, entries = _parts(input)
    index = int(index) % size
    count = len(pattern.sizes)
    if dim >= count:
        return made(pattern, entries.select(dim - count + 1, index))
    hit = (pattern.indices[dim] == index).nonzero().squeeze(1)
    if count == 1:
        return entries[hit].sum(0)
    kept = [d for d in range(count) if d != dim]
    sizes = tuple(pattern.sizes[d] for d in kept)
    return made(Coordinates(pattern.indices[kept][:, hit], sizes, pattern.coalesced), entries[hit])


def unbind(input: SparseTensor, dim: int = 0) -> tuple[Any, ...]:
    """All slices along a dimension."""
    return tuple(select(input, dim, i) for i in range(int(input._sizes[views.dimension(dim, len(input._sizes))])))


def get_item(self: SparseTensor, key: Any) -> Any:
    """Slices at integers; whole dimensions and new ones. Raises NotImplementedError for other indices."""
    keys = list(key) if isinstance(key, tuple) else [key]
    given = sum(k is not None and k is not Ellipsis for k in keys)
    if given > len(self._sizes):
        raise IndexError(f"too many indices for tensor of dimension {len(self._sizes)}")
    if Ellipsis in [k for k in keys if not isinstance(k, Tensor)]:
        at = next(i for i, k in enumerate(keys) if k is Ellipsis)
        keys[at : at + 1] = [slice(None)] * (len(self._sizes) - given)
    found: Any = self
    dim = 0
    for k in keys:
        if k is None:
            found, dim = found.unsqueeze(dim), dim + 1
        elif isinstance(k, slice) and k == slice(None):
            dim += 1
        elif isinstance(k, int) and not isinstance(k, bool):
            found = found.select(dim, k)
        else:
            raise unsupported("as_strided" if isinstance(k, slice) else "index", self)
    return found


def index_select(input: SparseTensor, dim: int, index: Tensor) -> Any:
    """The slices at several indices of a dimension."""
    dim = views.dimension(dim, len(input._sizes))
    layout = input.layout
    pattern, entries = _parts(input)
    count = len(pattern.sizes)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if dim >= count:
        return made(pattern, entries.index_select(dim - count + 1, index))
    index = index.reshape(-1).long()
    size = pattern.sizes[dim]
    if index.numel() and not (int(index.min()) >= 0 and int(index.max()) < size):
        raise IndexError(f"index_select(): index contains values out of range for dimension {dim} of size {size}")
    here = pattern.checked()[dim]
    both = here.unsqueeze(0).repeat(2, 1)
    lines = sorted_lines(both, (size, size), 0)
    which, met = meetings(lines.starts, index)
    if lines.order is not None:
        met = lines.order[met]
    indices = pattern.indices[:, met]
    indices[dim] = which
    sizes = tuple(int(index.shape[0]) if d == dim else n for d, n in enumerate(pattern.sizes))
    found = made(Coordinates(indices, sizes, pattern.coalesced and dim == 0), entries[met])
    return found if layout is sparse_coo else to_layout(found, layout)


def narrow_copy(input: SparseTensor, dim: int, start: int, length: int) -> Any:
    """Some neighbouring slices along a dimension."""
    dim = views.dimension(dim, len(input._sizes))
    size = int(input._sizes[dim])
    if not (0 <= start and length >= 0 and start + length <= size):
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    pattern, entries = _parts(input)
    count = len(pattern.sizes)
    if dim >= count:
        return made(pattern, entries.narrow(dim - count + 1, start, length))
    here = pattern.indices[dim]
    hit = (here >= start).logical_and(here < start + length).nonzero().squeeze(1)
    indices = pattern.indices[:, hit]
    indices[dim] -= start
    sizes = tuple(length if d == dim else n for d, n in enumerate(pattern.sizes))
    return made(Coordinates(indices, sizes, pattern.coalesced), entries[hit])


# -- orders of dimensions ---------------------------------------------------------------------------------------------
def permute(input: SparseTensor, *dims: Any) -> Any:
    """Dimensions in another order; sparse and dense ones stay apart."""
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    wanted = [views.dimension(d, len(input._sizes)) for d in order]
    if len(wanted) != len(input._sizes):
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {len(input._sizes)} is not equal to len(dims) = {len(wanted)}"
        )
    if sorted(wanted) != list(range(len(wanted))):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    count = len(input._pattern.sizes)
    if any(d >= count for d in wanted[:count]):
        raise RuntimeError("permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed.")
    pattern, entries = input._pattern, input._entries
    if wanted[:count] != list(range(count)):
        pattern = pattern.kept(f"permuted {wanted[:count]}", lambda: _permuted(pattern, wanted[:count]))
    inner = [d - count + 1 for d in wanted[count:]]
    if inner != list(range(1, entries.ndim)):
        entries = entries.permute(0, *inner)
    return made(pattern, views.alias(entries))


def _permuted(pattern: Any, order: list[int]) -> Any:
    if isinstance(pattern, Compressed):
        return pattern.transposed()
    return Coordinates(pattern.indices[order], tuple(pattern.sizes[d] for d in order), False)


def transpose(input: SparseTensor, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged."""
    order = list(range(len(input._sizes)))
    a, b = (views.dimension(d, len(order)) for d in (dim0, dim1))
    order[a], order[b] = b, a
    return permute(input, order)


def t(input: SparseTensor) -> Any:
    """The transpose of a matrix."""
    if len(input._sizes) > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {len(input._sizes)}D"
        )
    return transpose(input, 0, 1) if len(input._sizes) == 2 else input


def _of_matrices(name: str, conjugated: bool) -> Any:
    """An attribute: the last two dimensions exchanged."""

    def swapped(input: SparseTensor) -> Any:
        count = len(input._sizes)
        if name == "H" and count != 2:
            raise RuntimeError(
                f"tensor.H is only supported on matrices (2-D tensors). Got {count}-D tensor."
                f"{' For batches of matrices, consider using tensor.mH' if count > 2 else ''}"
            )
        if count < 2:
            raise RuntimeError(
                f"tensor.{name} is only supported on matrices or batches of matrices. Got {count}-D tensor."
            )
        return adjoint(input) if conjugated else transpose(input, -2, -1)

    return swapped


def adjoint(input: SparseTensor) -> Any:
    """The last two dimensions exchanged and the values conjugated."""
    swapped = transpose(input, -2, -1)
    return swapped.with_values(swapped._entries.conj()) if input.dtype.is_complex else swapped


def transpose_(input: SparseTensor, dim0: int, dim1: int) -> Any:
    """`transpose`, in place."""
    from eagerjit.sparse.conversion import become

    return become(input, transpose(input, dim0, dim1))


def unsqueeze(input: SparseTensor, dim: int) -> Any:
    """A new dimension of size 1."""
    pattern, entries = _parts(input)
    dim = views.dimension(dim, len(input._sizes) + 1)
    count = len(pattern.sizes)
    if dim > count:
        return made(pattern, entries.unsqueeze(dim - count + 1))
    row = pattern.indices.new_zeros((1, pattern.indices.shape[1]))
    indices = dense_cat.call((pattern.indices[:dim], row, pattern.indices[dim:]))
    sizes = (*pattern.sizes[:dim], 1, *pattern.sizes[dim:])
    return made(Coordinates(indices, sizes, pattern.coalesced), entries)


# -- several ----------------------------------------------------------------------------------------------------------
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Sparse tensors joined along a dimension."""
    for position, one in enumerate(tensors):
        if not isinstance(one, SparseTensor):
            raise RuntimeError(f"Concatenating sparse tensors, but a dense tensor was found at position {position}.")
    first = tensors[0]
    dim = views.dimension(dim, len(first._sizes))
    layout = first.layout
    parts = [_parts(one) for one in tensors]
    count = len(parts[0][0].sizes)
    for position, one in enumerate(tensors):
        same = [n for d, n in enumerate(one._sizes) if d != dim] == [n for d, n in enumerate(first._sizes) if d != dim]
        if not same or len(one._sizes) != len(first._sizes) or len(parts[position][0].sizes) != count:
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first._sizes)} (except in the concatenating dimension), "
                f"but found shape: {list(one._sizes)} at position {position}"
            )
    if dim >= count:
        return _joined_dense(tensors, parts, dim - count + 1)
    indices, start = [], 0
    for pattern, _ in parts:
        moved = pattern.indices.clone()
        moved[dim] += start
        indices.append(moved)
        start += pattern.sizes[dim]
    sizes = tuple(start if d == dim else n for d, n in enumerate(parts[0][0].sizes))
    coalesced = dim == 0 and all(pattern.coalesced for pattern, _ in parts)
    entries = dense_cat.call(tuple(e for _, e in parts))
    found = made(Coordinates(dense_cat.call(tuple(indices), 1), sizes, coalesced), entries)
    return found if layout is sparse_coo else to_layout(found, layout)


def _joined_dense(tensors: Sequence[Any], parts: list[Any], along: int) -> Any:
    """Joined along a dense dimension: each part's values stand among zeros."""
    entries, start, total = [], 0, sum(int(e.shape[along]) for _, e in parts)
    for _, e in parts:
        shape = list(e.shape)
        left, right = list(shape), list(shape)
        left[along], right[along] = start, total - start - int(shape[along])
        entries.append(dense_cat.call((e.new_zeros(left), e, e.new_zeros(right)), along))
        start += int(shape[along])
    indices = dense_cat.call(tuple(pattern.indices for pattern, _ in parts), 1)
    return made(Coordinates(indices, parts[0][0].sizes, False), dense_cat.call(tuple(entries)))


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Sparse tensors of one shape along a new dimension."""
    return cat([one.unsqueeze(dim) for one in tensors], dim)


HANDLERS: dict[str, Any] = {
    **{f.__name__: f for f in (
        select, unbind, index_select, narrow_copy, permute, transpose, t, transpose_, unsqueeze, cat, stack,
    )},
    "__getitem__": get_item, "concat": cat, "concatenate": cat, "swapaxes": transpose, "swapdims": transpose,
    "adjoint": adjoint, "mT": _of_matrices("mT", False), "mH": _of_matrices("mH", True), "H": _of_matrices("H", True),
    "t_": lambda input: transpose_(input, 0, 1),
}  # fmt: skip
