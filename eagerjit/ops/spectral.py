"""Orthogonal factors, singular values and what is made of them: by LAPACK and NumPy, with derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.ops import small_matrices as small
from eagerjit.ops.factor import FAILED, MatrixOp, batch_shape, guarded, is_differentiated, real_of, triangular
from eagerjit.runtime import direct, mode
from eagerjit.tensors.tensor import Tensor


def _least(a: Any, b: Any) -> Any:
    return a if a < b else b


# -- QR ---------------------------------------------------------------------------------------------------------------


def _qr_arrays(input: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Q with orthonormal columns and the upper triangular R."""
    m, n = input.shape[-2:]
    k = m if mode == "complete" else min(m, n)
    q, r = (np.empty((*input.shape[:-2], *shape), input.dtype) for shape in ((m, k), (k, n)))
    if not direct.computed("linalg_qr", (input, mode), (q, r)):
        q, r = np.linalg.qr(input, mode)  # type: ignore[call-overload]
    return q, r


def _qr_types(input: Tensor, mode: str) -> Any:
    m, n = input.shape[-2:]
    k = m if mode == "complete" else _least(m, n)
    batch = input.shape[:-2]
    return [(input.dtype, (*batch, m, k)), (input.dtype, (*batch, k, n))]


def _square_qr(gq: Any, gr: Any, q: Any, r: Any) -> Any:
    """Walter and Lehmann: (gQ + Q times the Hermitian matrix whose lower triangle is R gR^H - gQ^H Q) R^-H."""
    inside = r @ gr.mH - gq.mH @ q
    strict = inside.tril(-1)
    diagonal = inside.tril() - strict  # of which only the real part counts: R has a real one
    hermitian = strict + strict.mH + 0.5 * (diagonal + diagonal.mH)
    return triangular.call(r, (gq + q @ hermitian).mH, True, False).mH


def _qr_rule(g: Any, out: Any, input: Any, mode: str) -> Any:
    (gq, gr), (q, r) = g, out
    m, n = input.shape[-2:]
    if mode == "complete" and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols. "
            "Only mode='reduced' is supported then."
        )
    if m >= n:
        return _square_qr(gq, gr, q, r)
    # The left square of a wide matrix has this QR; the rest is Q times the rest of R.
    right = input[..., m:]
    whole = gq + right @ gr[..., m:].mH
    return _joined(_square_qr(whole, gr[..., :m], q, r[..., :m]), q @ gr[..., m:])


def _joined(left: Any, right: Any) -> Any:
    from eagerjit.ops.index import cat

    return cat.call([left, right], -1)


qr = MatrixOp("linalg_qr", _qr_arrays, (_qr_rule, None), types=_qr_types, by_kernels=small.qr)


# -- singular values --------------------------------------------------------------------------------------------------


