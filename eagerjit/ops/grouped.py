"""Products of matrices in groups whose sizes a tensor says."""

from __future__ import annotations

from typing import Any

from eagerjit.calling.public import public
from eagerjit.ops import index, linear
from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor

_COMPUTED = (dtypes.float32, dtypes.bfloat16, dtypes.float16)


@public
def _grouped_mm(
    mat_a: Tensor, mat_b: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """Products of groups: of matrices of three-dimensional tensors, and of parts of two-dimensional ones.

    offs    where each part ends, of int32: parts of rows of mat_a, of columns of mat_b, or, where both are matrices, of
            columns of mat_a and rows of mat_b. Rows and columns behind the last one give zeros.

    Raises RuntimeError for dtypes other than float32 and shorter ones, sizes that do not fit and offsets that are
    missing or not needed.
    """
    _refuse(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return linear.bmm(mat_a, mat_b)
    ends = offs.tolist()
    parts = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
    if mat_a.ndim == mat_b.ndim:
        return index.stack([linear.mm(mat_a[:, part], mat_b[part]) for part in parts])
    rows = mat_a.ndim == 2
    if rows:
        products = [linear.mm(mat_a[part], mat_b[i]) for i, part in enumerate(parts)]
        rest = mat_a.new_zeros(mat_a.shape[0] - sum(p.shape[0] for p in products), mat_b.shape[-1])
    else:
        products = [linear.mm(mat_a[i], mat_b[:, part]) for i, part in enumerate(parts)]
        rest = mat_a.new_zeros(mat_a.shape[1], mat_b.shape[1] - sum(p.shape[1] for p in products))
    return index.cat.call([*products, rest], 0 if rows else 1)


@public
def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """Products of groups: see `torch._grouped_mm`."""
    return _grouped_mm(mat_a, mat_b, offs, bias, out_dtype)


def _refuse(mat_a: Tensor, mat_b: Tensor, offs: Tensor | None, bias: Tensor | None, out_dtype: Any) -> None:
    for name, matrix in (("mat_a", mat_a), ("mat_b", mat_b)):
        if matrix.dtype not in _COMPUTED:
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {matrix.dtype}")
        if matrix.ndim not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    if mat_a.dtype is not mat_b.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {mat_a.dtype} != {mat_b.dtype}")
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if (offs is None) != (mat_a.ndim == mat_b.ndim == 3):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if offs is None and mat_a.shape[0] != mat_b.shape[0]:
        raise RuntimeError("batched dimension has to match")
    if offs is not None:
        _refuse_ends(offs, next((m.shape[0] for m in (mat_a, mat_b) if m.ndim == 3), None))
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype not in (None, mat_a.dtype):
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")


def _refuse_ends(offs: Tensor, groups: int | None) -> None:
    if offs.ndim != 1:
        raise RuntimeError("offs has to be 1D")
    if offs.dtype is not dtypes.int32:
        raise RuntimeError("Offsets have to be int32")
    if groups is not None and offs.shape[0] != groups:
        raise RuntimeError("matrix batch sizes have to match")
