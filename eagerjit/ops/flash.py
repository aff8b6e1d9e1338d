"""Attention that keeps no matrix of weights: for GPUs, where kernels compute it tile by tile; elsewhere by NumPy.

Forward keeps the logarithm of every row's sum of exponentials, from which the gradient computes weights again. The
gradient of the gradient is written with the weights in full.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.calling.dispatch import Op
from eagerjit.ops.host import HostOp, has_kernels
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor

LARGEST = 256
"""Features of a head at most: a tile of rows has all of them."""


class FlashOp(HostOp):
    """Computed by kernels where there are some, also in eager calls."""

    absent_gradients = True
    on_host = "for GPUs, which have kernels; the CPU's is another"

    def __init__(self, *described: Any, **options: Any):
        super().__init__(*described, **options)
        self.fused_rules = True

    def eager(self, arguments: tuple[Any, ...]) -> Any:
        """The kernels' results, or NumPy's."""
        return Op.eager(self, arguments) if has_kernels(arguments[0]) else super().eager(arguments)


def _scores(query: Any, key: Any, mask: Any, causal: bool, scale: float) -> np.ndarray:
    """What weights are the softmax of, in float64; -inf where hidden."""
    scores = np.matmul(query.astype(np.float64), np.swapaxes(key, -1, -2).astype(np.float64)) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0.0, scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return scores


def _forward(query: Any, key: Any, value: Any, mask: Any, causal: bool, scale: float) -> tuple[Any, Any]:
    """(attention, log of the sum of a row's exponentials), inf where all keys are hidden."""
    kept = np.float64 if query.dtype == np.float64 else np.float32
    scores = _scores(query, key, mask, causal, scale)
    largest = np.max(scores, -1, initial=-np.inf)
    exponentials = np.exp(scores - np.where(largest > -np.inf, largest, 0.0)[..., None])
    total = exponentials.sum(-1)
    out = np.matmul(exponentials / np.where(total == 0.0, 1.0, total)[..., None], value.astype(np.float64))
    return out.astype(query.dtype), np.where(total == 0.0, np.inf, np.log(total) + largest).astype(kept)


def _backward(
    gradient: Any, query: Any, key: Any, value: Any, mask: Any, logsumexp: Any, delta: Any, causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    """Gradients of query, key and value; `delta` is the sum over features of gradient times attention."""
    weights = np.exp(_scores(query, key, mask, causal, scale) - logsumexp[..., None])
    g = gradient.astype(np.float64)
    slopes = weights * (np.matmul(g, np.swapaxes(value, -1, -2).astype(np.float64)) - delta[..., None]) * scale
    found = (
        np.matmul(slopes, key.astype(np.float64)),
        np.matmul(np.swapaxes(slopes, -1, -2), query.astype(np.float64)),
        np.matmul(np.swapaxes(weights, -1, -2), g),
    )
    return tuple(x.astype(query.dtype) for x in found)  # type: ignore[return-value]


def _wide(dtype: Any) -> Any:
    """What numbers of a row are kept in."""
    return dtypes.float64 if dtype is dtypes.float64 else dtypes.float32


def _forward_types(query: Any, key: Any, value: Any, *rest: Any) -> Any:
    rows = tuple(query.shape[:-1])
    return [(query.dtype, (*rows, value.shape[-1])), (_wide(query.dtype), rows)]


def _backward_types(gradient: Any, query: Any, key: Any, value: Any, *rest: Any) -> Any:
    return [(x.dtype, tuple(x.shape)) for x in (query, key, value)]


def _gradient(position: int) -> Any:
    """The rule for query, key or value: a row's logarithm has the weights as its gradient."""

    def rule(g: Any, out: Any, query: Any, key: Any, value: Any, mask: Any, causal: Any, scale: Any) -> Any:
        given = query.new_zeros(out[0].shape) if g[0] is None else g[0]
        delta = (given.to(out[1].dtype) * out[0].to(out[1].dtype)).sum(-1)
        delta = delta if g[1] is None else delta - g[1]
        return flash_gradients.call(given, query, key, value, mask, out[1], delta, causal, scale)[position]

    return rule


def _weights(query: Any, key: Any, mask: Any, logsumexp: Any, causal: Any, scale: Any) -> Any:
    """All weights, by operations."""
    scores = query.matmul(key.mT).to(logsumexp.dtype) * scale
    if causal:
        scores = scores.where(scores.new_ones(scores.shape).tril() > 0.0, -math.inf)
    if mask is not None:
        scores = scores.where(mask, -math.inf) if mask.dtype is dtypes.bool_ else scores + mask.to(scores.dtype)
    return (scores - logsumexp.unsqueeze(-1)).exp()


G, QUERY, KEY, VALUE, LOGSUMEXP, DELTA = 0, 1, 2, 3, 5, 6


def _second(position: int) -> Any:
    """The gradients' rule for one of their arguments, with weights in full."""

    def rule(
        g: Any, out: Any, given: Any, query: Any, key: Any, value: Any, mask: Any, logsumexp: Any, delta: Any,
        causal: Any, scale: Any,
    ) -> Any:  # fmt: skip
        to_query, to_key, to_value = (
            x.new_zeros(x.shape) if h is None else h for h, x in zip(g, (query, key, value), strict=True)
        )
        weights = _weights(query, key, mask, logsumexp, causal, scale)
        to_slopes = (to_query.matmul(key.mT) + query.matmul(to_key.mT)).to(weights.dtype) * scale
        through = to_slopes * weights
        if position == DELTA:
            return -through.sum(-1)
        if position == G:
            return through.to(value.dtype).matmul(value) + weights.to(value.dtype).matmul(to_value)
        if position == VALUE:
            return through.to(given.dtype).mT.matmul(given)
        into = given.matmul(value.mT).to(weights.dtype) - delta.unsqueeze(-1)
        to_scores = through * into + weights * given.matmul(to_value.mT).to(weights.dtype)
        if position == LOGSUMEXP:
            return -to_scores.sum(-1)
        slopes, to_scores = ((x * scale).to(query.dtype) for x in (weights * into, to_scores))
        if position == QUERY:
            return to_scores.matmul(key) + slopes.matmul(to_key)
        return to_scores.mT.matmul(query) + slopes.mT.matmul(to_query)

    return rule


flash_attention = FlashOp(
    "flash_attention",
    _forward,
    (_gradient(0), _gradient(1), _gradient(2), None, None, None),
    types=_forward_types,
)
flash_gradients = FlashOp(
    "flash_gradients",
    _backward,
    (*(_second(p) if p in (G, QUERY, KEY, VALUE, LOGSUMEXP, DELTA) else None for p in range(7)), None, None),
    types=_backward_types,
)


def suits(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> bool:
    """Whether kernels compute this attention: where there are some, in their formats, without a mask's gradient."""
    if not has_kernels(query) or query.dtype not in (dtypes.float16, dtypes.bfloat16, dtypes.float32):
        return False
    if (mask is not None and mask.requires_grad) or (state.tracer is not None and state.tracer.single_example):
        return False
    features = [int(x.shape[-1]) for x in (query, key, value)]
    return features[0] == features[1] and 0 < min(features) and max(features) <= LARGEST


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float, groups: int = 1
) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value; `groups` heads of the query share a head of key and value."""
    if groups != 1:
        heads = key.shape[-3]
        query = query.unflatten(-3, (heads, groups))
        key, value = key.unsqueeze(-3), value.unsqueeze(-3)
        if mask is not None and mask.ndim > 2:
            mask = mask.unsqueeze(-3) if mask.shape[-3] == 1 else mask.unflatten(-3, (heads, groups))
    from eagerjit.ops.shaping import broadcast_shapes

    batch = broadcast_shapes(*(x.shape[:-2] for x in (query, key, value, mask) if x is not None))
    if mask is not None:
        mask = mask.expand(*batch, query.shape[-2], key.shape[-2])
    query, key, value = (x.expand(*batch, *x.shape[-2:]) for x in (query, key, value))
    out = flash_attention.call(query, key, value, mask, causal, scale)[0]
    return out if groups == 1 else out.flatten(-4, -3)


