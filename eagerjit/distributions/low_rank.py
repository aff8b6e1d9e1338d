"""Normal distributions whose covariance is a low-rank matrix and a diagonal, by the small "capacitance" matrix.

For a covariance W W^T + D this is C = I + W^T D^-1 W. The determinant is |C| |D|, and with A = chol(C)^-1 W^T D^-1 the
inverse is D^-1 - A^T A (Woodbury).
"""

from __future__ import annotations

from typing import Any

from eagerjit import linalg
from eagerjit.distributions import constraints
from eagerjit.distributions.distribution import LOG_SQRT_TAU, Distribution, normal_like
from eagerjit.distributions.kl import register_kl
from eagerjit.distributions.multivariate import MultivariateNormal
from eagerjit.ops.shaping import broadcast_tensors
from eagerjit.ops.subscript import broadcast_shapes
from eagerjit.tensors import creation
from eagerjit.tensors.tensor import Tensor


class LowRankMultivariateNormal(Distribution):
    """LowRankMultivariateNormal(loc, cov_factor, cov_diag), of covariance cov_factor @ cov_factor.T and a diagonal."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None):
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if cov_factor.ndim < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != loc.shape[-1:]:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {loc.shape[-1]} x m")
        if cov_diag.shape[-1:] != loc.shape[-1:]:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {loc.shape[-1:]}")
        try:
            wide, self.cov_factor, diagonal = broadcast_tensors(loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1))
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = wide[..., 0], diagonal[..., 0]
        super().__init__(self.loc.shape[:-1], loc.shape[-1:], validate_args=validate_args)

    def _capacitance(self) -> Tensor:
        """The Cholesky factor of C."""
        inner = self.cov_factor.mT @ (self.cov_factor / self.cov_diag.unsqueeze(-1))
        return linalg.cholesky(inner + _identity(inner))

    def _whitener(self) -> Tensor:
        """A."""
        scaled = (self.cov_factor / self.cov_diag.unsqueeze(-1)).mT
        return linalg.solve_triangular(self._capacitance(), scaled, upper=False)

    def _half_log_det(self) -> Tensor:
        inner = self._capacitance().diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return inner + 0.5 * self.cov_diag.log().sum(-1)

    def _squared_distance(self, difference: Tensor) -> Tensor:
        seen = (self._whitener() @ difference.unsqueeze(-1)).squeeze(-1)
        return (difference.square() / self.cov_diag).sum(-1) - seen.square().sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance, from that of I + D^-1/2 W W^T D^-1/2."""
        root = self.cov_diag.sqrt().unsqueeze(-1)
        scaled = self.cov_factor / root
        inner = scaled @ scaled.mT
        return root * linalg.cholesky(inner + _identity(inner))

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def precision_matrix(self) -> Tensor:
        """The covariance's inverse."""
        a = self._whitener()
        return self.cov_diag.reciprocal().diag_embed() - a.mT @ a

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        inner = normal_like(shape[:-1] + self.cov_factor.shape[-1:], self.loc)
        own = self.cov_diag.sqrt() * normal_like(shape, self.loc)
        return self.loc + (self.cov_factor @ inner.unsqueeze(-1)).squeeze(-1) + own

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -0.5 * self._squared_distance(value - self.loc) - self._half_log_det() - self._constant()

    def _constant(self) -> float:
        return LOG_SQRT_TAU * int(self._event_shape[0])

    def entropy(self) -> Tensor:
        return 0.5 * int(self._event_shape[0]) + self._constant() + self._half_log_det()


def _identity(like: Tensor) -> Tensor:
    return creation.eye(like.shape[-1], dtype=like.dtype, device=like.device)


def _squares(matrix: Tensor) -> Tensor:
    return matrix.square().sum((-2, -1))


def _parts(p: Any) -> list[Tensor]:
    """Matrices whose outer products add up to a covariance."""
    if isinstance(p, LowRankMultivariateNormal):
        return [p.cov_factor, p.cov_diag.sqrt().diag_embed()]
    return [p._unbroadcasted_scale_tril]


def _kl(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between {type(p).__name__} and {type(q).__name__} with different event shapes "
            "cannot be computed"
        )
    spread: Any = 0.0
    if isinstance(q, LowRankMultivariateNormal):
        distance, whitener, root = q._squared_distance(q.loc - p.loc), q._whitener(), q.cov_diag.sqrt().unsqueeze(-1)
        for part in _parts(p):
            spread = spread + _squares(part / root) - _squares(whitener @ part)
    else:
        for part in _parts(p):
            spread = spread + _squares(_solved(q._unbroadcasted_scale_tril, part))
        distance = _squares(_solved(q._unbroadcasted_scale_tril, (q.loc - p.loc).unsqueeze(-1)))
    return q._half_log_det() - p._half_log_det() + 0.5 * (spread + distance - int(p.event_shape[0]))


def _solved(lower: Tensor, right: Tensor) -> Tensor:
    """lower^-1 right, batches broadcast."""
    batch = broadcast_shapes(tuple(lower.shape[:-2]), tuple(right.shape[:-2]))
    wide = (t.expand((*batch, *t.shape[-2:])) for t in (lower, right))
    return linalg.solve_triangular(*wide, upper=False)


for _pair in (
    (LowRankMultivariateNormal, LowRankMultivariateNormal),
    (LowRankMultivariateNormal, MultivariateNormal),
    (MultivariateNormal, LowRankMultivariateNormal),
):
    register_kl(*_pair)(_kl)
