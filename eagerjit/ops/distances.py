"""Distances of every row from every other: fused, so that the differences of all pairs never lie in memory."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.calling.public import public
from eagerjit.ops import reduce
from eagerjit.ops.shaping import broadcast_shapes
from eagerjit.ops.triangles import triu_indices
from eagerjit.tensors.tensor import Tensor

FEW = 25
"""Rows of both up to which the Euclidean distance is computed from differences, unless it is asked for otherwise."""

_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": True,
    "donot_use_mm_for_euclid_dist": False,
}


def _euclidean(x1: Tensor, x2: Tensor) -> Tensor:
    """sqrt(|a|^2 + |b|^2 - 2 a.b)"""
    squares = (x1 * x1).sum(-1).unsqueeze(-1) + (x2 * x2).sum(-1).unsqueeze(-2)
    return (squares - x1.matmul(x2.mT) * 2.0).clamp(0.0, None).sqrt()


def _euclidean_rule(g: Any, out: Any, x: Any, other: Any) -> Any:
    ratio = (g / out).where(out != 0.0, 0.0)
    return x * ratio.sum(-1).unsqueeze(-1) - ratio.matmul(other)


euclidean = Op(
    "euclidean_distances",
    _euclidean,
    (
        _euclidean_rule,
        lambda g, out, x1, x2: _euclidean_rule(g.mT, out.mT, x2, x1),
    ),
)


def _distances(x1: Tensor, x2: Tensor, p: float) -> Tensor:
    """The p-norms of the differences of all pairs of rows."""
    return _size(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _size(difference: Tensor, p: float) -> Tensor:
    """The p-norms of rows; of order 0 how many elements are not 0, which NaN may be."""
    if p == 0.0:
        return difference.abs().ceil().clamp(max=1.0).sum(-1)
    return reduce.norm(difference, p, -1)


def _slopes(g: Any, out: Any, x1: Any, x2: Any, p: float) -> Any:
    """What every difference of two elements contributes to the gradient."""
    return _slope(g.unsqueeze(-1), out.unsqueeze(-1), x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _slope(g: Any, out: Any, difference: Any, p: float) -> Any:
    """The gradient of distances in the differences that they are of; none where the distance is zero."""
    if p == 0.0:
        return difference.new_zeros(difference.shape)
    if p == 1.0:
        return g * difference.sign()
    if p == 2.0:
        return (g * difference / out).where(out != 0.0, 0.0)
    if p == math.inf:
        return (g * difference.sign()).where(difference.abs() == out, 0.0)
    slope = g * difference.sign() * difference.abs() ** (p - 1.0) / out ** (p - 1.0)
    known = out != 0.0 if p >= 1.0 else (out != 0.0).logical_and(difference != 0.0)
    return slope.where(known, 0.0)


distances = Op(
    "distances",
    _distances,
    (
        lambda g, out, x1, x2, p: _slopes(g, out, x1, x2, p).sum(-2),
        lambda g, out, x1, x2, p: -_slopes(g, out, x1, x2, p).sum(-3),
        None,
    ),
)


def _pair_distances(input: Tensor, rows: Tensor, columns: Tensor, p: float) -> Tensor:
    """The p-norms of the differences of rows and as many others."""
    return _size(input.take_rows(rows) - input.take_rows(columns), p)


def _pair_rule(g: Any, out: Any, input: Any, rows: Any, columns: Any, p: float) -> Any:
    difference = input.take_rows(rows) - input.take_rows(columns)
    slope = _slope(g.unsqueeze(-1), out.unsqueeze(-1), difference, p)
    return g.new_zeros(input.shape).index_add(0, rows, slope).index_add(0, columns, -slope)


pair_distances = Op("pair_distances", _pair_distances, (_pair_rule, None, None, None))


@public
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """The p-norm distances of every row of x1 from every row of x2: (..., P, M) and (..., R, M) give (..., P, R).

    Euclidean distances of more than 25 rows come from a matrix product, which is fast and loses digits where rows are
    close; `compute_mode` "donot_use_mm_for_euclid_dist" has the differences computed, "use_mm_for_euclid_dist" never.
    """
    if compute_mode not in _MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.dtype.is_floating_point:
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {x.dtype}")
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.dtype is not x2.dtype:
        raise RuntimeError(f"cdist: expected tensors of one dtype, got {x1.dtype} and {x2.dtype}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if x1.shape[:-2] != x2.shape[:-2]:
        batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        x1, x2 = (x.expand(*batch, *x.shape[-2:]) for x in (x1, x2))
    if x1.shape[-1] == 0:
        return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).sum(-1)
    chosen = _MODES[compute_mode]
    if p == 2 and (chosen or (chosen is None and (x1.shape[-2] > FEW or x2.shape[-2] > FEW))):
        return euclidean.call(x1, x2)
    return distances.call(x1, x2, float(p))


@public
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances of every pair of rows of an (N, M) tensor, as a vector of N (N - 1) / 2."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    rows, columns = triu_indices(input.shape[0], input.shape[0], 1, device=input.device)
    if input.shape[-1] == 0:
        return input.new_zeros(rows.shape)
    return pair_distances.call(input, rows, columns, float(p))
