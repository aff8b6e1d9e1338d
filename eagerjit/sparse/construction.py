"""How sparse tensors are made."""

from __future__ import annotations

from typing import Any

from eagerjit.ops import views
from eagerjit.runtime import dtypes
from eagerjit.sparse.pattern import Compressed, Coordinates
from eagerjit.sparse.tensor import SparseTensor, made
from eagerjit.state import Defaults
from eagerjit.tensors.creation import empty, tensor, zeros
from eagerjit.tensors.making import dtype_argument, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from eagerjit.tensors.making import layout as Layout
from eagerjit.tensors.tensor import Tensor

INVARIANTS = [False]
"""Whether all tensors are checked when they are made, by `check_sparse_tensor_invariants`."""


def _indices(data: Any, device: Any) -> Tensor:
    found = data if isinstance(data, Tensor) else tensor(data, dtype=dtypes.int64)
    return found.to(device) if device is not None else found


def _values(data: Any, dtype: Any, device: Any) -> Tensor:
    if isinstance(data, Tensor):
        return data.to(device or data.device, dtype or data.dtype)
    return tensor(data, dtype=dtype, device=device)


def _taken(values: Tensor, requires_grad: bool) -> Tensor:
    """Values as a sparse tensor's own: an alias on the tape, or a leaf over their memory."""
    if values.requires_grad:
        return views.alias(values)
    return views.detach(values).requires_grad_(requires_grad)


def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Any:  # fmt: skip
    """A tensor of layout `sparse_coo`: values (entries, *dense) at indices (sparse dimensions, entries).

    Without `size` it is the smallest that has these indices; `sparse_coo_tensor(size)` is all zeros. What comes several
    times adds up. Raises RuntimeError for shapes that do not fit.
    """
    sizes_alone = values is None and (indices is None) != (size is None)
    if not sizes_alone and (indices is None or values is None):
        raise TypeError("sparse_coo_tensor() takes indices and values, or a size alone")
    dtype = dtype_argument("sparse_coo_tensor", dtype)
    if sizes_alone:
        sizes = tuple(size if size is not None else indices)
        return empty_coo(sizes, len(sizes), dtype or Defaults.dtype, device).requires_grad_(requires_grad)
    places, entries = _indices(indices, device), _values(values, dtype, device)
    places = places.to(dtypes.int64)
    if places.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    if entries.ndim == 0:
        entries = entries.expand(1)
    if places.shape[1] != entries.shape[0]:
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{places.shape[1]}, nnz from values: {entries.shape[0]}"
        )
    sizes = _inferred(places, entries) if size is None else tuple(map(int, size))
    _check_coo_sizes(places, entries, sizes)
    pattern = Coordinates(views.detach(places), sizes[: places.shape[0]], False)
    if INVARIANTS[0] if check_invariants is None else check_invariants:
        check_coo(places, sizes)
        if is_coalesced and not in_order(pattern):
            raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")
    pattern.coalesced = bool(is_coalesced) or pattern.coalesced
    return made(pattern, _taken(entries, requires_grad))


def _inferred(places: Tensor, entries: Tensor) -> tuple[int, ...]:
    if places.shape[1] == 0:
        return (0,) * int(places.shape[0]) + tuple(entries.shape[1:])
    least = places.min(1).values.tolist()
    for dim, value in enumerate(least):
        if value < 0:
            raise RuntimeError(f"found negative index {value} for dim {dim}")
    return (*(most + 1 for most in places.max(1).values.tolist()), *entries.shape[1:])


def _check_coo_sizes(places: Tensor, entries: Tensor, sizes: tuple[int, ...]) -> None:
    sparse_dim, dense_dim = int(places.shape[0]), entries.ndim - 1
    if len(sizes) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(sizes)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}"
        )
    wanted = [int(places.shape[1]), *sizes[sparse_dim:]]
    if list(entries.shape) != wanted:
        raise RuntimeError(f"values has incorrect size, expected {wanted}, got {list(entries.shape)}")


