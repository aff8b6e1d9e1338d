"""Factors, inverses and solutions that come with a number per matrix: 0, or what went wrong, in place of an error.

And what LU factors solve.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter
from typing import Any

import numpy as np

from eagerjit.calling.dispatch import Op
from eagerjit.calling.public import public
from eagerjit.ops import factor
from eagerjit.ops import small_matrices as small
from eagerjit.ops.conditions import required
from eagerjit.ops.factor import LinAlgError, MatrixOp, matrices
from eagerjit.ops.factored import LU, FactorInfo, InverseInfo, LUInfo, ResultInfo
from eagerjit.ops.pivots import unpacked
from eagerjit.runtime import dtypes
from eagerjit.runtime.parameters import Parameters
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor


def _with_info(
    name: str, whole: Callable[..., np.ndarray], one: Callable[..., tuple[np.ndarray, int]], rules: Any, types: Any,
    by_kernels: Any,
) -> MatrixOp:
    """An op whose second result is the info; `one` computes it matrix by matrix where the whole batch fails."""

    def compute(*arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
        info = np.zeros(batch, np.int32)
        try:
            return whole(*arrays), info
        except np.linalg.LinAlgError:
            wide = [np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays]
            out = np.empty_like(wide[-1])
            for place in np.ndindex(batch):
                out[place], info[place] = one(*(a[place] for a in wide))
            return out, info

    names = ("A", "B")[: len(rules)]
    compute.takes = Parameters(names, (Parameter.empty,) * len(names))  # type: ignore[attr-defined]
    compute.__doc__ = f"`linalg.{name}` and 0 per matrix, or what went wrong."
    return MatrixOp(f"linalg_{name}_ex", compute, rules, types=types, by_kernels=by_kernels)


def _typed(types: Callable[..., Any]) -> Callable[..., Any]:
    def both(*tensors: Tensor) -> Any:
        dtype, shape = types(*tensors)
        return [(dtype, shape), (dtypes.int32, tuple(shape)[:-2])]

    return both


def _one_cholesky(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    """L, and the order of the first leading minor that is not positive: minors after it are not asked."""
    low, high = 0, matrix.shape[-1]
    known = np.zeros((0, 0), matrix.dtype)
    while low < high:
        middle = (low + high + 1) // 2
        try:
            known, low = factor._cholesky_array(matrix[:middle, :middle]), middle
        except np.linalg.LinAlgError:
            high = middle - 1
    out = np.tril(matrix)
    out[:low, :low] = known
    return out, 0 if low == matrix.shape[-1] else low + 1


def _zero_pivot(matrix: np.ndarray) -> int:
    """The number of the first pivot that is 0."""
    zeros = np.flatnonzero(np.diagonal(factor._lu_arrays(matrix)[0]) == 0)
    return int(zeros[0]) + 1 if zeros.size else 0


def _one_inverse(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    info = _zero_pivot(matrix)
    return (matrix, info) if info else (np.linalg.inv(matrix), 0)


def _one_solution(matrix: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, int]:
    info = _zero_pivot(matrix)
    return (right, info) if info else (np.linalg.solve(matrix, right), 0)


def _of_first(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A gradient rule for the first of two results."""
    return lambda g, out, *arguments: rule(g[0], out[0], *arguments)


def _of_firsts(op: MatrixOp) -> tuple[Callable[..., Any], ...]:
    return tuple(_of_first(rule) for rule in op.rules or () if rule is not None)


_cholesky = _with_info(
    "cholesky", factor._cholesky_array, _one_cholesky, (_of_first(factor._cholesky_rule),), _typed(factor.like),
    small.cholesky_with_info,
)  # fmt: skip
_inverse = _with_info(
    "inv", factor._inv_array, _one_inverse, _of_firsts(factor.inv), _typed(factor.like), small.inverse_with_info
)
_solution = _with_info(
    "solve", factor._solve_array, _one_solution, _of_firsts(factor.solve), _typed(factor._solve_types),
    small.solve_with_info,
)  # fmt: skip


def _checked(name: str, info: Tensor, problem: str, check_errors: bool) -> None:
    if check_errors and (info != 0).any():
        raise LinAlgError(f"linalg.{name}: {problem} (info: {info.tolist()})")


@public
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> FactorInfo:
    """L of A = L L^H, and per matrix 0, or the order of the first leading minor that is not positive-definite."""
    matrices("cholesky_ex", A, True)
    found, info = _cholesky.call(A)
    _checked("cholesky_ex", info, "The input is not positive-definite.", check_errors)
    return FactorInfo(found.mH if upper else found, info)


