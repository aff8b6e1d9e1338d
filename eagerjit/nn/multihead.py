"""Attention with several heads (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.nn import init
from eagerjit.nn.layers import Linear
from eagerjit.nn.module import Module
from eagerjit.ops.attention import scaled_dot_product_attention
from eagerjit.ops.dropout import dropout
from eagerjit.ops.index import cat
from eagerjit.ops.linear import linear_
from eagerjit.ops.normalization import softmax
from eagerjit.ops.views import reshaped
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import empty, zeros
from eagerjit.tensors.tensor import Parameter, Tensor


class NonDynamicallyQuantizableLinear(Linear):
    """The Linear that ends attention; its name is that of PyTorch."""


def float_mask(mask: Tensor | None, name: str, dtype: Any) -> Tensor | None:
    """A mask that is added to scores: -inf where a bool mask is True. Raises AssertionError for integers."""
    if mask is None or mask.dtype.is_floating_point:
        return mask
    if mask.dtype is not dtypes.bool_:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return zeros(tuple(mask.shape), dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)


def _check(condition: Any, message: Callable[[], str]) -> None:
    """Refuse what does not fit; a message that is not needed must not look at sizes, which would be guarded."""
    if not condition:
        raise AssertionError(message())


def _check_shapes(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None, heads: int
) -> bool:
    """Whether the inputs are batched."""
    _check(
        query.ndim in (2, 3),
        lambda: f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor",
    )
    kind = "batched (3-D)" if query.ndim == 3 else "unbatched (2-D)"
    n = query.ndim
    _check(
        key.ndim == n and value.ndim == n,
        lambda: (
            f"For {kind} `query`, expected `key` and `value` to be {n}-D but found {key.ndim}-D and {value.ndim}-D "
            "tensors respectively"
        ),
    )
    if padding is not None:
        _check(
            padding.ndim == n - 1,
            lambda: (
                f"For {kind} `query`, expected `key_padding_mask` to be `None` or {n - 1}-D but found {padding.ndim}-D "
                "tensor instead"
            ),
        )
    if mask is not None:
        _check(
            mask.ndim in (2, 3),
            lambda: (
                f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.ndim}-D tensor "
                "instead"
            ),
        )
        if n == 2 and mask.ndim == 3:
            expected = (heads, query.shape[0], key.shape[0])
            _check(
                tuple(mask.shape) == expected,
                lambda: f"Expected `attn_mask` shape to be {expected} but got {mask.shape}",
            )
    return n == 3


def _check_features(width: Any, expected: int, heads: int, key: Tensor, value: Tensor, separate: bool) -> None:
    """Refuse inputs that the weights do not fit."""
    _check(width == expected, lambda: f"was expecting embedding dimension of {expected}, but got {width}")
    _check(expected % heads == 0, lambda: f"embed_dim {expected} not divisible by num_heads {heads}")
    if separate:
        _check(
            tuple(key.shape)[:2] == tuple(value.shape)[:2],
            lambda: f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}",
        )
    else:
        _check(
            tuple(key.shape) == tuple(value.shape),
            lambda: f"key shape {key.shape} does not match value shape {value.shape}",
        )


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor | None, bias: Tensor | None, separate: Any
) -> list[Tensor]:
    """Queries, keys and values; of one tensor in one product."""
    if weight is None:
        biases = [None] * 3 if bias is None else bias.chunk(3)
        return [linear_.call(x, w, b) for x, w, b in zip((query, key, value), separate, biases, strict=True)]
    if query is key and key is value:
        return list(linear_.call(query, weight, bias).chunk(3, -1))
    parts, biases = weight.chunk(3), [None] * 3 if bias is None else bias.chunk(3)
    if key is value:
        first = linear_.call(query, parts[0], biases[0])
        width = weight.shape[0] // 3
        rest = linear_.call(key, weight[width:], None if bias is None else bias[width:])
        return [first, *rest.chunk(2, -1)]
    return [linear_.call(x, w, b) for x, w, b in zip((query, key, value), parts, biases, strict=True)]


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True,
    key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """(attention, its weights or None) for (length, batch, features) or (length, features); see MultiheadAttention."""
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same = query is key, key is value
        query = query.unsqueeze(1)
        key = query if same[0] else key.unsqueeze(1)
        value = key if same[1] else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, width = query.shape
    padding = float_mask(key_padding_mask, "key_padding_mask", query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and padding is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = float_mask(attn_mask, "attn_mask", query.dtype)
        is_causal = is_causal and padding is None
    _check_features(width, embed_dim_to_check, num_heads, key, value, use_separate_proj_weight)
    width = embed_dim_to_check  # a number: in a compiled call sizes of inputs are symbols
    features = width // num_heads
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    packed = None if use_separate_proj_weight else in_proj_weight
    q, k, v = _projected(query, key, value, packed, in_proj_bias, separate)
    mask = _checked_mask(attn_mask, length, key.shape[0], batch * num_heads)
    if bias_k is not None and bias_v is not None:
        k = cat.call([k, bias_k.expand(1, batch, bias_k.shape[-1])], 0)
        v = cat.call([v, bias_v.expand(1, batch, bias_v.shape[-1])], 0)
        mask, padding = _one_more_key(mask), _one_more_key(padding)

    def heads(x: Tensor) -> Tensor:
        return reshaped(x, x.shape[0], x.shape[1], num_heads, features).permute(1, 2, 0, 3)

    q = heads(q)
    k = heads(k) if static_k is None else static_k.reshape(batch, num_heads, -1, features)
    v = heads(v) if static_v is None else static_v.reshape(batch, num_heads, -1, features)
    if add_zero_attn:
        k, v = (cat.call([x, x.new_zeros((batch, num_heads, 1, features))], 2) for x in (k, v))
        mask, padding = _one_more_key(mask), _one_more_key(padding)
    mask = _joined_mask(mask, padding, (batch, num_heads, length, k.shape[2]))
    probability = dropout_p if training else 0.0
    weights = None
    if need_weights:
        out, weights = _with_weights(q * (1.0 / math.sqrt(features)), k, v, mask, probability)
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        out = scaled_dot_product_attention(q, k, v, mask, probability, is_causal and mask is None)
    out = out.permute(2, 0, 1, 3)
    out = reshaped(out, out.shape[0], out.shape[1], width)
    out = linear_.call(out, out_proj_weight, out_proj_bias)
    if batched:
        return out, weights
    return out.squeeze(1), None if weights is None else weights.squeeze(0)


def _checked_mask(mask: Tensor | None, queries: Any, keys: Any, heads: Any) -> Tensor | None:
    if mask is None:
        return None
    expected = (queries, keys) if mask.ndim == 2 else (heads, queries, keys)
    if tuple(mask.shape) != expected:
        raise RuntimeError(
            f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be ({', '.join(map(str, expected))})."
        )
    return mask


def _joined_mask(mask: Tensor | None, padding: Tensor | None, shape: tuple[Any, ...]) -> Tensor | None:
    """What is added to scores of shape (batch, heads, queries, keys): the mask, and which keys are padding."""
    batch, _, _, keys = shape
    if mask is not None and mask.ndim == 3:
        mask = mask.reshape(*shape)
    if padding is None:
        return mask
    rows, columns = padding.shape
    _check(rows == batch, lambda: f"Expected key_padded_mask.shape[0] to be {batch}, but got {rows}")
    _check(columns == keys, lambda: f"Expected key_padded_mask.shape[1] to be {keys}, but got {columns}")
    hidden = padding.reshape(batch, 1, 1, keys)
    return hidden if mask is None else mask + hidden


def _with_weights(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, probability: float) -> tuple[Tensor, Tensor]:
    """(the attention of scaled queries, its weights), step by step: attention as one operation keeps no weights."""
    scores = q.matmul(k.transpose(-2, -1))
    weights = softmax(scores if mask is None else scores + mask, -1)
    weights = dropout(weights, probability, True) if probability else weights
    return weights.matmul(v), weights


def _one_more_key(mask: Tensor | None) -> Tensor | None:
    """A mask that lets one more key through."""
    return None if mask is None else cat.call([mask, mask.new_zeros((*tuple(mask.shape)[:-1], 1))], mask.ndim - 1)


class MultiheadAttention(Module):
    """Attention of `num_heads` heads, each over embed_dim / num_heads features (Vaswani et al. 2017).

    query, key and value are (length, batch, features), (batch, length, features) with `batch_first`, or (length,
    features); key and value have one length, and `kdim` and `vdim` features where these are given. The result is
    (attention, weights): weights (batch, queries, keys) are the mean over heads, or (batch, heads, queries, keys), or
    None.

    key_padding_mask   (batch, keys): True hides a key, a float is added to its scores
    attn_mask          (queries, keys) or (batch * heads, queries, keys), in the same way
    dropout            probability with which a weight becomes 0 while training

    Raises AssertionError for features that heads do not divide and for shapes that do not fit.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.kdim, self.vdim = kdim if kdim is not None else embed_dim, vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.dropout, self.batch_first, self.head_dim = dropout, batch_first, embed_dim // num_heads
        _check(self.head_dim * num_heads == embed_dim, lambda: "embed_dim must be divisible by num_heads")

        def parameter(*shape: int) -> Parameter:
            return Parameter(empty(*shape, device=device, dtype=dtype))

        together = self._qkv_same_embed_dim
        widths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        for name, width in widths.items():
            self.register_parameter(name, None if together else parameter(embed_dim, width))
        self.register_parameter("in_proj_weight", parameter(3 * embed_dim, embed_dim) if together else None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, parameter(1, 1, embed_dim) if add_bias_kv else None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for name in ("bias_k", "bias_v"):
            if getattr(self, name) is not None:
                init.xavier_normal_(getattr(self, name))

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        if query.is_nested or key.is_nested or value.is_nested:
            return self._of_nested((query, key, value), key_padding_mask, need_weights, attn_mask, is_causal), None
        turned = self.batch_first and query.ndim == 3
        if turned:
            same = query is key, key is value
            query = query.transpose(0, 1)
            key = query if same[0] else key.transpose(0, 1)
            value = key if same[1] else value.transpose(0, 1)
        out, weights = multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, self.training,
            key_padding_mask, need_weights, attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return out.transpose(0, 1) if turned else out, weights

    def _of_nested(
        self, tensors: Any, key_padding_mask: Tensor | None, need_weights: bool, attn_mask: Tensor | None,
        is_causal: bool,
    ) -> Any:  # fmt: skip
        """Attention within each component of nested tensors (components, ragged, features)."""
        from eagerjit.nested.components import each

        if not self.batch_first or need_weights or key_padding_mask is not None:
            raise AssertionError(
                "MultiheadAttention of nested tensors needs batch_first=True and need_weights=False, and has no "
                "key_padding_mask: what is padding is not in them"
            )

        def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            return self.forward(query, key, value, None, False, attn_mask, is_causal=is_causal)[0]

        return each(attend, *tensors)
