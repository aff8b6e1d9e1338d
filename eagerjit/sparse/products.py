"""Matrix products of sparse tensors with dense and with sparse ones."""

from __future__ import annotations

from typing import Any

from eagerjit.ops import sparse as ops
from eagerjit.ops.index import stack
from eagerjit.runtime import dtypes
from eagerjit.sparse.conversion import coalesce, to_layout
from eagerjit.sparse.pattern import Coordinates, Lines, Pattern
from eagerjit.sparse.tensor import SparseTensor, like, made
from eagerjit.tensors.creation import arange
from eagerjit.tensors.making import sparse_coo
from eagerjit.tensors.outputs import write_out
from eagerjit.tensors.tensor import Tensor

_NONE = (None, None, None)


def _parts(lines: Lines) -> tuple[Any, ...]:
    return lines.starts, lines.places, lines.order


def _matrix(name: str, tensor: SparseTensor) -> Pattern:
    if len(tensor._pattern.sizes) != 2 or tensor._entries.ndim != 1:
        raise RuntimeError(
            f"{name}: 2 sparse dimensions and no dense ones expected, got {len(tensor._pattern.sizes)} and "
            f"{tensor._entries.ndim - 1} of a sparse tensor of shape {list(tensor._sizes)}"
        )
    return tensor._pattern


def product(name: str, matrix: SparseTensor, dense: Tensor, dim: int = 0) -> Tensor:
    """The product of a sparse matrix, or with `dim` 1 of its transpose, with a dense one."""
    pattern = check_product(name, matrix, dense, dim)
    values, rows, columns = matrix._entries, pattern.sizes[dim], pattern.sizes[1 - dim]
    if values.dtype not in (dtypes.float32, dtypes.float64):
        places = pattern.checked()
        return ops.by_entries.call(values, dense, places[dim], places[1 - dim], rows, columns)
    at = pattern.checked() if values._requires_grad else None
    where = (None, None) if at is None else (at[dim], at[1 - dim])
    back = _parts(pattern.lines(1 - dim)) if dense._requires_grad else _NONE
    return ops.by_rows.call(values, dense, *where, *_parts(pattern.lines(dim)), *back)


def check_product(name: str, matrix: SparseTensor, dense: Tensor, dim: int = 0) -> Pattern:
    """The matrix's pattern. Raises RuntimeError for a dense matrix that it cannot be multiplied with."""
    pattern, columns = _matrix(name, matrix), matrix._pattern.sizes[1 - dim]
    if dense.ndim != 2:
        raise RuntimeError(f"{name}: Expected dim 2 for the dense matrix, got {dense.ndim} in {list(dense.shape)}")
    if dense.shape[0] != columns:
        raise RuntimeError(f"{name}: Argument #3 (dense): Expected dim 0 size {columns}, got {dense.shape[0]}")
    if dense.dtype is not matrix.dtype:
        raise RuntimeError(
            f"{name}: Expected object of scalar type {matrix.dtype} but got scalar type {dense.dtype} for the dense one"
        )
    return pattern


def mm(input: Any, mat2: Any) -> Any:
    """A matrix product, sparse if both matrices are."""
    if not isinstance(input, SparseTensor):
        return _from_right("mm", input, mat2)
    return sparse_product(input, mat2) if isinstance(mat2, SparseTensor) else product("mm", input, mat2)


def _from_right(name: str, dense: Tensor, matrix: Any) -> Tensor:
    return product(name, matrix, dense.t(), 1).t().contiguous()


