"""Householder reflectors by PyTorch's older names: `geqrf` makes them, `orgqr` and `ormqr` multiply them."""

from __future__ import annotations

from typing import NamedTuple

from eagerjit import linalg
from eagerjit.calling.casts import converting
from eagerjit.calling.public import public
from eagerjit.calling.results import returned
from eagerjit.ops.factor import matrices
from eagerjit.ops.index import cat, stack
from eagerjit.tensors.creation import zeros_like
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor


@returned("geqrf")
class Reflected(NamedTuple):
    """The result of `geqrf`."""

    a: Tensor
    tau: Tensor


@converting
@public
def geqrf(input: Tensor) -> Reflected:
    """R on and above the diagonals, reflectors I - tau v v^H below them, whose product is Q of input = Q R.

    Golub and Van Loan (2013), algorithm 5.2.1, with LAPACK's signs: v is 1 on the diagonal.
    """
    if not input.dtype.is_differentiable or input.dtype.itemsize < 4:
        raise NotImplementedError(f'"geqrf_cpu" not implemented for {input.dtype}')
    matrices("geqrf", input, argument="input")
    m, n = input.shape[-2:]
    rest, columns, scales = input, [], []
    for k in range(min(m, n)):
        column, right = rest[..., k:, 0], rest[..., 1:]
        beta, tau, reflector = _reflector(column)
        head = rest[..., :k, 0]
        columns.append(cat.call([head, beta.unsqueeze(-1), reflector[..., 1:]], -1))
        lower, vector = right[..., k:, :], reflector.unsqueeze(-1)
        lower = lower - tau.conj()[..., None, None] * (vector @ (vector.mH @ lower))
        rest = cat.call([right[..., :k, :], lower], -2)
        scales.append(tau)
    if not columns:
        return Reflected(input.clone(), input.new_zeros((*input.shape[:-2], 0)))
    return Reflected(cat.call([stack(columns, -1), rest], -1), stack(scales, -1))


def _reflector(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """beta, tau and v for which I - tau v v^H takes x to beta times the first unit vector."""
    first, below = x[..., 0], x[..., 1:]
    is_done = (below == 0).all(-1)
    real = first
    if x.dtype.is_complex:
        is_done, real = is_done.logical_and(first.imag == 0), first.real
    size = linalg.vector_norm(x, dim=-1)
    beta = (-size).where(real >= 0, size).to(x.dtype)
    safe = beta.where(is_done.logical_not(), 1.0)
    tau = zeros_like(first).where(is_done, (safe - first) / safe)
    factor = (first - safe).where(is_done.logical_not(), 1.0)
    vector = cat.call([(first * 0 + 1).unsqueeze(-1), below / factor.unsqueeze(-1)], -1)
    return first.where(is_done, beta), tau, vector


orgqr = linalg.householder_product


@converting
@public
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """The product of reflectors as `geqrf` gives them, or its adjoint if `transpose`, times other (behind it unless
    `left`). Raises RuntimeError for dtypes and sizes that differ."""
    matrices("ormqr", input, argument="input")
    for name, x in (("tau", tau), ("other", other)):
        if x.dtype is not input.dtype:
            raise RuntimeError(
                f"torch.ormqr: Expected input and {name} to have the same dtype, but input has dtype "
                f"{TYPE_NAMES[input.dtype]} and {name} has dtype {TYPE_NAMES[x.dtype]}"
            )
    if other.ndim < 2:
        raise RuntimeError("torch.ormqr: other must have at least 2 dimensions.")
    if other.ndim != input.ndim:
        raise RuntimeError(
            f"torch.ormqr: Expected other to have the same number of dimensions as input, but got {other.ndim} and "
            f"{input.ndim}"
        )
    side, count = other.shape[-2 if left else -1], tau.shape[-1]
    if side != input.shape[-2] or side < count or tau.ndim != input.ndim - 1:
        raise RuntimeError(
            f"torch.ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2] and not less than "
            f"tau.shape[-1], but they are {side}, {input.shape[-2]} and {count}"
        )
    unit = linalg.eye(input.shape[-2], input.shape[-1], dtype=input.dtype, device=input.device)
    vectors, product = input.tril(-1) + unit, other
    scales = tau.conj() if transpose else tau
    for k in range(count) if left == transpose else reversed(range(count)):
        vector, scale = vectors[..., :, k : k + 1], scales[..., k, None, None]
        if left:
            product = product - scale * (vector @ (vector.mH @ product))
        else:
            product = product - scale * ((product @ vector) @ vector.mH)
    return product.clone() if count == 0 else product
