"""Solving systems, inverses, determinants, triangular factors of batches of matrices: by NumPy, with derivatives.

Derivatives are written in these operations, so they can be differentiated again; they follow PyTorch's convention for
complex numbers: gradients are those of the conjugate.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.ops import small_matrices as small
from eagerjit.ops.host import LoweredOp, like
from eagerjit.ops.index import cat
from eagerjit.ops.pivots import unpacked
from eagerjit.runtime import direct, dtypes, mode
from eagerjit.runtime.lapack import on_few_threads
from eagerjit.runtime.program import LinAlgError
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor


class MatrixOp(LoweredOp):
    """An op of NumPy's on matrices, which are the last two dimensions; all others are a batch.

    Kernels compute it of small real ones on a GPU.
    """

    leading = True
    wirtinger = True
    on_host = "LAPACK: complex matrices, those of more than 64 rows or columns, and eigenvalues of any matrix"

    def __init__(self, name: str, function: Callable[..., Any], *arguments: Any, **options: Any):
        super().__init__(name, on_few_threads(function), *arguments, **options)

    def suits(self, *arguments: Any) -> bool:
        """Whether kernels decompose matrices like these."""
        return small.fits(*arguments)


def guarded(name: str, function: Callable[..., Any], problem: str) -> Any:
    """A function of NumPy's; where it fails, the PyTorch exception that names the op and the first such matrix."""

    @functools.wraps(function)
    def compute(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except np.linalg.LinAlgError:
            raise LinAlgError(f"linalg.{name}: {_first_failure(function, arguments)}{problem}") from None

    return compute


def _first_failure(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """Which matrix of a batch it was."""
    matrices, *rest = arguments
    if matrices.ndim == 2 or any(isinstance(a, np.ndarray) for a in rest):
        return ""
    for place, matrix in enumerate(matrices.reshape(-1, *matrices.shape[-2:])):
        try:
            function(matrix, *rest)
        except np.linalg.LinAlgError:
            return f"(Batch element {place}): "
    return ""


def batch_shape(*tensors: Any) -> tuple[Any, ...]:
    """The shape that the batches broadcast to."""
    from eagerjit.ops.shaping import broadcast_shapes

    return tuple(broadcast_shapes(*(x.shape[:-2] for x in tensors)))


def matrices(name: str, A: Tensor, square: bool = False, argument: str = "A") -> None:
    """Refuse what is not a batch of (square) matrices of real or complex numbers."""
    if not isinstance(A, Tensor):
        raise TypeError(f"linalg_{name}(): argument '{argument}' must be Tensor, not {type(A).__name__}")
    if A.ndim < 2:
        raise RuntimeError(
            f"linalg.{name}: The input tensor {argument} must have at least 2 dimensions, got shape {list(A.shape)}."
        )
    if square and A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"linalg.{name}: {argument} must be batches of square matrices, but they are {A.shape[-2]} by "
            f"{A.shape[-1]} matrices"
        )
    if not A.dtype.is_differentiable:
        raise RuntimeError(
            f"linalg.{name}: Expected a floating point or complex tensor as input. Got {TYPE_NAMES[A.dtype]}"
        )
    if A.dtype in (dtypes.float16, dtypes.bfloat16):
        raise RuntimeError(f"linalg.{name}: Low precision dtypes not supported. Got {TYPE_NAMES[A.dtype]}")


def is_vector(A: Tensor, B: Tensor) -> bool:
    """Whether the right side of a system holds vectors."""
    return B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))


def right_side(A: Tensor, B: Tensor, left: bool) -> tuple[Tensor, bool]:
    """The right side of a system as matrices, and whether it holds vectors; refuses what no matrix A goes with."""
    if not isinstance(B, Tensor):
        raise TypeError(f"linalg_solve(): argument 'B' (position 2) must be Tensor, not {type(B).__name__}")
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"linalg.solve: Expected A and B to have the same dtype, but found A of type {TYPE_NAMES[A.dtype]} and B "
            f"of type {TYPE_NAMES[B.dtype]} instead"
        )
    vector = is_vector(A, B)
    if vector and not left:
        raise RuntimeError("linalg.solve: Vector broadcasting of the left hand side is not supported for left=False.")
    right = B.unsqueeze(-1) if vector else B
    matrices("solve", right, argument="B")
    batch_shape(A, right)
    if right.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({A.shape[-2]}x{A.shape[-1]} and {right.shape[-2]}x{right.shape[-1]})"
        )
    return right, vector