def check_coo(places: Tensor, sizes: tuple[int, ...]) -> None:
    """Raises RuntimeError for indices outside of the sizes."""
    if places.shape[1] == 0:
        return
    for dim, (least, most) in enumerate(zip(places.min(1).values.tolist(), places.max(1).values.tolist(), strict=True)):
        if least < 0:
            raise RuntimeError(f"found negative index {least} for dim {dim}")
        if most >= sizes[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {sizes[dim]} but found index {most}"
            )


def in_order(pattern: Coordinates) -> bool:
    """Whether places are in order and none comes twice."""
    from eagerjit.sparse.conversion import flat

    numbers = flat(pattern.indices, pattern.sizes)
    return numbers.numel() < 2 or bool((numbers[1:] > numbers[:-1]).all())


def empty_coo(sizes: tuple[int, ...], sparse_dim: int, dtype: Any, device: Any = None) -> SparseTensor:
    """A tensor of layout `sparse_coo` without values."""
    indices = empty((sparse_dim, 0), dtype=dtypes.int64, device=device)
    entries = empty((0, *sizes[sparse_dim:]), dtype=dtype, device=device)
    return made(Coordinates(indices, tuple(sizes[:sparse_dim]), True), entries, sizes)


def empty_compressed(sizes: tuple[int, ...], layout: Any, dtype: Any, device: Any = None) -> SparseTensor:
    """A matrix of a compressed layout without values."""
    if len(sizes) != 2:
        raise NotImplementedError(f"tensors of layout {layout} are matrices here, not of sizes {list(sizes)}")
    starts = zeros(sizes[layout is sparse_csc] + 1, dtype=dtypes.int64, device=device)
    places = empty(0, dtype=dtypes.int64, device=device)
    return made(Compressed(layout, starts, places, sizes), empty(0, dtype=dtype, device=device), sizes)


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:  # fmt: skip
    """A matrix of layout `sparse_csr` or `sparse_csc`: where its lines begin, its entries' places in them, its values.

    Values may have dense dimensions. Raises RuntimeError for shapes that do not fit, NotImplementedError for batches.
    """
    if layout in (sparse_bsr, sparse_bsc):
        raise NotImplementedError(f"there are no tensors of layout {layout}, of the sparse ones only COO, CSR and CSC")
    if layout not in (sparse_csr, sparse_csc):
        raise RuntimeError(f"sparse_compressed_tensor expected sparse compressed tensor layout but got {layout}")
    names = ("ccol_indices", "row_indices") if layout is sparse_csc else ("crow_indices", "col_indices")
    dtype = dtype_argument("sparse_compressed_tensor", dtype)
    starts, places = _indices(compressed_indices, device), _indices(plain_indices, device)
    entries = _values(values, dtype, device)
    if starts.ndim != 1 or places.ndim != 1:
        raise NotImplementedError(
            f"batches of sparse matrices are not supported: {names[0]} of {starts.ndim} dimensions"
        )
    if starts.dtype is not places.dtype or starts.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(f"{names[0]} and {names[1]} must be int32 or int64, both: {starts.dtype}, {places.dtype}")
    if entries.ndim == 0 or entries.shape[0] != places.shape[0]:
        raise RuntimeError(
            f"number of values and of {names[1]} must be equal: {list(entries.shape)}, {places.shape[0]}"
        )
    if size is None:
        other = int(places.max()) + 1 if places.numel() else 0
        lines = int(starts.shape[0]) - 1
        size = ((lines, other) if layout is sparse_csr else (other, lines)) + tuple(entries.shape[1:])
    sizes = tuple(map(int, size))
    if len(sizes) != 1 + entries.ndim:
        raise RuntimeError(f"size of {len(sizes)} dimensions for a matrix with {entries.ndim - 1} dense dimensions")
    pattern = Compressed(layout, views.detach(starts), views.detach(places), sizes[:2])
    if starts.shape[0] != sizes[pattern.dim] + 1:
        raise RuntimeError(
            f"{names[0]}.shape[-1] must be equal to the number of lines + 1 = {sizes[pattern.dim] + 1}, "
            f"but got {starts.shape[0]}"
        )
    if INVARIANTS[0] if check_invariants is None else check_invariants:
        check_compressed(pattern, names)
    return made(pattern, _taken(entries, requires_grad))


