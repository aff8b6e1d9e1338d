"""Determinants of batches of matrices, and their derivatives, which singular matrices have too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.ops import small_matrices as small
from eagerjit.ops.checked import inv_ex
from eagerjit.ops.factor import FAILED, MatrixOp, inv, real_of
from eagerjit.ops.host import like
from eagerjit.runtime import direct
from eagerjit.tensors.tensor import Tensor


def _slogdet_types(input: Tensor) -> Any:
    shape = input.shape[:-2]
    return [(input.dtype, shape), (real_of(input.dtype), shape)]


def _slogdet_arrays(input: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sign of determinants, and the logarithm of their absolute value."""
    kind = input.real.dtype
    sign, logarithm = np.empty(input.shape[:-2], input.dtype), np.empty(input.shape[:-2], kind)
    if direct.computed("linalg_slogdet", (input,), (sign, logarithm)):
        return sign, logarithm
    sign, logarithm = np.linalg.slogdet(input)
    return np.asarray(sign), np.asarray(logarithm)


def _inverse_of_any(input: Tensor) -> Tensor:
    """The inverse, and infinity where there is none: a singular matrix leaves the gradients of others as they are."""
    found, info = inv_ex(input)
    return found.where((info == 0).unsqueeze(-1).unsqueeze(-1), math.inf)


def _slogdet_rule(g: Any, out: Any, input: Any) -> Any:
    """The sign of complex determinants turns with the imaginary part of the trace of the inverse times a change."""
    slope = g[1]
    if input.dtype.is_complex:
        slope = slope.to(input.dtype) - (g[0].conj() * out[0]).imag.to(input.dtype) * 1j
    return slope.unsqueeze(-1).unsqueeze(-1) * _inverse_of_any(input).mH


slogdet = MatrixOp(
    "linalg_slogdet",
    _slogdet_arrays,
    (_slogdet_rule,),
    types=_slogdet_types,
    by_kernels=small.sign_and_logarithm,
)


def _cofactor_array(input: np.ndarray, change: np.ndarray | None = None) -> np.ndarray:
    """Cofactors of matrices: from the inverse where half of its digits are certain; how they change with a change."""
    if change is not None:
        return _cofactors_changed(input, change)
    try:
        inverse, size = np.linalg.inv(input), np.asarray(np.linalg.det(input))
    except np.linalg.LinAlgError:
        return _cofactors_of_any(input)
    with np.errstate(all="ignore"):
        found = size[..., None, None] * np.swapaxes(inverse, -1, -2)
        condition = np.linalg.norm(input, axis=(-2, -1)) * np.linalg.norm(inverse, axis=(-2, -1))
        # That of a rotation is how many rows it has.
        certain = (condition * np.sqrt(np.finfo(input.dtype).eps) <= input.shape[-1]) & np.isfinite(size)
    if not certain.all():
        found[~certain] = _cofactors_of_any(input[~certain])
    return found


def _cofactors_of_any(input: np.ndarray) -> np.ndarray:
    """Cofactors of matrices, singular ones too, from their singular values; NaN of those that are not finite."""
    finite = np.isfinite(input).all((-2, -1))[..., None, None]
    u, s, vh = np.linalg.svd(np.where(finite, input, 0))
    n = s.shape[-1]
    products = np.stack([np.prod(np.delete(s, i, -1), -1) for i in range(n)], -1) if n else s
    sign = np.linalg.det(u) * np.linalg.det(vh)
    found = np.matmul((u.conj() * products[..., None, :]) * np.asarray(sign)[..., None, None], vh.conj())
    return np.where(finite, found, np.nan).astype(input.dtype, copy=False)


def _cofactors_changed(input: np.ndarray, change: np.ndarray) -> np.ndarray:
    """How cofactors change with their matrix: tr(X^T dA) C - X dA^T C, C the cofactors and X the inverse transposed.

    With A = U S V^H and B = U^H dA V, products of singular values but for two stand for what the inverse divides by:
    singular matrices have such changes too.
    """
    u, s, vh = np.linalg.svd(input)
    n = s.shape[-1]
    most = np.stack([_products_but(s, i) for i in range(n)], -2) if n else np.zeros(input.shape, s.dtype)
    inner = np.swapaxes(u, -1, -2).conj() @ change @ np.swapaxes(vh, -1, -2).conj()
    moved = -most * np.swapaxes(inner, -1, -2)
    every = np.arange(n)
    diagonal = inner[..., every, every]
    moved[..., every, every] = (most @ diagonal[..., None])[..., 0] - most[..., every, every] * diagonal
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return np.matmul(u.conj() @ moved * np.asarray(sign)[..., None, None], vh.conj()).astype(input.dtype)


def _products_but(s: np.ndarray, i: int) -> np.ndarray:
    """Products of the last dimension's numbers but for the i-th and, for each place, that one."""
    s = s.copy()
    s[..., i] = 1
    before, after = np.ones_like(s), np.ones_like(s)
    np.cumprod(s[..., :-1], -1, out=before[..., 1:])
    np.cumprod(s[..., :0:-1], -1, out=after[..., -2::-1])
    return before * after


def _cofactor_rule(g: Any, out: Any, input: Any, change: Any) -> Any:
    """What is linear in cofactors is so in their change, too; the inverse transposed changes by -X dA^T X."""
    q = g.conj()
    if change is None:
        return cofactor.call(input, q).conj()
    x, cofactors = inv.call(input).mT, cofactor.call(input)
    scale, paired = (change * x).sum((-2, -1), keepdim=True), (q * cofactors).sum((-2, -1), keepdim=True)
    through = cofactor.call(input, scale * q - change @ x.mT @ q)
    return (through - x @ (paired * change - q @ cofactors.mT @ change).mT @ x).conj()


cofactor = MatrixOp(
    "linalg_cofactor",
    _cofactor_array,
    (_cofactor_rule, lambda g, out, input, change: cofactor.call(input, g.conj()).conj()),
    types=like,
    by_kernels=small.cofactors(FAILED),
)


def _det_array(input: np.ndarray) -> np.ndarray:
    """Determinants."""
    out = np.empty(input.shape[:-2], input.dtype)
    if direct.computed("linalg_det", (input,), (out,)):
        return out
    return np.asarray(np.linalg.det(input), input.dtype)


det = MatrixOp(
    "linalg_det",
    _det_array,
    (lambda g, out, input: g.unsqueeze(-1).unsqueeze(-1) * cofactor.call(input).conj(),),
    types=lambda input: (input.dtype, input.shape[:-2]),
    by_kernels=small.determinant,
)
