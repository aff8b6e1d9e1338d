"""What functions of linear algebra return."""

from __future__ import annotations

from typing import NamedTuple

from eagerjit.tensors.tensor import Tensor


class Eigen(NamedTuple):
    """The result of `eig` and `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QR(NamedTuple):
    """The result of `qr`."""

    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    """The result of `svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class SignLogdet(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


class LU(NamedTuple):
    """The result of `lu_factor`."""

    LU: Tensor
    pivots: Tensor


class LUInfo(NamedTuple):
    """The result of `lu_factor_ex`."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class PLU(NamedTuple):
    """The result of `lu`."""

    P: Tensor
    L: Tensor
    U: Tensor


class LeastSquares(NamedTuple):
    """The result of `lstsq`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class InverseInfo(NamedTuple):
    """The result of `inv_ex`."""

    inverse: Tensor
    info: Tensor


class FactorInfo(NamedTuple):
    """The result of `cholesky_ex`."""

    L: Tensor
    info: Tensor


class ResultInfo(NamedTuple):
    """The result of `solve_ex`."""

    result: Tensor
    info: Tensor
