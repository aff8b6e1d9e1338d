"""Norms of vectors and matrices, and what follows from them."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.public import public
from eagerjit.ops import factor, reduce, spectral, views
from eagerjit.ops.eigenvalues import hermitian_values
from eagerjit.runtime import dtypes
from eagerjit.tensors.tensor import Tensor


@public
def vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of order `ord` of elements, over dimensions or all: sum(|x|**ord)**(1 / ord), or the largest of sizes.

    Reduced dimensions go away, or have size 1 with `keepdim`. Raises RuntimeError for integers and for a norm that
    nothing has, TypeError for names.
    """
    return _vector_norm(x, ord, dim, keepdim, dtype)


def _vector_norm(x: Tensor, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    if not x.dtype.is_differentiable:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {x.dtype.name}"
        )
    if isinstance(ord, str):
        raise TypeError("linalg_vector_norm(): argument 'ord' must be Number, not str")
    if isinstance(ord, complex):
        raise RuntimeError("linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
    x = x if dtype is None else x.to(dtype)
    x = x.abs() if x.dtype.is_complex else x
    dims = tuple(dim) if isinstance(dim, (list, tuple)) and dim else _one(dim)
    if x.numel() == 0 and (ord < 0 or ord == math.inf):
        empty = [d for d in reduce.axes_of(dims, x.ndim) if x.shape[d] == 0]
        if dims is None or empty:
            where = "an empty tensor" if dims is None else f"the empty dimension {empty[0]}"
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {ord} norm on {where} because the operation does not have an "
                "identity"
            )
    return reduce.norm(x, ord, dims, keepdim)


def _singular_values(name: str, A: Tensor) -> Tensor:
    """Singular values, falling. Raises RuntimeError for dtypes that have none."""
    if A.dtype not in dtypes.COMPLEX_OF and not A.dtype.is_complex:
        raise RuntimeError(f"linalg.{name}: Expected matrices of real or complex numbers. Got {A.dtype.name}")
    return spectral.singular_values(A)


def _extreme(x: Tensor, dim: int, keepdim: bool, largest: bool) -> Tensor:
    """The largest of sizes along a dimension, 0 of none; or the smallest."""
    if largest and x.shape[dim] == 0:
        return reduce.sum_.call(x, dim, keepdim)
    return (reduce.amax if largest else reduce.amin).call(x, dim, keepdim)


def _one(dim: Any) -> Any:
    return None if isinstance(dim, (list, tuple)) else dim


def _pair(dim: Any, rank: int) -> tuple[int, int]:
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
    a, b = (views.dimension(d, rank) for d in dim)
    if a == b:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return a, b


@public
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """A norm of matrices: "fro", "nuc", 2 and -2 (singular values), 1 and -1 (columns), inf and -inf (rows).

    Over two dimensions, which go away unless `keepdim`. Raises RuntimeError for other orders.
    """
    if A.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    if not A.dtype.is_differentiable:
        raise RuntimeError(
            f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {A.dtype.name}"
        )
    rows, columns = _pair(dim, A.ndim)
    A = A if dtype is None else A.to(dtype)
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim)
    if ord in (1, -1, math.inf, -math.inf):
        first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = vector_norm(A, 1, first, True)
        out = _extreme(sums, second, True, ord > 0)
    elif ord in ("nuc", 2, -2):
        values = _singular_values("matrix_norm", A.movedim((rows, columns), (-2, -1)))
        if ord == "nuc":
            out = values.sum(-1)
        else:
            out = _extreme(values, -1, False, ord > 0)
        for d in sorted((rows, columns)):
            out = out.unsqueeze(d)
    else:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    return out if keepdim else out.squeeze((rows, columns))


@public
def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of vectors or matrices: of vectors over one dimension or all, of matrices over two."""
    if ord is not None and (isinstance(ord, str) or dim is None or (isinstance(dim, (tuple, list)) and len(dim) == 2)):
        if isinstance(dim, (tuple, list)) and len(dim) == 2:
            return matrix_norm(A, ord, tuple(dim), keepdim, dtype=dtype)
        if dim is None:
            if A.ndim > 2 or (A.ndim < 2 and isinstance(ord, str)):
                raise RuntimeError(
                    f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
                )
            if A.ndim == 2:
                return matrix_norm(A, ord, (-2, -1), keepdim, dtype=dtype)
        elif isinstance(ord, str):
            raise RuntimeError(f"linalg.norm: If ord is a str, dim must be a 2-tuple. Got {dim}")
    return _vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype)


@public
def matrix_rank(A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """How many singular values are larger than max(atol, rtol * largest), which are numbers or one for each matrix.

    Of `hermitian` matrices the lower half is read.
    """
    if A.ndim < 2:
        raise RuntimeError("linalg.matrix_rank: The input tensor input must have at least 2 dimensions.")
    if hermitian:
        factor.matrices("eigvalsh", A, True)
    values = hermitian_values(A, "L").abs() if hermitian else _singular_values("matrix_rank", A)
    if tol is not None:
        atol, rtol = tol, 0.0
    if rtol is None:
        rtol = 0.0 if atol is not None else spectral.resolution(A)
    if values.shape[-1] == 0:
        return values.sum(-1).long()
    low, relative = (x[..., None] if isinstance(x, Tensor) else x for x in (0.0 if atol is None else atol, rtol))
    limit = (reduce.amax.call(values, -1, True) * relative).clamp(min=low)
    return (values > limit).sum(-1)


@public
def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number, the norm of A times that of its inverse, of (..., n, n): (...); for 2 (or None) of (..., m,
    n).
    """
    if A.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor A must have at least 2 dimensions.")
    if p in (None, 2, -2):
        values = _singular_values("cond", A)
        if values.shape[-1] == 0:
            return values.new_zeros(values.shape[:-1])
        large, small = values[..., 0], values[..., -1]
        return small / large if p == -2 else large / small
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"linalg.cond: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )
    return matrix_norm(A, p) * matrix_norm(factor.inv.call(A), p)


@public
def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of matrices' singular values."""
    return matrix_norm(input, "nuc", dim, keepdim)


@public
def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The square root of the sum of squares."""
    return vector_norm(input, 2, dim, keepdim)
