"""Linear algebra on batches of matrices, the last two dimensions."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.casts import CASTS, converting
from eagerjit.calling.kinds import is_integer
from eagerjit.calling.public import public
from eagerjit.control.structure import in_vmap
from eagerjit.ops import determinants, eigenvalues, factor, spectral, views
from eagerjit.ops.checked import cholesky_ex, inv_ex, lu_factor, lu_factor_ex, lu_solve, solve_ex
from eagerjit.ops.factor import LinAlgError, is_vector, matrices, right_side
from eagerjit.ops.factored import (
    PLU,
    QR,
    SVD,
    Eigen,
    EigenOfHermitian,
    LeastSquares,
    SignLogdet,
)
from eagerjit.ops.indefinite import ldl_factor, ldl_factor_ex, ldl_solve
from eagerjit.ops.norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from eagerjit.ops.pivots import unpacked
from eagerjit.ops.products import cross, multi_dot, vecdot
from eagerjit.recording.numbers import to_float
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import eye
from eagerjit.tensors.mistakes import explained_functions
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh",
    "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq", "lu", "lu_factor",
    "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot",
    "norm", "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv",
    "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip


# -- systems and inverses ---------------------------------------------------------------------------------------------


@public
def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices (..., n, n). Raises LinAlgError for a singular one, RuntimeError for other shapes.
    """
    matrices("inv", A, True)
    return factor.inv.call(A)


@public
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of A X = B (X A = B unless `left`): A is (..., n, n), B (..., n, k) or vectors (..., n); batches broadcast.

    By LU with pivots. Raises LinAlgError for a singular matrix, RuntimeError for shapes and dtypes that do not fit.
    """
    matrices("solve", A, True)
    right, vector = right_side(A, B, left)
    if left:
        out = factor.solve.call(A, right)
        return out.squeeze(-1) if vector else out
    return factor.solve.call(A.mT, right.mT).mT


@public
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X of A X = B (X A = B unless `left`), A triangular: its other half is not read."""
    matrices("solve_triangular", A, True)
    matrices("solve_triangular", B, argument="B")
    if B.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            "linalg.solve_triangular: Incompatible shapes of A and B for the equation "
            f"{'AX = B' if left else 'XA = B'} "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    if left:
        return factor.triangular.call(A, B, bool(upper), bool(unitriangular))
    return factor.triangular.call(A.mT, B.mT, not upper, bool(unitriangular)).mT


@public
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """L of A = L L^H, lower triangular, or with `upper` its adjoint; of A (..., n, n) one triangle is read.

    Raises LinAlgError unless A is positive-definite.
    """
    matrices("cholesky", A, True)
    out = factor.cholesky.call(A)
    return out.mH if upper else out


@public
def det(A: Tensor) -> Tensor:
    """The determinant of square matrices: (..., n, n) to (...), by LU."""
    matrices("det", A, True)
    return determinants.det.call(A)


@public
def slogdet(A: Tensor) -> SignLogdet:
    """The determinant's sign, and the logarithm of its absolute value, which does not overflow: (...) each, of (..., n,
    n).
    """
    matrices("slogdet", A, True)
    return SignLogdet(*determinants.slogdet.call(A))


@public
def lu(A: Tensor, *, pivot: bool = True) -> PLU:
    """P, L and U of A = P L U with rows exchanged: (..., m, m), (..., m, k) and (..., k, n) of (..., m, n), k = min(m,
    n).
    """
    matrices("lu", A)
    if not pivot:
        raise NotImplementedError("linalg.lu: pivot=False is not supported on the CPU")
    return PLU(*unpacked(*factor.lu.call(A)))


