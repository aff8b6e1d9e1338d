"""What functions of linear algebra return."""

from __future__ import annotations

from typing import NamedTuple

from eagerjit.calling.results import returned
from eagerjit.tensors.tensor import Tensor


@returned("linalg_eig")
class Eigen(NamedTuple):
    """The result of `eig`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@returned("linalg_eigh")
class EigenOfHermitian(Eigen):
    """The result of `eigh`."""

    __slots__ = ()


@returned("linalg_qr")
class QR(NamedTuple):
    """The result of `qr`."""

    Q: Tensor
    R: Tensor


@returned("linalg_svd")
class SVD(NamedTuple):
    """The result of `svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@returned("linalg_slogdet")
class SignLogdet(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


@returned("linalg_lu_factor")
class LU(NamedTuple):
    """The result of `lu_factor`."""

    LU: Tensor
    pivots: Tensor


@returned("linalg_lu_factor_ex")
class LUInfo(NamedTuple):
    """The result of `lu_factor_ex`."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


@returned("linalg_lu")
class PLU(NamedTuple):
    """The result of `lu`."""

    P: Tensor
    L: Tensor
    U: Tensor


@returned("linalg_ldl_factor")
class LDL(NamedTuple):
    """The result of `ldl_factor`."""

    LD: Tensor
    pivots: Tensor


@returned("linalg_ldl_factor_ex")
class LDLInfo(NamedTuple):
    """The result of `ldl_factor_ex`."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


@returned("linalg_lstsq")
class LeastSquares(NamedTuple):
    """The result of `lstsq`."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@returned("linalg_inv_ex")
class InverseInfo(NamedTuple):
    """The result of `inv_ex`."""

    inverse: Tensor
    info: Tensor


@returned("linalg_cholesky_ex")
class FactorInfo(NamedTuple):
    """The result of `cholesky_ex`."""

    L: Tensor
    info: Tensor


@returned("linalg_solve_ex")
class ResultInfo(NamedTuple):
    """The result of `solve_ex`."""

    result: Tensor
    info: Tensor
