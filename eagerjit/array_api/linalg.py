"""Linear algebra on vectors and on stacks of matrices, the last two axes."""

from __future__ import annotations

import operator
from typing import Any

from eagerjit import linalg
from eagerjit.array_api import statistics
from eagerjit.array_api.axes import axis_of, reduced
from eagerjit.array_api.operands import check_array, common
from eagerjit.ops import contraction, factor, linear, norms, products, reduce, shaping
from eagerjit.ops.factored import QR, SVD, Eigen, SignLogdet
from eagerjit.runtime.dtypes import DType
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip


# -- products ---------------------------------------------------------------------------------------------------------


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices or vectors, stacks of matrices broadcast."""
    return linear.matmul.call(*_both("matmul", x1, x2))


def _both(name: str, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """Two tensors in their common dtype."""
    a, b = common(name, check_array(name, x1), check_array(name, x2))
    return a, b


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    return _stack("matrix_transpose", x).mT


def _stack(name: str, x: Tensor) -> Tensor:
    """The argument if it holds matrices, else ValueError."""
    if check_array(name, x).ndim < 2:
        raise ValueError(f"{name}(): expected matrices, got a tensor of shape {tuple(x.shape)}")
    return x


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Sums of products over the last axes of x1 and as many first ones of x2, or over those listed for each.

    Raises ValueError unless both lists name each axis once and the sizes are equal.
    """
    a, b = _both("tensordot", x1, x2)
    if isinstance(axes, (tuple, list)):
        first, second = ([axis_of("tensordot", x, d) for d in ds] for x, ds in zip((a, b), axes, strict=True))
    else:
        count = operator.index(axes)
        if not 0 <= count <= (a.ndim if a.ndim < b.ndim else b.ndim):
            raise ValueError(f"tensordot(): {count} axes of tensors with {a.ndim} and {b.ndim}")
        first, second = list(range(a.ndim - count, a.ndim)), list(range(count))
    repeated = len(set(first)) < len(first) or len(set(second)) < len(second)
    if (
        repeated
        or len(first) != len(second)
        or any([a.shape[i] != b.shape[j] for i, j in zip(first, second, strict=False)])
    ):
        raise ValueError(f"tensordot(): axes {axes} do not pair up in shapes {tuple(a.shape)} and {tuple(b.shape)}")
    return contraction.tensordot(a, b, (first, second))


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Inner products of vectors along a negative axis, those of x1 conjugated; the other axes broadcast.

    Raises ValueError unless both have the same size along the axis.
    """
    a, b = _vectors("vecdot", x1, x2, axis)
    return reduce.sum_.call(a.conj() * b, axis, False, a.dtype)


def _vectors(name: str, x1: Tensor, x2: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Two tensors in their common dtype and shape; along a negative axis their sizes are equal before."""
    a, b = _both(name, x1, x2)
    for x in (a, b):
        axis_of(name, x, axis)
    if axis >= 0:
        raise ValueError(f"{name}(): the axis must be negative, since it is one of both tensors, but is {axis}")
    if a.shape[axis] != b.shape[axis]:
        raise ValueError(f"{name}(): vectors of {a.shape[axis]} and of {b.shape[axis]} elements")
    first, second = shaping.broadcast_tensors(a, b)
    return first, second


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Cross products of vectors of three elements along a negative axis; the other axes broadcast.

    Raises ValueError for vectors of another size.
    """
    a, b = _vectors("cross", x1, x2, axis)
    if a.shape[axis] != 3:
        raise ValueError(f"cross(): vectors must have 3 elements, not {a.shape[axis]}")
    return products.cross(a, b, axis)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of each element of a vector with each of another. Raises ValueError for other than vectors."""
    a, b = _both("outer", x1, x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"outer(): expected vectors, got shapes {tuple(a.shape)} and {tuple(b.shape)}")
    return a.unsqueeze(1) * b


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """The n-th power of square matrices; of their inverses for a negative n."""
    return linalg.matrix_power(_stack("matrix_power", x), operator.index(n))


# -- diagonals --------------------------------------------------------------------------------------------------------


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices, or those so far above them (below for negative offsets)."""
    return _stack("diagonal", x).diagonal(offset, -2, -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """The sums of diagonals of matrices; integers are summed as int64 or uint64 unless a dtype is given."""
    return statistics.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


# -- norms ------------------------------------------------------------------------------------------------------------


def vector_norm(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """The norm of an order over axes: sum(abs(x) ** ord) ** (1 / ord); 0 counts what is not 0, inf is the largest and
    -inf the smallest absolute value.
    """
    values, axes, kept = reduced("vector_norm", x, axis, keepdims)
    return norms.vector_norm(values, ord, axes, kept)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of matrices: "fro", "nuc", 1 and -1 (columns), 2 and -2 (singular values), inf and -inf (rows)."""
    return norms.matrix_norm(_stack("matrix_norm", x), "fro" if ord is None else ord, (-2, -1), keepdims)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values of each matrix are larger than rtol times the largest."""
    return norms.matrix_rank(_stack("matrix_rank", x), rtol=rtol)


# -- systems and inverses ---------------------------------------------------------------------------------------------


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """X of x1 X = x2, stacks of matrices broadcast; x2 is a vector if it has one dimension, and matrices otherwise.

    Raises LinAlgError for a singular matrix, ValueError where shapes do not fit.
    """
    a, b = _both("solve", x1, x2)
    linalg.matrices("solve", a, True, "x1")
    right = b.unsqueeze(-1) if b.ndim == 1 else b
    if right.ndim == 0 or right.shape[-2] != a.shape[-1]:
        raise ValueError(f"solve(): shapes {tuple(a.shape)} and {tuple(b.shape)} do not fit")
    out = factor.solve.call(a, right)
    return out.squeeze(-1) if b.ndim == 1 else out


def inv(x: Tensor, /) -> Tensor:
    """The inverses of square matrices. Raises LinAlgError for a singular one."""
    return linalg.inv(x)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Moore and Penrose's inverses; singular values up to rtol times the largest count as 0."""
    return linalg.pinv(x, rtol=rtol)


def det(x: Tensor, /) -> Tensor:
    """The determinants of square matrices."""
    return linalg.det(x)


def slogdet(x: Tensor, /) -> SignLogdet:
    """The determinants' signs, and the logarithms of their absolute values."""
    return linalg.slogdet(x)


# -- decompositions ---------------------------------------------------------------------------------------------------


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """L of x = L L^H, or its adjoint if `upper`. Raises LinAlgError unless x is positive-definite."""
    return linalg.cholesky(x, upper=upper)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QR:
    """Q with orthonormal columns and the upper triangular R of x = Q R. Raises ValueError for another mode than these:
    "reduced" (as many columns as min(M, N)), "complete" (M).
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr(): mode must be 'reduced' or 'complete', not {mode!r}")
    return linalg.qr(x, mode)


def eigh(x: Tensor, /) -> Eigen:
    """Eigenvalues, rising, and eigenvectors of Hermitian matrices, whose lower triangle is read."""
    return linalg.eigh(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues, rising, of Hermitian matrices, whose lower triangle is read."""
    return linalg.eigvalsh(x)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVD:
    """U, S and V^H of x = U diag(S) V^H, singular values falling."""
    return linalg.svd(x, full_matrices)


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values, falling."""
    return linalg.svdvals(x)