@public
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """The X that minimises the norm of A X - B, the squared residuals, A's rank and singular values.

    A is (..., m, n), B (..., m, k) or vectors, X (..., n, k). Singular values up to `rcond` times the largest count as
    0; by default the precision of the dtype times max(m, n). Which of the other three are empty depends on `driver`, as
    in PyTorch; there are no residuals where a rank is below n. Raises RuntimeError for other drivers, and for shapes
    and dtypes that do not fit.
    """
    matrices("lstsq", A)
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype {A.dtype} and "
            f"other's dtype {B.dtype}"
        )
    driver = driver or ("gels" if A.device.type == "cuda" else "gelsy")
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError("torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    vector = is_vector(A, B)
    right = B.unsqueeze(-1) if vector else B
    m, n = A.shape[-2:]
    if right.shape[-2] != m:
        raise RuntimeError(
            f"torch.linalg.lstsq: input.size(-2) should match other.size(-2), but got {m} and {right.shape[-2]}"
        )
    limit = spectral.resolution(A) if rcond is None else float(rcond)
    solution = spectral.lstsq.call(A, right, limit)
    real = dtypes.REAL_OF.get(A.dtype, A.dtype)
    rank = matrix_rank(A.detach(), rtol=limit) if driver != "gels" else A.new_zeros((0,), dtype=dtypes.int64)
    residuals = (solution.real if A.dtype.is_complex else solution).flatten()[:0]
    if _has_residuals(driver, m, n, rank):
        residuals = ((A @ solution - right).abs() ** 2).sum(-2)
    values = svdvals(A.detach()) if driver in ("gelsd", "gelss") else A.new_zeros((0,), dtype=real)
    return LeastSquares(solution.squeeze(-1) if vector else solution, residuals, rank, values)


def _has_residuals(driver: str, m: Any, n: Any, rank: Tensor) -> bool:
    """Whether there are more rows than columns, and none of these is known to depend on others."""
    if m <= n or driver == "gelsy":
        return False
    if driver == "gels" or in_vmap():  # vmap's examples have one shape, whatever their ranks are
        return True
    return bool((rank == n).all())


@public
def pinv(A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """Moore and Penrose's inverse; singular values up to max(atol, rtol * largest) count as 0.

    The limits are numbers, or tensors with one for each matrix.
    """
    matrices("pinv", A, hermitian)
    rtol = rcond if rtol is None else rtol
    if rtol is None:
        rtol = 0.0 if atol is not None else spectral.resolution(A)
    limits = [
        x[..., None, None] if isinstance(x, Tensor) else to_float(x) for x in (0.0 if atol is None else atol, rtol)
    ]
    return spectral.pinv.call(A, *limits, bool(hermitian))


# -- decompositions ---------------------------------------------------------------------------------------------------


@public
def qr(A: Tensor, mode: str = "reduced") -> QR:
    """Q with orthonormal columns and the upper triangular R of A = Q R; mode "r" gives an empty Q.

    Of (..., m, n), k = min(m, n): (..., m, k) and (..., k, n), or with mode "complete" (..., m, m) and (..., m, n).
    Raises RuntimeError for other modes.
    """
    matrices("qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    q, r = spectral.qr.call(A, "reduced" if mode == "r" else mode)
    return QR(A.new_zeros((0,)) if mode == "r" else q, r)


@public
def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of reflectors I - tau v v^H, which lie below the diagonal of m by n matrices
    with 1 on it, as `geqrf` gives them."""
    matrices("householder_product", input, argument="input")
    m, n = input.shape[-2:]
    if m < n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to "
            f"input.shape[-1], but they are {m} and {n}"
        )
    if tau.ndim != input.ndim - 1 or tuple(tau.shape[:-1]) != tuple(input.shape[:-2]):
        raise RuntimeError(
            f"torch.linalg.householder_product: Expected tau of shape {[*input.shape[:-2], n]} at most, but got "
            f"{list(tau.shape)}"
        )
    if tau.shape[-1] > n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1], but "
            f"they are {n} and {tau.shape[-1]}"
        )
    if tau.dtype is not input.dtype:
        raise RuntimeError(
            f"torch.linalg.householder_product: tau dtype {tau.dtype} does not match input dtype {input.dtype}"
        )
    unit = eye(m, n, dtype=input.dtype, device=input.device)
    vectors, product = input.tril(-1) + unit, unit.expand(input.shape)
    for k in reversed(range(tau.shape[-1])):
        vector = vectors[..., :, k : k + 1]
        product = product - tau[..., k, None, None] * (vector @ (vector.mH @ product))
    return product.clone() if tau.shape[-1] == 0 else product


@public
def eigh(A: Tensor, UPLO: str = "L") -> Eigen:
    """Eigenvalues, rising, and eigenvectors of Hermitian matrices, of which one triangle is read.

    Of (..., n, n): real values (..., n), and vectors as columns (..., n, n). Raises RuntimeError for other triangles
    than "L" and "U".
    """
    matrices("eigh", A, True)
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return EigenOfHermitian(*eigenvalues.eigh.call(A, UPLO.upper()))


@public
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues, rising, of Hermitian matrices: (..., n, n) to (..., n); see `eigh`."""
    matrices("eigh", A, True)
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return eigenvalues.hermitian_values(A, UPLO.upper())


@public
def eig(A: Tensor) -> Eigen:
    """Complex eigenvalues (..., n) and eigenvectors, as columns of (..., n, n), of square matrices; of norm 1, in no
    order.
    """
    matrices("eig", A, True)
    return Eigen(*eigenvalues.eig.call(A))


@public
def eigvals(A: Tensor) -> Tensor:
    """Complex eigenvalues of square matrices, in no order: (..., n, n) to (..., n)."""
    return eig(A).eigenvalues


@public
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """U, S and V^H of A = U diag(S) V^H, singular values falling.

    Of (..., m, n), k = min(m, n): (..., m, m), (..., k) and (..., n, n), or without `full_matrices` (..., m, k), (...,
    k) and (..., k, n). Raises RuntimeError for a `driver` on the CPU.
    """
    matrices("svd", A)
    _check_driver(A, driver)
    return SVD(*spectral.svd.call(A, bool(full_matrices)))


@public
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Singular values, falling: (..., m, n) to (..., min(m, n))."""
    matrices("svdvals", A)
    _check_driver(A, driver)
    return spectral.singular_values(A)


def _check_driver(A: Tensor, driver: str | None) -> None:
    """Refuse a choice among a GPU's algorithms for what is on the CPU; on a GPU it changes nothing."""
    if driver is not None and not A.is_cuda:
        raise RuntimeError("torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs")


@public
def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of matrices: the sum of A^i / i!, (..., n, n) to the same shape."""
    matrices("matrix_exp", A, True)
    return spectral.matrix_exp.call(A)


@public
def matrix_power(A: Tensor, n: int) -> Tensor:
    """The n-th power of matrices, n any integer: of the inverse if it is negative. LinAlgError where there is none."""
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        matrices("matrix_power", A if A.dtype.is_differentiable else A.float(), True)
    if n == 0:
        return eye(A.shape[-1], dtype=A.dtype, device=A.device).expand(A.shape).clone()
    base = inv(A) if n < 0 else A
    out: Any = None
    power = abs(int(n))
    while power:
        if power % 2:
            out = base if out is None else out @ base
        power //= 2
        base = base @ base if power else base
    return out.clone() if n == 1 else out


# -- the rest ---------------------------------------------------------------------------------------------------------


@public
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices."""
    return A.diagonal(offset, dim1, dim2)


@public
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A as a matrix from its last dimensions to its first `ind`.

    Raises RuntimeError unless both have the same number of elements, and for an `ind` below 1.
    """
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    rows, columns = math.prod(first), math.prod(last)
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
            f"but got {columns} != {rows}"
        )
    return inv(A.reshape(rows, columns)).reshape((*last, *first))


@public
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """X of tensordot(A, X, X.ndim) = B: its shape is that of A's last dimensions, B's that of the first.

    `dims` are moved to the end of A first. Raises RuntimeError unless both have equally many elements.
    """
    if dims is not None:
        rest = [d for d in range(A.ndim) if d not in [views.dimension(x, A.ndim) for x in dims]]
        A = A.permute([*rest, *(views.dimension(x, A.ndim) for x in dims)])
    shape = tuple(A.shape[B.ndim :])
    if math.prod(shape) != B.numel():
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim])"
        )
    return solve(A.reshape(B.numel(), -1), B.reshape(-1)).reshape(shape)


@public
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0, 1, ..., N - 1 of elements along a new last dimension: (..., n) to (..., n, N), N = n without."""
    from eagerjit.tensors.creation import arange

    if N is not None and not is_integer(N):
        raise TypeError(f"linalg_vander(): argument 'N' must be int, not {type(N).__name__}")
    base = x if x.dtype.is_differentiable else x.long()
    base = base if x.ndim else base.unsqueeze(0)
    count = base.shape[-1] if N is None else N
    return base.unsqueeze(-1) ** arange(count, device=base.device)


@public
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The product of matrices or vectors: `torch.matmul`, with its shapes and errors."""
    return input.matmul(other)


_functions = {name: globals()[name] for name in __all__ if name in globals()}
_functions.update({name: converting(function) for name, function in _functions.items() if name in CASTS - {"matmul"}})
globals().update(explained_functions(_functions, __name__))
