"""Scaled dot-product attention: two matrix products around one fused masked softmax."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.dispatch import Op, emit
from eagerjit.compiler.ops import elementwise, reductions
from eagerjit.ops import flash, views
from eagerjit.ops.activation import widened
from eagerjit.ops.composite import repeat_interleave
from eagerjit.ops.index import cat
from eagerjit.ops.linear import matmul
from eagerjit.ops.normalization import softmax_gradient, softmax_op
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.reduce import reduce
from eagerjit.recording.numbers import expression, to_float
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor

STRETCH = 256  # queries of a causal attention that are done at a time


def _weights(scores: Tensor, mask: Tensor | None, causal: bool, scale: float, last: bool = False) -> Tensor:
    """softmax(scores * scale) over keys, without those that the mask or the order of positions hides.

    Queries are at the first of the keys' positions, or at the last ones if `last`.
    """
    (x,) = widened(scores)
    x = x * scale
    if causal:
        queries, keys = x.shape[-2:]
        query = emit(elementwise.iota, size=expression(queries), dtype=dtypes.int64).unsqueeze(1)
        query = query + (keys - queries) if last else query
        key = emit(elementwise.iota, size=expression(keys), dtype=dtypes.int64)
        x = x.where(key <= query, -math.inf)
    if mask is not None:
        x = x.where(mask, -math.inf) if mask.dtype is dtypes.bool_ else x + as_dtype(mask, x.dtype)
        return as_dtype(_safe_softmax(x), scores.dtype)
    return as_dtype(softmax_op.body(x, x.ndim - 1), scores.dtype)


def _safe_softmax(x: Tensor) -> Tensor:
    """softmax over the last dimension, 0 where every key is hidden."""
    largest = reduce(reductions.amax, x, -1, True)
    exponentials = (x - largest.where(largest > -math.inf, 0.0)).exp()
    total = reduce(reductions.sum_, exponentials, -1, True)
    return exponentials / total.where(total > 0.0, 1.0)


attention_weights = Op(
    "attention_weights",
    _weights,
    (
        lambda g, out, scores, mask, causal, scale, last: softmax_gradient(g, out, -1) * scale,
        lambda g, out, scores, mask, causal, scale, last: softmax_gradient(g, out, -1),
        None,
        None,
        None,
    ),
    ("scale",),
)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, scale: float, last: bool = False
) -> tuple[Tensor, Tensor]:
    """(softmax(query @ key.T * scale + mask) @ value, that softmax)."""
    weights = _weights(matmul.call(query, key.transpose(-2, -1)), mask, causal, scale, last)
    return matmul.call(weights, value), weights


def _scores_gradient(g: Any, out: Any, value: Any) -> Any:
    """The gradient of what the softmax was taken of; of the weights themselves only second derivatives have one."""
    weights = out[1]
    given = weights.new_zeros(weights.shape) if g[0] is None else g[0].matmul(value.mT)
    return softmax_gradient(given if g[1] is None else given + g[1], weights, -1)


def _attention_query(g: Any, out: Any, q: Any, k: Any, v: Any, mask: Any, causal: Any, scale: Any, last: Any) -> Any:
    return (_scores_gradient(g, out, v) * scale).to(k.dtype).matmul(k)


def _attention_key(g: Any, out: Any, q: Any, k: Any, v: Any, mask: Any, causal: Any, scale: Any, last: Any) -> Any:
    return (_scores_gradient(g, out, v) * scale).to(q.dtype).mT.matmul(q)


def _attention_value(g: Any, out: Any, q: Any, k: Any, v: Any, mask: Any, causal: Any, scale: Any, last: Any) -> Any:
    return v.new_zeros(v.shape) if g[0] is None else out[1].mT.matmul(g[0])


attention = Op(
    "attention",
    _attention,
    (
        _attention_query,
        _attention_key,
        _attention_value,
        lambda g, out, q, k, v, mask, causal, scale, last: _scores_gradient(g, out, v),
        None,
        None,
        None,
    ),
    ("scale",),
)


def _causal(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """Causal attention, stretch by stretch of the queries: the keys behind a stretch are left out, not hidden."""
    length, start, parts = query.shape[-2], 0, []
    while start < length:
        end = start + STRETCH if start + 2 * STRETCH <= length else length
        some = views.narrow(query, -2, start, end - start)
        seen = [views.narrow(x, -2, 0, end) for x in (key, value)]
        parts.append(attention.call(some, *seen, None, True, scale, True)[0])
        start = end
    return cat.call(parts, query.ndim - 2)


attention.absent_gradients, attention.results_read = True, (1,)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value (Vaswani et al. 2017).

    query is (..., queries, features), key (..., keys, features) and value (..., keys, channels), of one dtype; the
    result is (..., queries, channels).

    attn_mask    broadcasts to (..., queries, keys): a bool one says what takes part, another is added to the scores
    dropout_p    probability with which a weight becomes 0, also outside of training; others are scaled by 1 / (1 - p)
    is_causal    query i sees the keys 0 to i
    scale        1 / sqrt(features) otherwise
    enable_gqa   groups of query heads (dimension -3) share a head of key and value (Ainslie et al. 2023)

    Where a bool mask hides all keys of a query the result is 0. Raises RuntimeError for fewer than two dimensions, for
    dtypes that differ, for a mask together with `is_causal`, and for heads that do not divide.
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            f"Expected query, key, and value to all be at least 2 dimensional, but got query.dim: {query.ndim} "
            f"key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    if attn_mask is not None and attn_mask.dtype not in (dtypes.bool_, dtypes.float32, query.dtype):
        raise RuntimeError(
            f"Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{attn_mask.dtype} and query.dtype: {query.dtype} instead."
        )
    if state.casting is not None:
        query, key, value = state.casting.lower((query, key, value))
    if query.dtype is not key.dtype or query.dtype is not value.dtype:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {query.dtype} key.dtype: "
            f"{key.dtype} and value.dtype: {value.dtype} instead."
        )
    groups = 1
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        if query.shape[-3] != groups * key.shape[-3]:
            raise RuntimeError("Number of heads in key and value must divide the number of heads in query")
    factor = 1.0 / math.sqrt(int(query.shape[-1])) if scale is None else to_float(scale)
    if dropout_p <= 0.0 and flash.suits(query, key, value, attn_mask):
        return flash.attend(query, key, value, attn_mask, bool(is_causal), float(factor), groups)
    key, value = (repeat_interleave(x, groups, -3) if groups != 1 else x for x in (key, value))
    if dropout_p <= 0.0 and is_causal and 2 * STRETCH <= query.shape[-2] <= key.shape[-2]:
        return _causal(query, key, value, factor)
    if dropout_p <= 0.0:
        return attention.call(query, key, value, attn_mask, bool(is_causal), factor)[0]
    scores = matmul.call(query, key.transpose(-2, -1))
    weights = attention_weights.call(scores, attn_mask, bool(is_causal), factor)
    from eagerjit.ops.dropout import dropout

    return matmul.call(dropout(weights, dropout_p, True), value)
