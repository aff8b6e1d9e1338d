"""`torch.ao.nn.quantized.dynamic`: layers with small weights, whose inputs are rounded when they are called."""

from __future__ import annotations

from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.nn.functional import linear
from eagerjit.nn.layers import Linear as FloatLinear
from eagerjit.nn.module import Module
from eagerjit.ops.positions import where
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import NAMED
from eagerjit.tensors.creation import tensor
from eagerjit.tensors.tensor import Tensor

__all__ = ["Linear"]

_MOST = 127
"""The greatest step of an input: one bit less than a byte has, as PyTorch on x86."""
_LEAST_SCALE = 6.1e-5
"""Scales below are made as large, so that their inverse can be computed with."""
_EXACT = 2**24 // _MOST**2
"""As many products of steps add up exactly in float32."""


class Linear(Module):
    """A linear layer whose weights are of 8 bits (`dtype` torch.qint8) or 16 (torch.float16); it has no gradient.

    With 8 bits every call rounds its input to 128 steps from its least number to its greatest.
    """

    def __init__(self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = NAMED["qint8"]):
        super().__init__()
        self.in_features, self.out_features, self.dtype = in_features, out_features, dtype
        self._round_weights(FloatLinear(in_features, out_features, bias_))

    @classmethod
    def from_float(cls, mod: FloatLinear, dtype: Any = NAMED["qint8"]) -> Linear:
        """The layer that rounds the weights of another one."""
        made = cls.__new__(cls)
        Module.__init__(made)
        made.in_features, made.out_features, made.dtype = mod.in_features, mod.out_features, dtype
        made._round_weights(mod)
        return made

    @no_grad()
    def _round_weights(self, mod: FloatLinear) -> None:
        weight = mod.weight.detach()
        if self.dtype is dtypes.float16:
            self.register_buffer("stored", weight.half())
        else:
            scale = weight.abs().max() / (255 / 2) if weight.numel() else tensor(0.0)
            scale = where(scale > 0, scale, 1.0).clamp(min=2**-23)
            self.register_buffer("stored", (weight * (1 / scale)).round().clamp(-128, 127).to(dtypes.int8))
            self.register_buffer("scale", scale)
        self.register_buffer("bias", None if mod.bias is None else mod.bias.detach().clone())

    @no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """The product with the weights, and the bias."""
        if self.dtype is dtypes.float16:
            return linear(x, self.stored.float(), self.bias).to(x.dtype)
        scale, zero = _steps(x)
        wide = dtypes.float32 if self.in_features <= _EXACT else dtypes.float64
        steps = ((x * (1 / scale) + zero).round().clamp(0, 255) - zero).to(wide)
        product = (steps @ self.stored.to(wide).T).to(dtypes.float32) * (scale * self.scale)
        return (product if self.bias is None else product + self.bias).to(x.dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        """The sizes and the dtype."""
        scheme = "" if self.dtype is dtypes.float16 else ", qscheme=torch.per_tensor_affine"
        return f"in_features={self.in_features}, out_features={self.out_features}, dtype={self.dtype}{scheme}"


def _steps(x: Tensor) -> tuple[Tensor, Tensor]:
    """The size of a step, and the step that is zero, for numbers between the least and the greatest of x and 0."""
    wide = x.to(dtypes.float64)
    least, most = wide.min().clamp(max=0), wide.max().clamp(min=0)
    scale = ((most - least) / _MOST).to(dtypes.float32)
    scale = where(scale == 0, 0.1, scale)
    small = scale < _LEAST_SCALE
    larger = where(small, _LEAST_SCALE / scale, 1.0).to(dtypes.float64)
    scale, least, most = scale.clamp(min=_LEAST_SCALE), least * larger, most * larger
    below, above = -(least / scale), _MOST - most / scale
    closer = (least / scale).abs() < _MOST + (most / scale).abs()
    return scale, where(closer, below, above).clamp(0, _MOST).round().to(dtypes.float32)
