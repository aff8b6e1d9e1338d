"""LDL^T of symmetric or Hermitian matrices that may be indefinite, and systems solved by it.

Bunch and Kaufman (1977) with LAPACK's choice of pivots and its form: D has blocks of one or two rows, L lies below, and
`pivots` says which row was exchanged, counted from 1, negative and twice where a block has two rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.calling.dispatch import Op
from eagerjit.calling.public import public
from eagerjit.ops.conditions import required
from eagerjit.ops.factor import LinAlgError, MatrixOp, batch_shape, matrices
from eagerjit.ops.factored import LDL, LDLInfo
from eagerjit.runtime import dtypes
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor

_ON_HOST = "exchanges of rows and columns, each chosen by the numbers that those before have left"
_GROWTH = (1 + math.sqrt(17)) / 8
"""How small a pivot of one row may be, measured by what stands beside it."""


def _adjoint(matrix: np.ndarray, hermitian: bool) -> np.ndarray:
    return matrix.T.conj() if hermitian else matrix.T


def _size(numbers: np.ndarray) -> np.ndarray:
    """LAPACK's measure of numbers."""
    return np.abs(numbers.real) + np.abs(numbers.imag) if np.iscomplexobj(numbers) else np.abs(numbers)


def _choice(a: np.ndarray, k: int) -> tuple[int, int]:
    """(the row to be exchanged, the rows of the next block); (k, 0) where the column is all zeros."""
    own, column = _size(a[k, k]), _size(a[k + 1 :, k])
    largest = column.max() if column.size else 0.0
    if max(own, largest) == 0 or np.isnan(own):
        return k, 0
    if own >= _GROWTH * largest:
        return k, 1
    row = k + 1 + int(column.argmax())
    beside = max(_size(a[row, k:row]).max(), _size(a[row + 1 :, row]).max(initial=0.0))
    if own >= _GROWTH * largest * (largest / beside):
        return k, 1
    return row, 1 if _size(a[row, row]) >= _GROWTH * beside else 2


def _exchange(a: np.ndarray, first: int, second: int, hermitian: bool) -> None:
    """Exchange two rows and columns of a matrix of which what is above the diagonal is not read."""
    whole = np.tril(a) + _adjoint(np.tril(a, -1), hermitian)
    order = np.arange(len(a))
    order[[first, second]] = second, first
    a[:] = np.tril(whole[np.ix_(order, order)])


