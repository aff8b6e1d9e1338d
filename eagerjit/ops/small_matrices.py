"""Linear algebra of small real matrices on a GPU: by kernels that hold a matrix each, and operations on tensors.

These are the bodies of ops whose results LAPACK computes on a CPU (`factor.py`, `spectral.py`, `eigenvalues.py`).
Singular values come from the one-sided Jacobi method (Hestenes, 1958): rotations make the columns of A V orthogonal,
whose norms they are. A factor Q of what that leaves is U, for columns that are 0 too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler.ops.host import BY_KERNELS
from eagerjit.ops.conditions import required
from eagerjit.ops.host import called
from eagerjit.ops.index import cat
from eagerjit.runtime import dtypes
from eagerjit.runtime.host import FUNCTIONS
from eagerjit.tensors.creation import arange
from eagerjit.tensors.tensor import Tensor

LARGEST = 64
"""Rows and columns at most: registers hold a matrix of so many."""


def fits(A: Tensor, *rest: Any) -> bool:
    """Whether kernels decompose matrices like these."""
    return not A.dtype.is_complex and A.shape[-2] <= LARGEST and A.shape[-1] <= LARGEST


def _batch(*tensors: Tensor) -> list[Tensor]:
    """Batches of matrices broadcast to each other."""
    from eagerjit.ops.subscript import broadcast_shapes

    batch: tuple[Any, ...] = ()
    for x in tensors:
        batch = broadcast_shapes(batch, tuple(x.shape[:-2]))
    return [x.expand(*batch, *x.shape[-2:]) for x in tensors]


def _unit(n: Any, like: Tensor, dtype: Any) -> Tensor:
    """The unit matrix of a size that stays a symbol."""
    places = arange(n, device=like.device)
    return (places.unsqueeze(-1) == places).to(dtype)


def _diagonal(x: Tensor) -> Tensor:
    """Of matrices with at least as many rows as columns, whose sizes stay symbols."""
    rows, columns = (arange(n, device=x.device) for n in x.shape[-2:])
    return x.where(rows.unsqueeze(-1) == columns, 0.0).sum(-2)


def _required(good: Tensor, x: Tensor, name: str, problem: str) -> Tensor:
    """x, where what holds of each matrix is good."""
    whole = good.reshape((*good.shape, *[1] * (x.ndim - good.ndim)))
    return required(whole.expand(x.shape), x, "LinAlgError", f"linalg.{name}: {problem}")


# -- triangular factors -----------------------------------------------------------------------------------------------


def cholesky_with_info(input: Tensor) -> tuple[Any, ...]:
    return called("linalg_cholesky_ex", [input], [(input.dtype, input.shape), (dtypes.int32, input.shape[:-2])])


def cholesky(problem: str) -> Any:
    """A factor where there is one."""

    def body(input: Tensor) -> Tensor:
        factor, info = cholesky_with_info(input)
        return _required(info == 0, factor, "cholesky", problem)

    return body


def lu(input: Tensor) -> tuple[Any, ...]:
    m, n = input.shape[-2:]
    types = [(input.dtype, input.shape), (dtypes.int32, (*input.shape[:-2], m if m < n else n))]
    return called("linalg_lu_factor", [input], types)


def permutation(pivots: Tensor, rows: Any) -> Tensor:
    steps = pivots.shape[-1]
    message = (
        "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
        "Did you properly pass the result of lu_factor?"
    )
    if steps > rows:
        raise RuntimeError(message)
    sound = required((pivots >= 1).logical_and(pivots <= rows), pivots, "RuntimeError", message)
    return called("lu_permutation", [sound], [(dtypes.int64, (*pivots.shape[:-1], rows))], rows)[0]


def triangular(A: Tensor, B: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    A, B = _batch(A, B)
    return called("linalg_solve_triangular", [A, B], [(B.dtype, B.shape)], upper, unitriangular)[0]


def _zero_pivot(factors: Tensor) -> Tensor:
    """The number of the first pivot that is 0, or 0."""
    zero = _diagonal(factors) == 0
    if zero.shape[-1] == 0:
        return zero.sum(-1).to(dtypes.int32)
    first = (arange(zero.shape[-1], device=factors.device) + 1).where(zero, LARGEST + 1).amin(-1)
    return (first * (first <= LARGEST)).to(dtypes.int32)


def _substituted(factors: Tensor, pivots: Tensor, B: Tensor) -> Tensor:
    return called("substituted", [factors, pivots, B], [(B.dtype, B.shape)])[0]


def solve_with_info(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    A, B = _batch(A, B)
    factors, pivots = lu(A)
    info = _zero_pivot(factors)
    singular = (info != 0).unsqueeze(-1).unsqueeze(-1)
    return B.where(singular, _substituted(factors, pivots, B)), info


def solve(problem: str) -> Any:
    """The solution where there is one."""

    def body(A: Tensor, B: Tensor) -> Tensor:
        found, info = solve_with_info(A, B)
        return _required(info == 0, found, "solve", problem)

    return body


def inverse_with_info(input: Tensor) -> tuple[Tensor, Tensor]:
    unit = _unit(input.shape[-1], input, input.dtype).expand(input.shape)
    found, info = solve_with_info(input, unit)
    return input.where((info != 0).unsqueeze(-1).unsqueeze(-1), found), info


def inverse(problem: str) -> Any:
    """The inverse where there is one."""

    def body(input: Tensor) -> Tensor:
        found, info = inverse_with_info(input)
        return _required(info == 0, found, "inv", problem)

    return body


def _pivots(input: Tensor) -> tuple[Tensor, Tensor]:
    """The diagonal of U, and 1 or -1 for the exchanges of rows."""
    factors, pivots = lu(input)
    steps = arange(pivots.shape[-1], device=input.device) + 1
    exchanges = (pivots != steps).sum(-1)
    return _diagonal(factors), (1 - exchanges % 2 * 2).to(input.dtype)


def determinant(input: Tensor) -> Tensor:
    diagonal, sign = _pivots(input)
    return diagonal.prod(-1) * sign


def sign_and_logarithm(input: Tensor) -> tuple[Tensor, Tensor]:
    diagonal, sign = _pivots(input)
    return diagonal.sign().prod(-1) * sign, diagonal.abs().log().sum(-1)


# -- orthogonal factors -----------------------------------------------------------------------------------------------


def qr(input: Tensor, mode: str) -> tuple[Any, ...]:
    m, n = input.shape[-2:]
    k = m if mode == "complete" or m < n else n
    batch = input.shape[:-2]
    return called("linalg_qr", [input], [(input.dtype, (*batch, m, k)), (input.dtype, (*batch, k, n))], f"{mode}")


def _columns(input: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of A V as rows, orthogonal to each other, and those of V, in double precision."""
    m, n = input.shape[-2:]
    unit = _unit(n, input, dtypes.float64).expand((*input.shape[:-2], n, n))
    both = cat.call([input.mT, unit], -1)
    found = called("orthogonal_columns", [both], [(both.dtype, both.shape)])[0]
    return found[..., :m], found[..., m:]


