"""Eigenvalues and eigenvectors: by LAPACK, with derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.ops import small_matrices as small
from eagerjit.ops.factor import FAILED, MatrixOp, guarded, is_differentiated, real_of, solve
from eagerjit.runtime import direct, dtypes
from eagerjit.tensors.tensor import Tensor

# -- of Hermitian matrices ------------------------------------------------------------------------------------------


def _eigh_arrays(input: np.ndarray, UPLO: str) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, rising, and orthonormal eigenvectors as columns."""
    values, vectors = np.empty(input.shape[:-1], input.real.dtype), np.empty_like(input)
    if not direct.computed("linalg_eigh", (input, UPLO), (values, vectors)):
        values, vectors = np.linalg.eigh(input, UPLO)  # type: ignore[call-overload]
    return values, vectors


def _differences(values: Any) -> Any:
    """values[j] - values[i], 1 on the diagonal."""
    from eagerjit.tensors.creation import eye

    return values.unsqueeze(-2) - values.unsqueeze(-1) + eye(values.shape[-1], dtype=values.dtype, device=values.device)


def _eigh_rule(g: Any, out: Any, input: Any, UPLO: str) -> Any:
    values, vectors = out
    rotation, gaps = vectors.mH @ g[1], _differences(values)
    rotation = (rotation - rotation.mH) * 0.5  # of orthonormal vectors; what is symmetric only scales them
    gaps = gaps.masked_fill((gaps == 0) & (rotation == 0), 1)  # vectors of one value that nothing turns
    return vectors @ (rotation / gaps + g[0].to(rotation.dtype).diag_embed()) @ vectors.mH


eigh = MatrixOp(
    "linalg_eigh",
    guarded("eigh", _eigh_arrays, FAILED),
    (_eigh_rule, None),
    types=lambda input, UPLO: [(real_of(input.dtype), input.shape[:-1]), (input.dtype, input.shape)],
    by_kernels=small.eigh(FAILED),
)


def _eigvalsh_array(input: np.ndarray, UPLO: str) -> np.ndarray:
    """Eigenvalues, rising."""
    values = np.empty(input.shape[:-1], input.real.dtype)
    if direct.computed("linalg_eigvalsh", (input, UPLO), (values,)):
        return values
    return np.linalg.eigvalsh(input, UPLO)  # type: ignore[call-overload]


def _eigvalsh_rule(g: Any, out: Any, input: Any, UPLO: str) -> Any:
    _, vectors = eigh.call(input, UPLO)
    return (vectors * g.to(vectors.dtype).unsqueeze(-2)) @ vectors.mH


eigvalsh = MatrixOp(
    "linalg_eigvalsh",
    guarded("eigh", _eigvalsh_array, FAILED),
    (_eigvalsh_rule, None),
    types=lambda input, UPLO: (real_of(input.dtype), input.shape[:-1]),
    by_kernels=small.eigenvalues(FAILED),
)


def hermitian_values(A: Tensor, UPLO: str) -> Tensor:
    """Eigenvalues, rising, of Hermitian matrices; with the vectors, which their gradient needs, where there is one."""
    return eigh.call(A, UPLO)[0] if is_differentiated(A) else eigvalsh.call(A, UPLO)


# -- of any matrix -----------------------------------------------------------------------------------------------------


def _eig_arrays(input: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Complex eigenvalues, and eigenvectors of norm 1 as columns."""
    values, vectors = np.linalg.eig(input)
    kind = np.result_type(input.dtype, np.complex64)
    return values.astype(kind), vectors.astype(kind)


def _eig_rule(g: Any, out: Any, input: Any) -> Any:
    """Boeddeker et al. (2019): only the change of vectors that is orthogonal to them counts, for their norm is 1."""
    values, vectors = out
    gram = vectors.mH @ vectors
    inside = vectors.mH @ g[1]
    inside = inside - gram * inside.diagonal(0, -2, -1).real.unsqueeze(-2)
    inside = inside / _differences(values).conj()
    inside = inside - inside.tril().triu() + g[0].diag_embed()
    found = solve.call(vectors.mH, inside @ vectors.mH)
    return found if input.dtype.is_complex else found.real


eig = MatrixOp(
    "linalg_eig",
    guarded("eig", _eig_arrays, FAILED),
    (_eig_rule,),
    types=lambda input: [
        (dtypes.COMPLEX_OF.get(input.dtype, input.dtype), input.shape[:-1]),
        (dtypes.COMPLEX_OF.get(input.dtype, input.dtype), input.shape),
    ],
)
