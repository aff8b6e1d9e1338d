"""Distributions of matrices: Wishart's of covariances, Lewandowski's, Kurowicka's and Joe's of correlations."""

from __future__ import annotations

import math
from typing import Any

from eagerjit import linalg
from eagerjit.distributions import constraints
from eagerjit.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    normal_like,
    precision,
    smallest,
)
from eagerjit.distributions.gammas import Beta, Chi2
from eagerjit.distributions.multivariate import Covariance
from eagerjit.effects.cautions import caution
from eagerjit.ops.gamma import mvlgamma
from eagerjit.ops.subscript import broadcast_shapes
from eagerjit.tensors import creation
from eagerjit.tensors.conversion import passes
from eagerjit.tensors.tensor import Shape, Tensor


class LKJCholesky(Distribution):
    """LKJCholesky(dim, concentration): Cholesky factors of random correlation matrices.

    At concentration 1 all correlation matrices are alike; the higher it is, the nearer they are to the identity.
    Samples are made by the onion method, densities follow Lewandowski, Kurowicka and Joe, J. Multivariate Anal. 2009.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def _radii(self) -> Beta:
        """The distribution of the squared length of each row left of the diagonal."""
        like = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        offset = creation.arange(-1, self.dim - 1, **like).clamp(min=0)
        rest = self.concentration.unsqueeze(-1) + 0.5 * (self.dim - 2) - 0.5 * offset
        return Beta(offset + 0.5, rest, validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        squares = self._radii().sample(sample_shape).unsqueeze(-1)
        rows = normal_like(self._extended_shape(sample_shape), squares).tril(-1)
        length = rows.square().sum(-1, True).sqrt()
        rows = squares.sqrt() * rows / length.where(length > 0, 1.0)
        diagonal = (1 - rows.square().sum(-1)).clamp(min=smallest(rows.dtype)).sqrt()
        return rows + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        left = self.dim - creation.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + left
        rows = self.dim - 1
        half = self.concentration + 0.5 * rows
        norm = 0.5 * rows * math.log(math.pi) + mvlgamma(half - 0.5, rows) - rows * half.lgamma()
        return (order * diagonal.log()).sum(-1) - norm


class Wishart(Covariance, ExponentialFamily):
    """Wishart(df, covariance_matrix), or with precision_matrix or scale_tril in its place: the sum of outer products
    of `df` normal vectors; `df` may be any real number above their length less 1."""

    support = constraints.positive_definite
    has_rsample = True

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """Of `df` it depends on the size."""
        return {**Covariance.matrices, "df": constraints.greater_than(int(self.event_shape[-1]) - 1)}

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ):  # fmt: skip
        name, matrix = self._given(AssertionError, covariance_matrix, precision_matrix, scale_tril)
        if matrix.ndim < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        size = int(matrix.shape[-1])
        if isinstance(df, Tensor):
            batch = Shape(broadcast_shapes(tuple(matrix.shape[:-2]), tuple(df.shape)))
            self.df = df.expand(batch)
        else:
            batch = Shape(matrix.shape[:-2])
            self.df = creation.tensor(df, dtype=matrix.dtype, device=matrix.device)
        if not passes((self.df <= size - 1).any().logical_not()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}.")
        if (self.df < size).any():
            caution(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim."
            )
        setattr(self, name, matrix.expand((*batch, size, size)))
        super().__init__(batch, (size, size), validate_args=validate_args)
        self._factor(name, matrix)

    def _size(self) -> int:
        return int(self._event_shape[-1])

    def _wide_df(self) -> Tensor:
        return self.df.reshape((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Tensor:
        return self._wide_df() * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self._wide_df() - self._size() - 1
        return factor.where(factor > 0, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        return self._wide_df() * (v.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Any = ()) -> Tensor:
        """By Bartlett's decomposition: a triangle of normal numbers below the roots of chi-squared ones."""
        like = {"dtype": self._unbroadcasted_scale_tril.dtype, "device": self._unbroadcasted_scale_tril.device}
        freedom = self.df.unsqueeze(-1) - creation.arange(self._size(), **like)
        diagonal = Chi2(freedom, validate_args=False).rsample(sample_shape).sqrt()
        below = normal_like(self._extended_shape(sample_shape), self._unbroadcasted_scale_tril).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (below + diagonal.clamp(min=precision(diagonal.dtype)).diag_embed())
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._bartlett_sampling(sample_shape)

    def _log_scale(self) -> Tensor:
        """Half the logarithm of the determinant of twice the covariance."""
        return self._size() * math.log(2) / 2 + self._half_log_det()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        half, size = self.df / 2, self._size()
        power = (self.df - size - 1) / 2 * linalg.slogdet(value)[1]
        trace = linalg.inv(self.covariance_matrix) @ value
        spread = trace.diagonal(dim1=-2, dim2=-1).sum(-1) / 2
        return power - self.df * self._log_scale() - mvlgamma(half, size) - spread

    def entropy(self) -> Tensor:
        half, size = self.df / 2, self._size()
        steps = creation.arange(size, dtype=self.df.dtype, device=self.df.device) / 2
        slopes = (half.unsqueeze(-1) - steps).digamma().sum(-1)
        power = (self.df - size - 1) / 2 * slopes
        return (size + 1) * self._log_scale() + mvlgamma(half, size) - power + half * size