FAILED = "The algorithm failed to converge because the input matrix is ill-conditioned or has NaN or infinite elements."
SINGULAR = "The diagonal element is zero, the inversion could not be completed because the input matrix is singular."

UNSOLVABLE = "The solver failed because the input matrix is singular."
INDEFINITE = (
    "The factorization could not be completed because the input is not positive-definite (the leading minor is not "
    "positive-definite)."
)


def real_of(dtype: Any) -> Any:
    """The dtype of a number's real part."""
    return dtypes.REAL_OF.get(dtype, dtype)


def is_differentiated(A: Tensor) -> bool:
    """Whether there may be a gradient of what is computed of A now."""
    return A.requires_grad and mode.asked_grad_mode()


def _with_nan_of(A: np.ndarray, found: np.ndarray) -> np.ndarray:
    """What a matrix with NaN in it is solved for is NaN: not all versions of LAPACK divide by such a pivot."""
    found[np.broadcast_to(np.isnan(A).any((-2, -1)), found.shape[:-2])] = np.nan
    return found


def _inv_array(input: np.ndarray) -> np.ndarray:
    """The inverse."""
    out = np.empty_like(input)
    return out if direct.computed("linalg_inv", (input,), (out,)) else _with_nan_of(input, np.linalg.inv(input))


inv = MatrixOp(
    "linalg_inv",
    guarded("inv", _inv_array, SINGULAR),
    (lambda g, out, input: -(out.mH @ g @ out.mH),),
    types=like,
    by_kernels=small.inverse(SINGULAR),
)


def _solve_types(A: Tensor, B: Tensor) -> Any:
    return B.dtype, (*batch_shape(A, B), *B.shape[-2:])