@public
def inv_ex(A: Tensor, *, check_errors: bool = False) -> InverseInfo:
    """The inverse, and per matrix 0, or the number of the first pivot that is 0: then there is no inverse."""
    matrices("inv_ex", A, True)
    found, info = _inverse.call(A)
    _checked("inv_ex", info, factor.SINGULAR, check_errors)
    return InverseInfo(found, info)


@public
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> ResultInfo:
    """X of A X = B, and per matrix 0, or the number of the first pivot that is 0: then there is no solution."""
    matrices("solve_ex", A, True)
    right, vector = factor.right_side(A, B, left)
    found, info = _solution.call(A, right) if left else _solution.call(A.mT, right.mT)
    _checked("solve_ex", info, "The input matrix is singular.", check_errors)
    found = found if left else found.mT
    return ResultInfo(found.squeeze(-1) if vector else found, info)


_ZERO_PIVOT = (
    "is zero and using it on lu_solve would result in a division by zero. If you still want to perform the "
    "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
)


def _sound(factors: Tensor) -> Tensor:
    """L and U, which are refused where a pivot is 0."""
    sound = (factors.diagonal(dim1=-2, dim2=-1) != 0).all()
    return required(sound, factors, "RuntimeError", f"torch.linalg.lu_factor: a diagonal element of U {_ZERO_PIVOT}")


_sound_op = Op("sound_factors", _sound, (lambda g, out, factors: g,))


@public
def lu_factor(A: Tensor, *, pivot: bool = True) -> LU:
    """L and U of P A = L U in one matrix, and the rows that were exchanged, numbered from 1.

    Raises RuntimeError where a pivot is 0.
    """
    matrices("lu_factor", A)
    if not pivot:
        raise NotImplementedError("linalg.lu_factor: pivot=False is not supported on the CPU")
    factors, rows = factor.lu.call(A)
    return LU(_sound_op.call(factors), rows)


@public
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUInfo:
    """`lu_factor`, and per matrix 0, or the number of the first pivot that is 0."""
    matrices("lu_factor_ex", A)
    if not pivot:
        raise NotImplementedError("linalg.lu_factor_ex: pivot=False is not supported on the CPU")
    factors, pivots = factor.lu.call(A)
    zero = factors.detach().diagonal(dim1=-2, dim2=-1) == 0
    first = zero.to(dtypes.int32).argmax(-1) + 1 if zero.shape[-1] else zero.sum(-1)
    info = (first * zero.any(-1)).to(dtypes.int32)
    if check_errors and (info != 0).any():
        numbers = info.reshape(-1).tolist()
        place = next(i for i, number in enumerate(numbers) if number)
        batch = f"(Batch element {place}): " if info.ndim else ""
        raise RuntimeError(f"torch.linalg.lu_factor_ex: {batch}U[{numbers[place]},{numbers[place]}] {_ZERO_PIVOT}")
    return LUInfo(factors, pivots, info)


@public
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X of A X = B from what `lu_factor(A)` gives; with `adjoint` of A^H X = B.

    Raises RuntimeError for shapes that do not fit and for pivots that are not int32.
    """
    matrices("lu_solve", LU, True)
    matrices("lu_solve", B, argument="B")
    if pivots.dtype is not dtypes.int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    if pivots.ndim == 0 or pivots.shape[-1] != LU.shape[-1]:
        raise RuntimeError("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
    if tuple(pivots.shape) != tuple(LU.shape[:-1]):
        raise RuntimeError(
            "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if B.dtype is not LU.dtype:
        raise RuntimeError(
            f"linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type {TYPE_NAMES[LU.dtype]} "
            f"and B of type {TYPE_NAMES[B.dtype]} instead"
        )
    if B.shape[-2 if left else -1] != LU.shape[-1]:
        raise RuntimeError(
            f"linalg.lu_solve: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
            f"({LU.shape[-2]}x{LU.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    permutation, lower, upper = unpacked(LU, pivots)
    if not left:
        return lu_solve(LU, pivots, B.mH, left=True, adjoint=not adjoint).mH
    if adjoint:
        middle = factor.triangular.call(upper.mH, B, False, False)
        return permutation @ factor.triangular.call(lower.mH, middle, True, True)
    middle = factor.triangular.call(lower, permutation.mT @ B, False, True)
    return factor.triangular.call(upper, middle, True, False)
