"""Normal distributions of vectors."""

from __future__ import annotations

from typing import Any

from eagerjit import linalg
from eagerjit.distributions import constraints
from eagerjit.distributions.distribution import LOG_SQRT_TAU, Distribution, lazy_property, normal_like
from eagerjit.distributions.kl import register_kl
from eagerjit.ops.subscript import broadcast_shapes
from eagerjit.tensors.tensor import Shape, Tensor


class Covariance(Distribution):
    """Distributions given by a covariance matrix, its inverse or its Cholesky factor; the others follow from that."""

    matrices = {
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    _unbroadcasted_scale_tril: Tensor

    @staticmethod
    def _given(error: type[Exception], *matrices: Any) -> tuple[str, Tensor]:
        """The one matrix that is given, by its name. Raises an error if there are none or several."""
        names = ("covariance_matrix", "precision_matrix", "scale_tril")
        present = [(name, value) for name, value in zip(names, matrices, strict=True) if value is not None]
        if len(present) != 1:
            raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        return present[0]

    def _factor(self, name: str, matrix: Tensor) -> None:
        """Find the Cholesky factor of the covariance."""
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangle whose product with its transpose is the covariance."""
        return self._for_all(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariances of the elements."""
        return self._for_all(self._covariance())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._for_all(linalg.inv(self._covariance()))

    def _covariance(self) -> Tensor:
        return self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT

    def _for_all(self, matrix: Tensor) -> Tensor:
        """A matrix for every element of the batch."""
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        made = super().expand(batch_shape, _instance)
        made._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return made

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(Covariance):
    """MultivariateNormal(loc, covariance_matrix), or with precision_matrix or scale_tril in its place.

    loc is (..., n), matrices (..., n, n): the covariance, its inverse, or its Cholesky factor. Raises ValueError for no
    matrix or several, and for one that is not positive-definite.
    """

    arg_constraints = {"loc": constraints.real_vector, **Covariance.matrices}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ):  # fmt: skip
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = self._given(ValueError, covariance_matrix, precision_matrix, scale_tril)
        if matrix.ndim < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        size = loc.shape[-1]
        batch = Shape(broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1])))
        setattr(self, name, matrix.expand((*batch, size, size)))
        self.loc = loc.expand((*batch, size))
        super().__init__(batch, loc.shape[-1:], validate_args=validate_args)
        self._factor(name, matrix)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = normal_like(self._extended_shape(sample_shape), self.loc)
        return self.loc + (self._unbroadcasted_scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        distance = squared_distance(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * distance - self._half_log_det() - self._constant()

    def _constant(self) -> float:
        return LOG_SQRT_TAU * int(self._event_shape[0])

    def entropy(self) -> Tensor:
        entropy = 0.5 * int(self._event_shape[0]) + self._constant() + self._half_log_det()
        return entropy.expand(self._batch_shape)


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """The Cholesky factor of a matrix's inverse, from that of the matrix read backwards."""
    from eagerjit.tensors import creation

    flipped = linalg.cholesky(P.flip(-2, -1))
    inverse = flipped.flip(-2, -1).mT
    identity = creation.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return linalg.solve_triangular(inverse, identity, upper=False)


def squared_distance(tril: Tensor, difference: Tensor) -> Tensor:
    """The square of Mahalanobis' distance."""
    shape = broadcast_shapes(tuple(tril.shape[:-2]), tuple(difference.shape[:-1]))
    size = difference.shape[-1]
    lower = tril.expand((*shape, size, size))
    solved = linalg.solve_triangular(lower, difference.expand((*shape, size)).unsqueeze(-1), upper=False)
    return solved.squeeze(-1).square().sum(-1)


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    shape = broadcast_shapes(*(tuple(x._unbroadcasted_scale_tril.shape[:-2]) for x in (p, q)))
    size = p.event_shape[0]
    first, second = (x._unbroadcasted_scale_tril.expand((*shape, size, size)) for x in (p, q))
    spread = linalg.solve_triangular(second, first, upper=False).square().sum((-2, -1))
    distance = squared_distance(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return q._half_log_det() - p._half_log_det() + 0.5 * (spread + distance - int(size))