def _svd_arrays(input: np.ndarray, full: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Left vectors as columns, singular values falling, right vectors as rows."""
    m, n = input.shape[-2:]
    k, batch = min(m, n), input.shape[:-2]
    left, right = (m, n) if full else (k, k)
    u, vh = np.empty((*batch, m, left), input.dtype), np.empty((*batch, right, n), input.dtype)
    s = np.empty((*batch, k), input.real.dtype)
    if not direct.computed("linalg_svd", (input, full), (u, s, vh)):
        u, s, vh = np.linalg.svd(input, full_matrices=full)
    return u, s, vh


def _svd_types(input: Tensor, full: bool) -> Any:
    m, n = input.shape[-2:]
    k, batch = _least(m, n), input.shape[:-2]
    left, right = (m, n) if full else (k, k)
    dtype = input.dtype
    return [(dtype, (*batch, m, left)), (real_of(dtype), (*batch, k)), (dtype, (*batch, right, n))]


def _skew(x: Any) -> Any:
    return x - x.mH


def _svd_rule(g: Any, out: Any, input: Any, full: bool) -> Any:
    """Rotations of left and right vectors, weighted by the gaps between squares, and what leaves their span."""
    k = int(_least(*input.shape[-2:]))
    (gu, gs, gvh), (u, s, vh) = g, out
    gu, u, gvh, vh = gu[..., :k], u[..., :k], gvh[..., :k, :], vh[..., :k, :]
    row, column = s.unsqueeze(-2), s.unsqueeze(-1)
    from eagerjit.tensors.creation import eye

    gaps = (row - column) * (row + column) + eye(k, dtype=s.dtype, device=s.device)
    inside = _skew(u.mH @ gu) / gaps * row + column * (_skew(vh @ gvh.mH) / gaps) + gs.to(u.dtype).diag_embed()
    if input.dtype.is_complex:
        phase = (u.mH @ gu).diagonal(0, -2, -1)
        inside = inside + ((phase - phase.conj()) * 0.5 / s).diag_embed()
    out = u @ inside @ vh
    m, n = input.shape[-2:]
    if m > k:
        rest = gu / row
        out = out + (rest - u @ (u.mH @ rest)) @ vh
    if n > k:
        rest = gvh / column
        out = out + u @ (rest - (rest @ vh.mH) @ vh)
    return out


svd = MatrixOp(
    "linalg_svd",
    guarded("svd", _svd_arrays, FAILED),
    (_svd_rule, None),
    types=_svd_types,
    by_kernels=small.svd(FAILED),
)


def _svdvals_rule(g: Any, out: Any, input: Any) -> Any:
    u, _, vh = svd.call(input, False)
    return (u * g.to(u.dtype).unsqueeze(-2)) @ vh


def _svdvals_array(input: np.ndarray) -> np.ndarray:
    """Singular values, falling."""
    values = np.empty((*input.shape[:-2], min(input.shape[-2:])), input.real.dtype)
    if direct.computed("linalg_svdvals", (input,), (values,)):
        return values
    return np.linalg.svd(input, compute_uv=False)


svdvals = MatrixOp(
    "linalg_svdvals",
    guarded("svdvals", _svdvals_array, FAILED),
    (_svdvals_rule,),
    types=lambda input: (real_of(input.dtype), (*input.shape[:-2], _least(*input.shape[-2:]))),
    by_kernels=small.singular_values(FAILED),
)


def _values_rule(g: Any, out: Any, input: Any, full: bool) -> Any:
    """Of the values alone; gradients of gradients need vectors that depend on the matrix."""
    u, _, vh = svd.call(input, full) if mode.grad_mode() else out
    return (u * g[1].to(u.dtype).unsqueeze(-2)) @ vh


svd_of_values = MatrixOp(
    "linalg_svd_of_values",
    guarded("svdvals", _svd_arrays, FAILED),
    (_values_rule, None),
    types=_svd_types,
    by_kernels=small.svd(FAILED, "svdvals"),
)


def singular_values(A: Tensor) -> Tensor:
    """Singular values, falling; with the vectors, which their gradient needs, where there is one."""
    return svd_of_values.call(A, False)[1] if is_differentiated(A) else svdvals.call(A)


# -- pseudoinverses ---------------------------------------------------------------------------------------------------


def _whole(input: Any) -> Any:
    """The Hermitian matrices of which these are the lower triangles."""
    lower = np.tril(input, -1)
    return lower + np.swapaxes(lower, -1, -2).conj() + (np.tril(input) - lower).real


def _pinv_array(input: np.ndarray, atol: Any, rtol: Any, hermitian: bool) -> np.ndarray:
    """Moore and Penrose's inverse; singular values up to max(atol, rtol * largest) count as 0."""
    u, s, vh = np.linalg.svd(_whole(input) if hermitian else input, full_matrices=False)
    largest = s.max(-1, keepdims=True, initial=0)
    atol, rtol = (x[..., 0] if isinstance(x, np.ndarray) else x for x in (atol, rtol))
    kept = s > np.maximum(atol, rtol * largest)
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(s.dtype)
    return np.matmul(np.swapaxes(vh, -1, -2).conj() * inverse[..., None, :], np.swapaxes(u, -1, -2).conj())


def pinv_gradient(g: Any, inverse: Any, A: Any) -> Any:
    """Golub and Pereyra (1973), with the smaller products for wide and for tall matrices."""
    gh, adjoint = g.mH, inverse.mH
    if A.shape[-2] <= A.shape[-1]:
        k = gh @ inverse
        ka = k @ adjoint
        return -(inverse @ k).mH + ka - (A @ inverse) @ ka + (adjoint @ inverse) @ (gh - k @ A)
    k = inverse @ gh
    ak = adjoint @ k
    return -(k @ inverse).mH + (gh - A @ k) @ inverse @ adjoint + ak - (ak @ inverse) @ A


pinv = MatrixOp(
    "linalg_pinv",
    guarded("pinv", _pinv_array, FAILED),
    (lambda g, out, input, atol, rtol, hermitian: pinv_gradient(g, out, input), None, None, None),
    types=lambda input, *rest: (input.dtype, (*input.shape[:-2], input.shape[-1], input.shape[-2])),
    by_kernels=small.pseudoinverse(FAILED),
)


def _lstsq_array(A: np.ndarray, B: np.ndarray, rcond: float) -> np.ndarray:
    """The X of least norm that minimises the norm of A X - B."""
    batch = np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    left, right = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (A, B))
    out = np.empty((*batch, A.shape[-1], B.shape[-1]), B.dtype)
    for place in np.ndindex(batch):
        out[place] = np.linalg.lstsq(left[place], right[place], rcond)[0]
    return out


