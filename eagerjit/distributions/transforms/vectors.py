"""Transforms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.distributions import constraints
from eagerjit.distributions.distribution import precision, smallest, tril_matrix_to_vec, vec_to_tril_matrix
from eagerjit.distributions.transforms.transform import SameByType
from eagerjit.ops.activation import logsigmoid, softplus
from eagerjit.ops.padding import pad
from eagerjit.tensors import creation
from eagerjit.tensors.tensor import Tensor


class SoftmaxTransform(SameByType):
    """exp(x) normalised to sum to 1; logarithms are one of many inverses."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        exponentials = (x - x.amax(-1, True)).exp()
        return exponentials / exponentials.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        return _at_least(shape, 1)

    def inverse_shape(self, shape: Any) -> Any:
        return _at_least(shape, 1)


class StickBreakingTransform(SameByType):
    """Real vectors as shares of a stick: each element breaks off a part of what is left, the last share is the rest."""

    domain, codomain = constraints.real_vector, constraints.simplex
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        part = (x - _pieces_left(x, 1).log()).sigmoid()
        return pad(part, [0, 1], value=1) * pad((1 - part).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        shares = y[..., :-1]
        rest = (1 - shares.cumsum(-1)).clamp(min=smallest(y.dtype))
        return shares.log() - rest.log() + _pieces_left(shares, 1).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - _pieces_left(x, 1).log()
        return (-x + logsigmoid.call(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        return (*_at_least(shape, 1)[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        return (*_at_least(shape, 1)[:-1], shape[-1] - 1)


def _pieces_left(x: Tensor, more: int) -> Tensor:
    """How many shares are still to come at each element."""
    return x.shape[-1] + more - x.new_ones((x.shape[-1],)).cumsum(-1)


def _at_least(shape: Any, dimensions: int) -> Any:
    if len(shape) < dimensions:
        raise ValueError(f"Too few dimensions on input: {len(shape)} where {dimensions} are needed")
    return shape


class LowerCholeskyTransform(SameByType):
    """Square matrices as lower triangular ones with a positive diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(SameByType):
    """Square matrices as positive definite ones."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        from eagerjit import linalg

        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CorrCholeskyTransform(SameByType):
    """n * (n - 1) / 2 real numbers as the Cholesky factor of an n by n correlation matrix.

    tanh makes them partial correlations; row by row these are the sines by which a unit vector turns away.
    """

    domain, codomain = constraints.real_vector, constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = precision(x.dtype)
        partial = vec_to_tril_matrix(x.tanh().clamp(eps - 1, 1 - eps), -1)
        left = (1 - partial.square()).sqrt().cumprod(-1)
        diagonal = creation.eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return (partial + diagonal) * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = pad((1 - y.square().cumsum(-1))[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(left, -1).sqrt()
        return (partial.log1p() - (-partial).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = tril_matrix_to_vec(1 - y.square().cumsum(-1), -2)
        turned = -2 * (x + softplus.call(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * left.log().sum(-1) + turned

    def forward_shape(self, shape: Any) -> Any:
        count = _at_least(shape, 1)[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return (*shape[:-1], size, size)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)
