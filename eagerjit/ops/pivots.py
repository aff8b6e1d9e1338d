"""The exchanges of rows of an LU decomposition, and its factors, taken apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.ops.host import LoweredOp
from eagerjit.ops.small_matrices import permutation
from eagerjit.runtime import direct, dtypes


def _permutation_array(pivots: np.ndarray, rows: int) -> np.ndarray:
    """Where each row of P comes from, after the exchanges of rows."""
    out = np.empty((*pivots.shape[:-1], rows), np.int64)
    if direct.computed("lu_permutation", (pivots, rows), (out,)):
        return out
    if pivots.shape[-1] > rows or ((pivots < 1) | (pivots > rows)).any():
        raise RuntimeError(
            "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
            "Did you properly pass the result of lu_factor?"
        )
    order = np.broadcast_to(np.arange(rows), (*pivots.shape[:-1], rows)).copy()
    for place in np.ndindex(pivots.shape[:-1]):
        row = order[place]
        for k, other in enumerate(pivots[place] - 1):
            row[k], row[other] = row[other], row[k]
    return np.argsort(order, -1).astype(np.int64)


class _Permutation(LoweredOp):
    def suits(self, pivots: Any, rows: Any) -> bool:
        """Whether a program has room for so many rows."""
        return bool(rows <= 1024)


permutation_of = _Permutation(
    "lu_permutation",
    _permutation_array,
    differentiable=False,
    on_host="exchanges of rows, each on what those before have left",
    types=lambda pivots, rows: (dtypes.int64, (*pivots.shape[:-1], rows)),
    by_kernels=permutation,
)


def unpacked(factors: Any, pivots: Any) -> tuple[Any, Any, Any]:
    """P, L and U from one matrix that holds both factors, and the rows exchanged."""
    from eagerjit.tensors.creation import arange, eye

    m, n = factors.shape[-2:]
    k = m if m < n else n
    order = permutation_of.call(pivots, m)
    permutation = (order.unsqueeze(-1) == arange(m, device=order.device)).to(factors.dtype)
    lower = factors[..., :, :k].tril(-1) + eye(m, k, dtype=factors.dtype, device=factors.device)
    return permutation, lower, factors[..., :k, :].triu()
