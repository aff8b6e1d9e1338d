"""Linear algebra under the namespace's older names, with their arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

from eagerjit import linalg
from eagerjit.calling.casts import converting
from eagerjit.calling.public import public
from eagerjit.calling.results import returned
from eagerjit.ops import pivots, products
from eagerjit.tensors.tensor import Tensor

det, slogdet, matrix_exp, matrix_power = linalg.det, linalg.slogdet, linalg.matrix_exp, linalg.matrix_power


@returned("svd")
class USV(NamedTuple):
    """The result of `svd`."""

    U: Tensor
    S: Tensor
    V: Tensor


@returned("qr")
class OrthogonalTriangular(linalg.QR):
    """The result of `qr`."""

    __slots__ = ()


@returned("lu_unpack")
class Unpacked(linalg.PLU):
    """The result of `lu_unpack`."""

    __slots__ = ()


@returned("triangular_solve")
class SolutionCoefficients(NamedTuple):
    """The result of `triangular_solve`."""

    solution: Tensor
    cloned_coefficient: Tensor


@converting
@public
def inverse(input: Tensor) -> Tensor:
    """The inverse. Raises LinAlgError for a singular matrix."""
    return linalg.inv(input)


@converting
@public
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Moore and Penrose's inverse."""
    return linalg.pinv(input, rtol=rcond)


@public
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant: NaN where that is a negative number, complex of complex matrices."""
    sign, logarithm = linalg.slogdet(input)
    if sign.is_complex():
        return sign.log() + logarithm
    return logarithm.where(sign != -1.0, float("nan"))


@converting
@public
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """L of input = L L^H, or its adjoint. Raises LinAlgError unless input is positive-definite."""
    return linalg.cholesky(input, upper=upper)


@converting
@public
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """X of A X = input, where input2 is the Cholesky factor L of A = L L^H, or L^H if `upper`.

    (..., n, k) and (..., n, n) give (..., n, k). Raises RuntimeError for fewer dimensions and for two dtypes.
    """
    if input.ndim < 2 or input2.ndim < 2:
        raise RuntimeError(
            f"b should have at least 2 dimensions, but has {min(input.ndim, input2.ndim)} dimensions "
            "instead"
        )
    if input.dtype is not input2.dtype:
        raise RuntimeError(
            f"cholesky_solve(): Expected b and A to have the same dtype, but found b of type {input.dtype} and A of "
            f"type {input2.dtype}"
        )
    lower = input2.mH if upper else input2
    middle = linalg.solve_triangular(lower, input, upper=False)
    return linalg.solve_triangular(lower.mH, middle, upper=True)


@converting
@public
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A = L L^H, where input is the factor L, or L^H if `upper`: (..., n, n) to the same shape."""
    from eagerjit.tensors.creation import eye

    unit = eye(input.shape[-1], dtype=input.dtype, device=input.device)
    return cholesky_solve(unit.expand(input.shape), input, upper)


@converting
@public
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> SolutionCoefficients:
    """X of A X = input, A triangular, and A."""
    if input.ndim < 2 or A.ndim < 2:
        raise RuntimeError("torch.triangular_solve: Expected b and A to have at least 2 dimensions")
    matrix, is_upper = (A.mT, not upper) if transpose else (A, upper)
    found = linalg.solve_triangular(matrix, input, upper=is_upper, unitriangular=unitriangular)
    return SolutionCoefficients(found, A.clone())


@converting
@public
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> USV:
    """U, S and V of input = U diag(S) V^H."""
    if not compute_uv:
        values, batch = linalg.svdvals(input), tuple(input.shape[:-2])
        u, v = (input.new_zeros((*batch, n, n)) for n in input.shape[-2:])
        return USV(u, values, v)
    u, s, vh = linalg.svd(input, not some)
    return USV(u, s, vh.mH)


@converting
@public
def qr(input: Tensor, some: bool = True) -> linalg.QR:
    """Q and R of input = Q R."""
    return OrthogonalTriangular(*linalg.qr(input, "reduced" if some else "complete"))


@public
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """L and U of A in one matrix, the rows exchanged, and on request the first pivot of each matrix that is 0, or 0."""
    found = tuple(linalg.lu_factor_ex(A, pivot=pivot))
    return found if get_infos else found[:2]


@converting
@public
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X of A X = input from what `lu(A)` gives."""
    return linalg.lu_solve(LU_data, LU_pivots, input)


@public
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> linalg.PLU:
    """P, L and U from what `lu(A)` gives; what is not wanted is empty."""
    from eagerjit.runtime import dtypes

    if LU_pivots.dtype is not dtypes.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    permutation, lower, upper = pivots.unpacked(LU_data, LU_pivots)
    empty = LU_data.new_empty((0,))
    return Unpacked(permutation if unpack_pivots else empty, *((lower, upper) if unpack_data else (empty, empty)))


cross = products.cross_of_namespace