def _factor(matrix: np.ndarray, hermitian: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """(L and D, pivots, the number of the first pivot that is 0)."""
    a, n, k, info = np.tril(matrix), len(matrix), 0, 0
    pivots = np.zeros(n, np.int32)
    while k < n:
        if hermitian:  # what rounding adds to the diagonal would grow
            np.fill_diagonal(a[k:, k:], a[k:, k:].diagonal().real)
        row, count = _choice(a, k)
        end = k + max(count, 1)
        if row != end - 1:
            _exchange(a[k:, k:], end - 1 - k, row - k, hermitian)
        pivots[k:end] = row + 1 if count < 2 else -(row + 1)
        if count == 0:
            info = info or k + 1
        else:
            block = a[k:end, k:end]
            whole = np.tril(block) + _adjoint(np.tril(block, -1), hermitian)
            scaled = np.linalg.solve(whole.T, a[end:, k:end].T).T
            a[end:, end:] -= np.tril(scaled @ _adjoint(a[end:, k:end], hermitian))
            a[end:, k:end] = scaled
        k = end
    return a, pivots, info


def _ldl_arrays(A: np.ndarray, hermitian: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """L and D in one matrix, pivots, and per matrix 0 or the number of the first pivot that is 0."""
    factors, batch = np.empty_like(A), A.shape[:-2]
    pivots, info = np.empty(A.shape[:-1], np.int32), np.empty(batch, np.int32)
    for place in np.ndindex(batch):
        factors[place], pivots[place], info[place] = _factor(A[place], hermitian)
    return factors, pivots, info


def _solved(factors: np.ndarray, pivots: np.ndarray, right: np.ndarray, hermitian: bool) -> np.ndarray:
    """X of A X = right."""
    x, n = right.copy(), len(factors)
    starts: list[tuple[int, int]] = []
    while not starts or starts[-1][1] < n:
        k = starts[-1][1] if starts else 0
        starts.append((k, k + (1 if pivots[k] > 0 else 2)))
    for k, end in starts:
        row = abs(int(pivots[k])) - 1
        x[[end - 1, row]] = x[[row, end - 1]]
        x[end:] -= factors[end:, k:end] @ x[k:end]
        block = np.tril(factors[k:end, k:end])
        whole = block + _adjoint(np.tril(block, -1), hermitian)
        x[k:end] = x[k:end] / block if end == k + 1 else np.linalg.solve(whole, x[k:end])
    for k, end in reversed(starts):
        x[k:end] -= _adjoint(factors[end:, k:end], hermitian) @ x[end:]
        row = abs(int(pivots[k])) - 1
        x[[end - 1, row]] = x[[row, end - 1]]
    return x


def _solve_array(LD: np.ndarray, pivots: np.ndarray, B: np.ndarray, hermitian: bool) -> np.ndarray:
    """X of A X = B from the factors of A."""
    batch = np.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    out = np.array(np.broadcast_to(B, (*batch, *B.shape[-2:])))
    factors, exchanged = np.broadcast_to(LD, (*batch, *LD.shape[-2:])), np.broadcast_to(pivots, (*batch, LD.shape[-1]))
    for place in np.ndindex(batch if out.size else (0,)):
        out[place] = _solved(factors[place], exchanged[place], out[place], hermitian)
    return out


def _no_rule(*arguments: Any) -> Any:
    raise RuntimeError("derivative for aten::linalg_ldl_factor_ex is not implemented")


def _solve_rule(g: Any, out: Any, LD: Any, pivots: Any, B: Any, hermitian: bool) -> Any:
    """The matrix is its own adjoint, or its own transpose."""
    return solve.call(LD, pivots, g, True) if hermitian else solve.call(LD, pivots, g.conj(), False).conj()


class _OnHost(MatrixOp):
    on_host = _ON_HOST

    def suits(self, *arguments: Any) -> bool:
        """No kernels choose pivots so."""
        return False


ldl = _OnHost(
    "linalg_ldl_factor",
    _ldl_arrays,
    (_no_rule, None),
    types=lambda A, hermitian: [(A.dtype, A.shape), (dtypes.int32, A.shape[:-1]), (dtypes.int32, A.shape[:-2])],
)
solve = _OnHost(
    "linalg_ldl_solve",
    _solve_array,
    (_no_rule, None, _solve_rule, None),
    types=lambda LD, pivots, B, hermitian: (LD.dtype, (*batch_shape(LD, B), *B.shape[-2:])),
)


def _sound(factors: Tensor, info: Tensor) -> Tensor:
    """L and D, which are refused where a pivot is 0."""
    return required((info == 0).all(), factors, "RuntimeError", "torch.linalg.ldl_factor: a pivot of D is zero")


_sound_op = Op("sound_pivots", _sound, (lambda g, out, factors, info: g, None))


@public
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> LDL:
    """L and D of A = L D L^T (L D L^H if `hermitian`) in one matrix, and pivots.

    Raises RuntimeError where a pivot is 0.
    """
    matrices("ldl_factor_ex", A, True)
    factors, pivots, info = ldl.call(A, bool(hermitian))
    return LDL(_sound_op.call(factors, info), pivots)


@public
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> LDLInfo:
    """`ldl_factor`, and per matrix 0, or the number of the first pivot that is 0."""
    matrices("ldl_factor_ex", A, True)
    found = LDLInfo(*ldl.call(A, bool(hermitian)))
    if check_errors and (found.info != 0).any():
        raise LinAlgError(f"torch.linalg.ldl_factor_ex: a pivot of D is zero (info: {found.info.tolist()})")
    return found


@public
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X of A X = B from what `ldl_factor(A, hermitian=hermitian)` gives."""
    matrices("ldl_solve", LD, True)
    matrices("ldl_solve", B, argument="B")
    if B.shape[-2] != LD.shape[-1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for torch.linalg.ldl_solve: each A matrix is {LD.shape[-1]} by {LD.shape[-1]} "
            f"but each b matrix is {B.shape[-2]} by {B.shape[-1]}"
        )
    if tuple(pivots.shape) != tuple(LD.shape[:-1]):
        raise RuntimeError(
            "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if pivots.dtype is not dtypes.int32:
        raise RuntimeError(f"torch.linalg.ldl_solve: Expected pivots to be Int. Got {TYPE_NAMES[pivots.dtype]}")
    if B.dtype is not LD.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {TYPE_NAMES[B.dtype]} and A of type "
            f"{TYPE_NAMES[LD.dtype]} instead."
        )
    return solve.call(LD, pivots, B, bool(hermitian))