lstsq = MatrixOp(
    "linalg_lstsq",
    guarded("lstsq", _lstsq_array, FAILED),
    (
        lambda g, out, A, B, rcond: pinv_gradient(g @ B.mH, pinv.call(A, 0.0, rcond, False), A),
        lambda g, out, A, B, rcond: pinv.call(A, 0.0, rcond, False).mH @ g,
        None,
    ),
    types=lambda A, B, rcond: (B.dtype, (*batch_shape(A, B), A.shape[-1], B.shape[-1])),
    by_kernels=small.least_squares(FAILED),
)


# -- exponentials -----------------------------------------------------------------------------------------------------


def _exponential_array(input: np.ndarray) -> np.ndarray:
    """exp of matrices: the Taylor series of A / 2**k, squared k times.

    Of a norm of a quarter twelve terms are enough: four sums of four powers (Paterson and Stockmeyer, 1973).
    """
    if input.size == 0:
        return input.copy()
    wide = input.astype(np.complex128 if input.dtype.kind == "c" else np.float64)
    norm = np.abs(wide).sum(-2).max(-1)
    halvings = np.ceil(np.log2(np.where(np.isfinite(norm), norm, 0.0).clip(min=0.25))).astype(int) + 2
    scaled = wide * np.ldexp(1.0, -halvings)[..., None, None]
    square = np.matmul(scaled, scaled)
    powers = [np.eye(input.shape[-1]), scaled, square, np.matmul(square, scaled)]
    fourth = np.matmul(square, square)
    out = fourth / math.factorial(12)
    for first in (8, 4, 0):
        out = out + sum(power / math.factorial(first + k) for k, power in enumerate(powers))
        out = np.matmul(fourth, out) if first else out
    for squared in range(halvings.max()):
        left = halvings > squared
        out[left] = np.matmul(out[left], out[left])
    return out.astype(input.dtype)


def _exponential_rule(g: Any, out: Any, input: Any) -> Any:
    """The upper right block of exp of [[A^H, g], [0, A^H]], of a g that is no larger than 1.

    That block is linear in g, whose size would decide how often the whole is halved and squared.
    """
    from eagerjit.ops.index import cat

    n = input.shape[-1]
    adjoint = input.mH
    size = g.detach().abs().sum((-2, -1), keepdim=True).clamp(min=1.0)
    top, bottom = cat.call([adjoint, g / size], -1), cat.call([adjoint * 0.0, adjoint], -1)
    return matrix_exp.call(cat.call([top, bottom], -2))[..., :n, n:] * size


matrix_exp = MatrixOp(
    "linalg_matrix_exp",
    _exponential_array,
    (_exponential_rule,),
    types=lambda input: (input.dtype, input.shape),
    by_kernels=small.exponential,
)


def resolution(A: Tensor) -> float:
    """The relative size below which singular values are noise: the larger dimension times the dtype's precision."""
    largest = max(A.shape[-2], A.shape[-1])
    return largest * float(np.finfo(A.dtype.numpy).eps)