def sparse_product(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """The product of two sparse matrices: every entry of the first meets the entries of a row of the second."""
    first, second = _matrix("mm", a), _matrix("mm", b)
    if first.sizes[1] != second.sizes[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({first.sizes[0]}x{first.sizes[1]} and "
            f"{second.sizes[0]}x{second.sizes[1]})"
        )
    if a.dtype is not b.dtype:
        raise RuntimeError(f"mat1 dtype {a.dtype} does not match mat2 dtype {b.dtype}")
    rows, between = first.checked().unbind(0)
    lines = second.lines(0)
    entry, met = meetings(lines.starts, between)
    values = b._entries if lines.order is None else b._entries[lines.order]
    indices = stack((rows[entry], lines.places[met]))
    pattern = Coordinates(indices, (first.sizes[0], second.sizes[1]), False)
    found = coalesce(made(pattern, a._entries[entry] * values[met]))
    return found if a.layout is sparse_coo else to_layout(found, a.layout)


def meetings(starts: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """All entries of the lines wanted, one line after the other: for which of these each is, and its number."""
    counts = starts[wanted + 1] - starts[wanted]
    which = arange(wanted.shape[0], device=wanted.device).repeat_interleave(counts)
    before = counts.cumsum(0) - counts
    return which, arange(which.shape[0], device=wanted.device) - before[which] + starts[wanted][which]


def mv(input: Any, vec: Any) -> Any:
    """A matrix times a vector."""
    if vec.ndim != 1:
        raise RuntimeError(f"mv: Expected a vector, got a tensor of shape {list(vec.shape)}")
    return product("mv", input, vec.unsqueeze(1)).squeeze(1)


def matmul(input: Any, other: Any) -> Any:
    """A product of matrices, or of one with a vector."""
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        return NotImplemented
    ranks = (input.ndim, other.ndim)
    if ranks == (2, 2):
        return mm(input, other)
    if ranks == (2, 1):
        return mv(input, other)
    if ranks == (1, 2):
        return _from_right("matmul", input.unsqueeze(0), other).squeeze(0)
    if ranks == (3, 3):
        return bmm(input, other)
    raise RuntimeError(f"matmul: no product of a sparse tensor of shapes {list(input.shape)} and {list(other.shape)}")


def bmm(input: Any, mat2: Any) -> Tensor:
    """Products of the matrices of a batch."""
    from eagerjit.sparse.indexing import unbind

    if isinstance(mat2, SparseTensor):
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense")
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(f"bmm: batch sizes {input.shape[0]} and {mat2.shape[0]} are not equal")
    pairs = zip(unbind(input), mat2.unbind(0), strict=True)
    return stack([product("bmm", a, b) for a, b in pairs])


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2)."""
    found = mm(mat1, mat2)
    found = found if alpha == 1 else found * alpha
    return found if beta == 0 else (input if beta == 1 else input * beta) + found


def addmm_(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`addmm`, in place."""
    return input.copy_(addmm(input, mat1, mat2, beta=beta, alpha=alpha))


def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat @ vec)."""
    found = mv(mat, vec) * alpha
    return found if beta == 0 else input * beta + found


def smm(input: Tensor, mat: Tensor) -> Any:
    """A sparse matrix times a dense one, as a sparse tensor."""
    from eagerjit.sparse.conversion import to_sparse

    return to_sparse(product("smm", input, mat))  # type: ignore[arg-type]


def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2) for sparse input and mat1, as a sparse tensor."""
    return input * beta + smm(mat1, mat2) * alpha


def hspmm(mat1: Any, mat2: Tensor) -> Any:
    """A sparse matrix times a dense one, as a tensor with one sparse dimension: the rows that mat1 has values in."""
    found = product("hspmm", mat1, mat2)
    rows = mat1._pattern.checked()[0].unique()
    return made(Coordinates(rows.unsqueeze(0), (int(found.shape[0]),), True), found[rows], found.shape)


def dsmm(input: Any, mat2: Any) -> Any:
    """`mm`, under the name it had for a dense and a sparse matrix."""
    return input.mm(mat2)


spmm, hsmm = dsmm, hspmm


def sampled_addmm(input: Any, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """beta * input + alpha * (mat1 @ mat2) at the places of input, of layout `sparse_csr`.

    Only the products at these places are computed.
    """
    if not isinstance(input, SparseTensor) or input.layout is sparse_coo:
        raise RuntimeError("sampled_addmm: Expected self to be a CSR tensor")
    if (mat1.shape[-2], mat2.shape[-1]) != tuple(input._sizes) or mat1.shape[-1] != mat2.shape[-2]:
        raise RuntimeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied to {list(input._sizes)}: {list(mat1.shape)} and "
            f"{list(mat2.shape)}"
        )
    rows, columns = _matrix("sampled_addmm", input).checked().unbind(0)
    found = (mat1[rows] * mat2.t()[columns]).sum(1) * alpha
    result = like(input, found if beta == 0 else input._entries * beta + found)
    return result if out is None else write_out("sampled_addmm", result, out)


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias."""
    if not isinstance(weight, SparseTensor):
        found = mm(input, weight.t())
    else:
        flat = input.reshape((-1, input.shape[-1]))
        found = product("linear", weight, flat.t()).t().contiguous().reshape((*input.shape[:-1], weight.shape[0]))
    return found if bias is None else found + bias


def transposed_product(self: Any, other: Any) -> Any:
    """`other @ self`, as Python asks for it."""
    return matmul(other, self)


HANDLERS: dict[str, Any] = {
    **{f.__name__: f for f in (
        mm, mv, matmul, bmm, addmm, addmm_, addmv, smm, sspaddmm, hspmm, dsmm, linear,
    )},
    "spmm": dsmm, "hsmm": hspmm, "__rmatmul__": transposed_product,
}  # fmt: skip
