"""Parametrizations that there are: orthogonal matrices, lengths and directions, and bounded singular values."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit import linalg
from eagerjit.autograd.modes import no_grad
from eagerjit.nn.distances import normalize
from eagerjit.nn.module import Module
from eagerjit.nn.utils.norms import as_matrix, default_dim, divided, norm_except_dim, power_iterations, weight_of
from eagerjit.nn.utils.parametrize import register_parametrization
from eagerjit.ops.index import cat
from eagerjit.random import randn
from eagerjit.tensors.creation import eye, tensor
from eagerjit.tensors.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_of(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """(lengths, directions)."""
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Parametrize a weight by its lengths and directions (Salimans and Kingma 2016)."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12):
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps, self.n_power_iterations = dim if dim >= 0 else dim + weight.ndim, eps, n_power_iterations
        if weight.ndim > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                drawn = randn(int(size), dtype=weight.dtype, device=weight.device)
                self.register_buffer(name, normalize(drawn, dim=0, eps=eps))
            power_iterations(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        if self.training:
            matrix = as_matrix(weight.detach(), self.dim)
            power_iterations(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        return divided(weight, self._u, self._v, self.dim)

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself: it is assumed to be normalised."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al. 2018)."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    axis = default_dim(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, axis, eps))


def _reflections(matrix: Tensor, scales: Tensor) -> Tensor:
    """The product of Householder reflections whose vectors are below the diagonal of a matrix, times the identity."""
    rows, columns = (int(d) for d in matrix.shape)
    unit = eye(rows, columns, dtype=matrix.dtype, device=matrix.device)
    vectors, out = matrix.tril(-1) + unit, unit
    for index in range(columns - 1, -1, -1):
        v = vectors[:, index : index + 1]
        out = out - v.matmul(v.t().matmul(out)) * scales[index]
    return out


def _orthogonalised(matrix: Tensor) -> Tensor:
    q, r = linalg.qr(matrix)
    return q * r.diagonal().sign()


class _Orthogonal(Module):
    """Orthogonal matrices from all matrices; with a base the identity's neighbourhood is moved to it."""

    base: Tensor

    def __init__(self, weight: Tensor, kind: str, use_trivialization: bool):
        super().__init__()
        self.kind, self.shape, self.based = kind, tuple(int(d) for d in weight.shape), use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[0] < X.shape[1]
        x = X.t() if wide else X
        rows, columns = (int(d) for d in x.shape)
        if self.kind == "householder":
            below = x.tril(-1)
            out = _reflections(below, 2.0 / (1.0 + (below * below).sum(0)))
            out = out * x.diagonal().detach().trunc()
        else:
            x = x.tril()
            if rows != columns:
                x = cat.call([x, x.new_zeros((rows, rows - columns))], 1)
            skew = x - x.t()
            if self.kind == "matrix_exp":
                out = linalg.matrix_exp(skew)
            else:
                unit = eye(rows, dtype=x.dtype, device=x.device)
                out = linalg.solve(unit - 0.5 * skew, unit + 0.5 * skew)
            out = out[:, :columns] if rows != columns else out
        if self.based and self.base is not None:
            out = self.base.matmul(out)
        return out.t() if wide else out

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        """A matrix from which this one, made orthogonal, is computed."""
        if tuple(Q.shape) != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {tuple(Q.shape)}."
            )
        wide = Q.shape[0] < Q.shape[1]
        q = Q.t() if wide else Q
        rows, columns = (int(d) for d in q.shape)
        if not self.based:
            if self.kind != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            found = _reflectors(q)
            return found.t() if wide else found
        if rows != columns:
            q = cat.call([q, randn(rows, rows - columns, dtype=q.dtype, device=q.device)], 1)
        self.base = _orthogonalised(q)
        return -eye(*(int(d) for d in Q.shape), dtype=Q.dtype, device=Q.device)


def _reflectors(q: Tensor) -> Tensor:
    """Vectors of reflections below the diagonal and signs on it, whose product is a matrix with orthogonal columns."""
    matrix = np.array(q.detach().numpy(), dtype=np.float64)
    columns = matrix.shape[1]
    out = np.zeros_like(matrix)
    for index in range(columns):
        x = matrix[index:, index]
        length = np.linalg.norm(x)
        sign = -1.0 if x[0] > 0 else 1.0
        v = x.copy()
        v[0] -= sign * length
        if abs(v[0]) > 0:
            v = v / v[0]
            matrix[index:] -= np.outer(v, (2.0 / (v @ v)) * (v @ matrix[index:]))
            out[index + 1 :, index] = v[1:]
        out[index, index] = np.sign(matrix[index, index])
    return tensor(out).to(q.dtype)


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a matrix orthogonal (or its columns, or rows): by "matrix_exp", "cayley" or "householder"."""
    weight: Any = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: ' + str(orthogonal_map)
        )
    made: Any = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)
