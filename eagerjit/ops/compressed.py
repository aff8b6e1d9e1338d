"""Indices of sparse matrices: sorted rows, and where each row begins."""

from __future__ import annotations

from eagerjit.calling.public import public
from eagerjit.ops.bins import searchsorted
from eagerjit.ops.index import cat, stack
from eagerjit.ops.shaping import unravel_index
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import arange
from eagerjit.tensors.outputs import write_out
from eagerjit.tensors.tensor import Tensor


def _check_integers(name: str, indices: Tensor) -> None:
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype is dtypes.bool_:
        raise NotImplementedError(f'"{name}_cpu" not implemented for {indices.dtype}')


def _given(name: str, found: Tensor, out_int32: bool, out: Tensor | None) -> Tensor:
    found = found.to(dtypes.int32 if out_int32 else dtypes.int64)
    return found if out is None else write_out(name, found, out)


@public
def _convert_indices_from_coo_to_csr(
    input: Tensor, size: int, *, out_int32: bool = False, out: Tensor | None = None
) -> Tensor:
    """Where each of `size` rows begins in the sorted row indices of entries, and where the last one ends.

    Raises RuntimeError for more than one dimension, NotImplementedError for other than integers.
    """
    if input.ndim > 1:
        raise RuntimeError(f"Input is supposed to be a vector, but got {input.ndim} dimensional tensor.")
    _check_integers("convert_indices_from_coo_to_csr", input)
    rows = input.reshape(-1).to(dtypes.int64)
    starts = searchsorted(rows, arange(size + 1, device=input.device))
    return _given("_convert_indices_from_coo_to_csr", starts, out_int32, out)


@public
def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The coordinates of a matrix's entries, or of those of a batch: (dimensions, entries), rows before columns.

    `transpose` gives columns before rows. Raises NotImplementedError for other than integers.
    """
    _check_integers("convert_indices_from_csr_to_coo", crow_indices)
    batch, count = tuple(crow_indices.shape[:-1]), col_indices.shape[-1]
    ends = crow_indices[..., 1:].to(dtypes.int64).contiguous()
    entries = arange(count, device=crow_indices.device)
    rows = searchsorted(ends, entries.expand(*batch, count).contiguous(), right=True).reshape(-1)
    columns = col_indices.to(dtypes.int64).reshape(-1)
    places = stack((columns, rows) if transpose else (rows, columns))
    if batch:
        matrices = arange(rows.shape[0], device=rows.device) // max(count, 1)
        sizes = tuple(max(size, 1) for size in batch)
        places = cat.call((stack(unravel_index(matrices, sizes)), places))
    return _given("_convert_indices_from_csr_to_coo", places, out_int32, out)