def _scaled(input: Tensor, name: str, problem: str) -> tuple[Tensor, Tensor]:
    """Matrices in double precision over their largest element, and that; no squares overflow then."""
    good = input.isfinite().all(-1).all(-1)
    wide = _required(good, input, name, problem).double()
    if input.shape[-1] == 0 or input.shape[-2] == 0:
        return wide, wide.sum((-2, -1), keepdim=True) + 1.0
    scale = wide.abs().amax((-2, -1), keepdim=True)
    scale = scale.where(scale > 0.0, 1.0)
    return wide / scale, scale


def _falling(rows: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Norms of rows, falling, with the rows and vectors in their order."""
    norms = (rows * rows).sum(-1).sqrt()
    order = norms.argsort(-1, descending=True)
    place = order.unsqueeze(-1)
    return norms.gather(-1, order), *(x.gather(-2, place.expand(x.shape)) for x in (rows, vectors))


def _tall_svd(input: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """U, S and V^T of matrices with at least as many rows as columns."""
    n = input.shape[-1]
    norms, rows, vectors = _falling(*_columns(input))
    q, r = qr(rows.mT, "complete" if full else "reduced")
    sign = _diagonal(r) < 0
    ones = norms * 0.0 + 1.0
    signs = (-ones).where(sign, ones)
    left = q[..., :n] * signs.unsqueeze(-2)
    return (cat.call([left, q[..., n:]], -1) if full else left), norms, vectors


def svd(problem: str, name: str = "svd") -> Any:
    """U, S and V^T."""

    def body(input: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
        scaled, scale = _scaled(input, name, problem)
        if input.shape[-2] < input.shape[-1]:
            v, s, ut = _tall_svd(scaled.mT, full)
            u, vh = ut.mT, v.mT
        else:
            u, s, vh = _tall_svd(scaled, full)
        return u.to(input.dtype), (s * scale[..., 0]).to(input.dtype), vh.to(input.dtype)

    return body


def singular_values(problem: str) -> Any:
    """S alone."""

    def body(input: Tensor) -> Tensor:
        scaled, scale = _scaled(input, "svdvals", problem)
        rows, _ = _columns(scaled.mT if input.shape[-2] < input.shape[-1] else scaled)
        norms = (rows * rows).sum(-1).sqrt()
        return (norms.sort(-1, descending=True)[0] * scale[..., 0]).to(input.dtype)

    return body


def eigh(problem: str, name: str = "eigh") -> Any:
    """Eigenvalues, rising, and vectors: those of A + c, which has no negative ones, are its singular vectors."""

    def body(input: Tensor, UPLO: str) -> tuple[Tensor, Tensor]:
        strict = input.tril(-1) if UPLO == "L" else input.triu(1)
        whole = strict + strict.mT + input.tril().triu()
        scaled, scale = _scaled(whole, name, problem)
        n = input.shape[-1]
        shift = (scaled * scaled).sum((-2, -1), keepdim=True).sqrt()
        unit = _unit(n, input, dtypes.float64)
        _, vectors = _columns(scaled + unit * shift)
        values = (vectors * (vectors @ scaled)).sum(-1)
        order = values.argsort(-1)
        vectors = vectors.gather(-2, order.unsqueeze(-1).expand(vectors.shape))
        return (values.gather(-1, order) * scale[..., 0]).to(input.dtype), vectors.mT.to(input.dtype)

    return body


def eigenvalues(problem: str) -> Any:
    """Those of `eigh`."""
    both = eigh(problem)
    return lambda input, UPLO: both(input, UPLO)[0]


# -- what is made of these --------------------------------------------------------------------------------------------


def _inverse_values(s: Tensor, bound: Any) -> Tensor:
    """Of singular values above a bound the inverse, of others 0."""
    kept = s > bound
    return (1.0 / s.where(kept, 1.0)) * kept


def pseudoinverse(problem: str) -> Any:
    """Moore and Penrose's inverse; of a symmetric matrix the lower triangle is read."""
    parts = svd(problem, "pinv")

    def body(input: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
        u, s, vh = parts(input.tril() + input.tril(-1).mT if hermitian else input, False)
        atol, rtol = (x[..., 0] if isinstance(x, Tensor) else x for x in (atol, rtol))
        relative = rtol * (s[..., :1] if s.shape[-1] else s.sum(-1, keepdim=True))
        return (vh.mT * _inverse_values(s, relative.maximum(relative * 0.0 + atol)).unsqueeze(-2)) @ u.mT

    return body


def least_squares(problem: str) -> Any:
    """The X of least norm that minimises the norm of A X - B."""
    parts = svd(problem, "lstsq")

    def body(A: Tensor, B: Tensor, rcond: float) -> Tensor:
        u, s, vh = parts(A, False)
        largest = s[..., :1] if s.shape[-1] else s.sum(-1, keepdim=True)
        relative = rcond if rcond >= 0 else float(np.finfo(A.dtype.numpy).eps)
        return vh.mT @ (_inverse_values(s, largest * relative).unsqueeze(-1) * (u.mT @ B))

    return body


def _products_but_one(s: Tensor) -> Tensor:
    """For each number of the last dimension the product of all others."""
    ones = (s * 0.0 + 1.0)[..., :1]
    before = cat.call([ones, s], -1).cumprod(-1)[..., : s.shape[-1]]
    return before * cat.call([ones, s.flip(-1)], -1).cumprod(-1)[..., : s.shape[-1]].flip(-1)


def cofactors(problem: str) -> Any:
    """Cofactors and how they change with a change (`determinants.py` has the formulas): singular matrices have both."""
    parts = svd(problem, "det")

    def body(input: Tensor, change: Tensor | None = None) -> Tensor:
        u, s, vh = parts(input, True)
        sign = (determinant(u) * determinant(vh)).unsqueeze(-1).unsqueeze(-1)
        if change is None:
            return (u * _products_but_one(s).unsqueeze(-2)) @ vh * sign
        n = s.shape[-1]
        unit = _unit(n, s, dtypes.bool_)
        most = _products_but_one((s.unsqueeze(-2) * 0.0 + 1.0).where(unit, s.unsqueeze(-2)))
        inner = u.mT @ change @ vh.mT
        diagonal = _diagonal(inner)
        sums = (most @ diagonal.unsqueeze(-1))[..., 0] - _diagonal(most) * diagonal
        return u @ sums.unsqueeze(-1).where(unit, -most * inner.mT) @ vh * sign

    return body


def exponential(input: Tensor) -> Tensor:
    return called("linalg_matrix_exp", [input], [(input.dtype, input.shape)])[0]


# -- what kernels compute that LAPACK has no name for -----------------------------------------------------------------


def _substituted_array(factors: np.ndarray, pivots: np.ndarray, right: np.ndarray) -> np.ndarray:
    """X of A X = B from what an LU decomposition of A gives."""
    out = right.copy()
    n = factors.shape[-1]
    for place in np.ndindex(factors.shape[:-2]):
        matrix, x = factors[place], out[place]
        for k, other in enumerate(pivots[place] - 1):
            x[[k, other]] = x[[other, k]]
        for k in range(n):
            x[k] -= matrix[k, :k] @ x[:k]
        for k in reversed(range(n)):
            x[k] = (x[k] - matrix[k, k + 1 :] @ x[k + 1 :]) / matrix[k, k]
    return out


def _orthogonal_array(both: np.ndarray) -> np.ndarray:
    """The lines of [A^T, I] rotated so that those of A^T are orthogonal."""
    n = both.shape[-2]
    given = np.swapaxes(both[..., :-n] if n else both, -1, -2)
    _, _, vh = np.linalg.svd(given) if n else (None, None, given)
    return np.matmul(vh, both) if n else both


FUNCTIONS["substituted" + BY_KERNELS] = _substituted_array
FUNCTIONS["orthogonal_columns" + BY_KERNELS] = _orthogonal_array
