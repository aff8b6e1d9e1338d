"""Transformers: encoder and decoder layers, stacks of them, and both together (Vaswani et al. 2017)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from eagerjit.amp.autocast import is_autocast_enabled
from eagerjit.autograd.modes import is_grad_enabled
from eagerjit.nn import functional as F
from eagerjit.nn import init
from eagerjit.nn.activations import GELU, ReLU
from eagerjit.nn.containers import ModuleList
from eagerjit.nn.dropouts import Dropout
from eagerjit.nn.layers import LayerNorm, Linear
from eagerjit.nn.module import Module
from eagerjit.nn.multihead import MultiheadAttention, float_mask
from eagerjit.state import state
from eagerjit.tensors.creation import full
from eagerjit.tensors.tensor import Tensor

Activation = str | Callable[[Tensor], Tensor]


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


def _get_clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _square_mask(size: Any, device: Any = None, dtype: Any = None) -> Tensor:
    """-inf above the diagonal, 0 elsewhere."""
    return full((size, size), -math.inf, device=device, dtype=dtype).triu(1)


class _Layer(Module):
    """What encoder and decoder layers share: the feedforward block and how a block is added to what goes in."""

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int, dropout: float, activation: Activation,
        layer_norm_eps: float, batch_first: bool, norm_first: bool, bias: bool, attentions: tuple[str, ...],
        device: Any, dtype: Any,
    ):  # fmt: skip
        super().__init__()
        for name in attentions:
            made = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
            )
            setattr(self, name, made)
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        self.norm_first = norm_first
        blocks = range(1, len(attentions) + 2)
        for index in blocks:
            setattr(self, f"norm{index}", LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype))
        for index in blocks:
            setattr(self, f"dropout{index}", Dropout(dropout))
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def _block(self, x: Tensor, index: int, block: Callable[[Tensor], Tensor]) -> Tensor:
        """x plus a block of it, normalised before or after."""
        norm, drop = getattr(self, f"norm{index}"), getattr(self, f"dropout{index}")
        if self.norm_first:
            return x + drop(block(norm(x)))
        return norm(x + drop(block(x)))

    def _feedforward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention, then two Linear layers around an activation; each added to what goes in and normalised.

    Of (length, batch, d_model), or (batch, length, d_model) with `batch_first` (Vaswani et al. 2017); with `norm_first`
    what goes into each block is normalised instead (Xiong et al. 2020). Raises RuntimeError for names of other
    activations than relu and gelu.
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        options = (layer_norm_eps, batch_first, norm_first, bias, ("self_attn",), device, dtype)
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, *options)

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        padding = float_mask(src_key_padding_mask, "src_key_padding_mask", src.dtype)
        mask = float_mask(src_mask, "attn_mask", src.dtype)

        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, padding, False, mask, is_causal=is_causal)[0]

        return self._block(self._block(src, 1, attend), 2, self._feedforward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's results, then two Linear layers around an activation."""

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        options = (layer_norm_eps, batch_first, norm_first, bias, ("self_attn", "multihead_attn"), device, dtype)
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, *options)

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        def attend(x: Tensor) -> Tensor:
            return self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0]

        def look(x: Tensor) -> Tensor:
            masks = (memory_key_padding_mask, False, memory_mask)
            return self.multihead_attn(x, memory, memory, *masks, is_causal=memory_is_causal)[0]

        return self._block(self._block(self._block(tgt, 1, attend), 2, look), 3, self._feedforward)


def _leaves_out(layer: Any) -> bool:
    """Whether PyTorch computes such layers without what is padding, where no gradients are recorded."""
    if not isinstance(layer, TransformerEncoderLayer) or layer.norm_first or layer.norm1.eps != layer.norm2.eps:
        return False
    attention = layer.self_attn
    fits = attention.batch_first and attention._qkv_same_embed_dim and attention.in_proj_bias is not None
    known = layer.activation in (F.relu, F.gelu) or isinstance(layer.activation, (ReLU, GELU))
    return fits and known and attention.num_heads % 2 == 0


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other.

    At inference (`eval()` and no gradients) results are zero where `src_key_padding_mask` says that the input is
    padding, if that is at the ends and there is no other mask, as in PyTorch; `enable_nested_tensor=False` computes
    them all.
    """

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ):  # fmt: skip
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.use_nested_tensor = enable_nested_tensor and _leaves_out(encoder_layer)

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:  # fmt: skip
        padding = float_mask(src_key_padding_mask, "src_key_padding_mask", src.dtype)
        mask = float_mask(mask, "mask", src.dtype)
        out = src
        for layer in self.layers:
            out = layer(out, src_mask=mask, is_causal=bool(is_causal), src_key_padding_mask=padding)
        if mask is None and padding is not None and self._leaves_out_padding(src, padding):
            out = out.masked_fill((padding != 0).unsqueeze(2), 0.0)
        return out if self.norm is None else self.norm(out)

    def _leaves_out_padding(self, src: Tensor, padding: Tensor) -> bool:
        """Whether results are zero where there is padding, at the ends: at inference, not in exported models."""
        if not self.use_nested_tensor or self.layers[0].training or src.ndim != 3 or state.exporting:
            return False
        if is_autocast_enabled(src.device.type):
            return False
        if is_grad_enabled() and (src.requires_grad or any(p.requires_grad for p in self.layers[0].parameters())):
            return False
        there = padding == 0
        return not self.mask_check or not bool((there[:, 1:] > there[:, :-1]).any())


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None):
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        out = tgt
        for layer in self.layers:
            out = layer(
                out, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return out if self.norm is None else self.norm(out)


class Transformer(Module):
    """An encoder of source sequences and a decoder of target sequences that looks at its results (Vaswani et al. 2017).

    (source length, batch, d_model) and (target length, batch, d_model), batch first with `batch_first`, give the
    latter's shape. Raises RuntimeError for other sizes than d_model and batches that differ.
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = F.relu,
        custom_encoder: Any = None, custom_decoder: Any = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        options = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
            device, dtype,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*options), num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*options), num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        batched = src.ndim == 3
        axis = 0 if self.batch_first else 1
        if batched and src.shape[axis] != tgt.shape[axis]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: Any, device: Any = None, dtype: Any = None) -> Tensor:
        """The mask that hides later positions: -inf above the diagonal, 0 elsewhere."""
        return _square_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)