def _room(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Memory for a solution."""
    return np.empty((*np.broadcast_shapes(A.shape[:-2], B.shape[:-2]), *B.shape[-2:]), B.dtype)


def _solve_array(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """X of A X = B."""
    out = _room(A, B)
    return out if direct.computed("linalg_solve", (A, B), (out,)) else _with_nan_of(A, np.linalg.solve(A, B))


def _solve_left(g: Any, out: Any, A: Any, B: Any) -> Any:
    return -(solve.call(A.mH, g) @ out.mH)


solve = MatrixOp(
    "linalg_solve",
    guarded("solve", _solve_array, UNSOLVABLE),
    (_solve_left, lambda g, out, A, B: solve.call(A.mH, g)),
    types=_solve_types,
    by_kernels=small.solve(UNSOLVABLE),
)


def _triangular_arrays(A: np.ndarray, B: np.ndarray, upper: bool, unitriangular: bool) -> np.ndarray:
    """X of A X = B, reading one triangle of A: by substitution, row after row."""
    out = _room(A, B)
    if direct.computed("linalg_solve_triangular", (A, B, upper, unitriangular), (out,)):
        return out
    n = A.shape[-1]
    out[...] = B
    for row in reversed(range(n)) if upper else range(n):
        known = slice(row + 1, n) if upper else slice(0, row)
        out[..., row, :] -= np.matmul(A[..., row : row + 1, known], out[..., known, :])[..., 0, :]
        if not unitriangular:
            out[..., row, :] /= A[..., row : row + 1, row]
    return out


def _triangle(x: Any, upper: bool, unitriangular: bool) -> Any:
    return x.triu(int(unitriangular)) if upper else x.tril(-int(unitriangular))


def _triangular_matrix(g: Any, out: Any, A: Any, B: Any, upper: bool, unitriangular: bool) -> Any:
    return _triangle(-(triangular.call(A.mH, g, not upper, unitriangular) @ out.mH), upper, unitriangular)


triangular = MatrixOp(
    "linalg_solve_triangular",
    _triangular_arrays,
    (
        _triangular_matrix,
        lambda g, out, A, B, upper, unitriangular: triangular.call(A.mH, g, not upper, unitriangular),
        None,
        None,
    ),
    types=lambda A, B, *rest: _solve_types(A, B),
    by_kernels=small.triangular,
)


# -- Cholesky ---------------------------------------------------------------------------------------------------------


def _cholesky_rule(g: Any, out: Any, input: Any) -> Any:
    """Murray (2016): L^-H times the lower triangle of L^H g, half its diagonal, times L^-1, made Hermitian."""
    middle = (out.mH @ g.tril()).tril()
    middle = middle - 0.5 * middle.tril().triu()
    left = triangular.call(out.mH, middle, True, False)
    full = triangular.call(out.mH, left.mH, True, False).mH
    return 0.5 * (full + full.mH)


def _cholesky_array(input: np.ndarray) -> np.ndarray:
    """The lower triangular L of input = L L^H."""
    out = np.empty_like(input)
    if direct.computed("linalg_cholesky", (input,), (out,)):
        return out
    out = np.linalg.cholesky(input)
    if np.isnan(np.diagonal(out, axis1=-2, axis2=-1)).any():  # LAPACK's own test, which not all of its versions have
        raise np.linalg.LinAlgError
    return out


cholesky = MatrixOp(
    "linalg_cholesky",
    guarded("cholesky", _cholesky_array, INDEFINITE),
    (_cholesky_rule,),
    types=like,
    by_kernels=small.cholesky(INDEFINITE),
)


# -- LU ---------------------------------------------------------------------------------------------------------------


def _lu_arrays(input: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """L below and U on and above the diagonal of one matrix, and the row that each step exchanged (from 1 on)."""
    m, n = input.shape[-2:]
    steps = min(m, n)
    factors, rows = np.empty_like(input), np.empty((*input.shape[:-2], steps), np.int32)
    if direct.computed("linalg_lu_factor", (input,), (factors, rows)):
        return factors, rows
    flat = input.reshape(math.prod(input.shape[:-2]), m, n).copy()
    pivots = np.zeros((len(flat), steps), np.int32)
    every = np.arange(len(flat))
    for k in range(steps):
        rows = k + np.argmax(np.abs(flat[:, k:, k]), 1)
        pivots[:, k] = rows + 1
        flat[every, k], flat[every, rows] = flat[every, rows], flat[every, k].copy()
        divisor = np.where(flat[:, k, k] == 0, 1, flat[:, k, k])
        flat[:, k + 1 :, k] /= divisor[:, None]
        flat[:, k + 1 :, k + 1 :] -= flat[:, k + 1 :, k, None] * flat[:, k, None, k + 1 :]
    return flat.reshape(input.shape), pivots.reshape(*input.shape[:-2], steps)


def _lu_types(input: Tensor) -> Any:
    m, n = input.shape[-2:]
    return [(input.dtype, input.shape), (dtypes.int32, (*input.shape[:-2], m if m < n else n))]


def _lu_rule(g: Any, out: Any, input: Any) -> Any:
    """With X = L^-1 dA U^-1 of the square part, dL = L X's strict lower triangle and dU = X's upper one times U; what
    is below or beside the square part follows from dA = dL U + L dU. Each line is that transposed."""
    m, n = input.shape[-2:]
    k = m if m < n else n
    permutation, lower, upper = unpacked(out[0], out[1])
    below, above = g[0][..., :, :k].tril(-1), g[0][..., :k, :].triu()
    first, square = lower[..., :k, :], upper[..., :, :k]
    lows, highs = first.mH @ below[..., :k, :], above[..., :, :k] @ square.mH
    if m > n:
        highs = highs - lower[..., k:, :].mH @ below[..., k:, :]
    if m < n:
        lows = lows - above[..., :, k:] @ upper[..., :, k:].mH
    left = triangular.call(first.mH, lows.tril(-1) + highs.triu(), True, True)
    result = triangular.call(square, left.mH, True, False).mH
    if m > n:
        result = cat.call([result, triangular.call(square, below[..., k:, :].mH, True, False).mH], -2)
    if m < n:
        result = cat.call([result, triangular.call(first.mH, above[..., :, k:], True, True)], -1)
    return permutation @ result


lu = MatrixOp("linalg_lu_factor", _lu_arrays, (_lu_rule,), types=_lu_types, by_kernels=small.lu)
