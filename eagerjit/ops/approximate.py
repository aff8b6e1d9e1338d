"""Singular values and vectors of large matrices of low rank, by random projections.

Halko, Martinsson and Tropp, Finding structure with randomness, SIAM Review 2011, algorithms 4.4 and 5.1.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from eagerjit import linalg, random
from eagerjit.calling.public import public
from eagerjit.tensors.tensor import Tensor

Triple: TypeAlias = tuple[Tensor, Tensor, Tensor]


def _basis(A: Tensor, size: int, rounds: int) -> Tensor:
    """Orthonormal columns that nearly span the range of A."""
    drawn = random.randn(A.shape[-1], size, dtype=A.dtype, device=A.device)
    q = linalg.qr(A @ drawn).Q
    for _ in range(rounds):
        q = linalg.qr(A @ linalg.qr(A.mH @ q).Q).Q
    return q


@public
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> Triple:
    """U, S and V: the q largest singular values of A (of A - M) and their vectors; `niter` rounds sharpen them.

    The last two dimensions are matrices. Random numbers are drawn.
    """
    m, n = A.shape[-2:]
    matrix: Any = A if M is None else A - M.expand(A.shape)
    wide = m < n
    matrix = matrix.mH if wide else matrix
    basis = _basis(matrix, 6 if q is None else q, 2 if niter is None else niter)
    u, s, vh = linalg.svd(basis.mH @ matrix, full_matrices=False)
    u, v = basis @ u, vh.mH
    return (v, s, u) if wide else (u, s, v)


@public
def pca_lowrank(A: Tensor, q: int | None = None, center: Any = True, niter: int = 2) -> Triple:
    """Principal components of the rows of A: `svd_lowrank` of A less the mean of its rows, of min(6, m, n) components
    unless `q` says how many. Raises ValueError for a count outside of that."""
    m, n = A.shape[-2:]
    count = min(6, m, n) if q is None else q
    if not 0 <= count <= min(m, n):
        raise ValueError(f"q(={count}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, count, niter)