def check_compressed(pattern: Compressed, names: tuple[str, str]) -> None:
    """Raises RuntimeError where a matrix is not one."""
    starts, places, count = pattern.starts, pattern.places, pattern.count
    other = pattern.sizes[1 - pattern.dim]
    if int(starts[0]) != 0:
        raise RuntimeError(f"`{names[0]}[..., 0] == 0` is not satisfied.")
    if int(starts[-1]) != count:
        raise RuntimeError(f"`{names[0]}[..., -1] == nnz` is not satisfied.")
    width = starts[1:] - starts[:-1]
    if not bool(((width >= 0).logical_and(width <= other)).all()):
        raise RuntimeError(
            f"`0 <= {names[0]}[..., 1:] - {names[0]}[..., :-1] <= {'nrows' if pattern.dim else 'ncols'}` is not "
            "satisfied."
        )
    if count and not (int(places.min()) >= 0 and int(places.max()) < other):
        raise RuntimeError(f"`0 <= {names[1]} < {'nrows' if pattern.dim else 'ncols'}` is not satisfied.")
    line = pattern.coordinates()[pattern.dim]
    if count > 1 and not bool((places[1:] > places[:-1]).logical_or(line[1:] != line[:-1]).all()):
        raise RuntimeError(
            f"`{names[1]}[..., {names[0]}[..., i - 1]:{names[0]}[..., i]] for all i = 1, ..., "
            f"{'ncols' if pattern.dim else 'nrows'} are sorted and distinct along the last dimension values` "
            "is not satisfied."
        )


def _of_layout(layout: Layout, name: str, first: str, second: str) -> Any:
    def make(*args: Any, **options: Any) -> Any:
        for position, key in enumerate((first, second)):
            if key in options:
                args = (*args[:position], options.pop(key), *args[position:])
        return sparse_compressed_tensor(*args, layout=layout, **options)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A matrix of layout `{layout.name}`: {first}, {second}, values and its size."
    return make


sparse_csr_tensor = _of_layout(sparse_csr, "sparse_csr_tensor", "crow_indices", "col_indices")
sparse_csc_tensor = _of_layout(sparse_csc, "sparse_csc_tensor", "ccol_indices", "row_indices")


def zeros_of_layout(sizes: Any, layout: Any, dtype: Any, device: Any = None) -> SparseTensor:
    """A tensor of a sparse layout without values."""
    sizes = tuple(map(int, sizes))
    if layout is sparse_coo:
        return empty_coo(sizes, len(sizes), dtype, device)
    if layout in (sparse_csr, sparse_csc):
        return empty_compressed(sizes, layout, dtype, device)
    raise NotImplementedError(f"there are no tensors of layout {layout}, of the sparse ones only COO, CSR and CSC")


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Any:
    """A matrix with rows of `diagonals` as its diagonals, that many columns to the right of the main one.

    A diagonal's elements stand in the columns of their own numbers, as in SciPy.
    """
    from eagerjit.ops.index import stack
    from eagerjit.sparse.conversion import to_layout

    diagonals = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    offsets = offsets.reshape(-1)
    if offsets.dtype is not dtypes.int64:
        raise RuntimeError(f"Offset Tensor must have dtype torch.int64 but got {offsets.dtype}")
    if diagonals.shape[0] != offsets.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets ({offsets.shape[0]})"
        )
    if len(set(offsets.tolist())) != offsets.shape[0]:
        raise RuntimeError("Offset tensor contains duplicate values")
    from eagerjit.tensors.creation import arange

    rows_count, columns_count = map(int, shape)
    columns = arange(diagonals.shape[1]).unsqueeze(0).expand(diagonals.shape)
    rows = columns - offsets.unsqueeze(1)
    present = (rows >= 0).logical_and(rows < rows_count).logical_and(columns < columns_count)
    indices = stack((rows[present], columns[present]))
    found = sparse_coo_tensor(indices, diagonals[present], (rows_count, columns_count))
    return found if layout is None else to_layout(found, layout)
