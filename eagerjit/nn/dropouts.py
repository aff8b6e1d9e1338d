"""Dropout of elements and of whole channels, and the kinds that keep mean and variance."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.effects.cautions import caution
from eagerjit.nn.module import Module
from eagerjit.ops.draws import happens
from eagerjit.ops.dropout import dropout as dropped
from eagerjit.recording.numbers import python_number
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor

_SATURATION = 1.7580993408473766
"""-alpha' of Klambauer et al. 2017: what a SELU gives for very negative inputs."""


def _checked(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _placed(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    return input.copy_(result) if inplace and result is not input else result


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements zeroed with probability p while training, the others scaled by 1 / (1 - p) (Srivastava et al. 2014).

    Raises ValueError unless 0 <= p <= 1, RuntimeError for integers.
    """
    return _placed(input, dropped(input, p, training), inplace)


def _by_channel(input: Tensor, p: float, training: bool, batched: bool) -> Tensor:
    """Whole channels zeroed with probability p."""
    _checked(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    kept = tuple(input.shape)[: 2 if batched else 1]
    return input * dropped(input.detach().new_ones((*kept, *(1,) * (input.ndim - len(kept)))), p, True)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Channels of (batch, channels, length) or (channels, length) zeroed with probability p while training."""
    _checked(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d exists to "
            "provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional "
            "batch dimension (i.e. 2D or 3D inputs)."
        )
    return _placed(input, _by_channel(input, p, training, input.ndim == 3), inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Channels of (batch, channels, ...) zeroed with probability p while training (Tompson et al. 2015).

    Raises ValueError unless 0 <= p <= 1, RuntimeError for fewer than two dimensions.
    """
    _checked(p)
    if training and input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    if input.ndim not in (3, 4):
        caution(f"dropout2d: Received a {input.ndim}-D input to dropout2d, which is deprecated")
    return _placed(input, _by_channel(input, p, training, True), inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Channels of (batch, channels, depth, height, width), or of one example, zeroed with probability p."""
    _checked(p)
    if input.ndim not in (4, 5):
        caution(f"dropout3d: Received a {input.ndim}-D input to dropout3d, which is deprecated")
    return _placed(input, _by_channel(input, p, training, input.ndim != 4), inplace)


def _channels(input: Tensor) -> tuple[int, ...]:
    """The shape of one number per channel of (batch, channels, ...)."""
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return (*tuple(input.shape)[:2], *(1,) * (input.ndim - 2))


def feature_dropout(input: Tensor, p: float, training: bool, inplace: bool = False) -> Tensor:
    """Channels of (batch, channels, ...) zeroed with probability p while training, the others scaled."""
    _checked(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    result = input * 0.0 if p == 1 else input * dropped(input.detach().new_ones(_channels(input)), p, True)
    return _placed(input, result, inplace)


def _self_normalising(input: Tensor, p: float, training: bool, by_channel: bool) -> Tensor:
    """Dropped elements become the saturation; then all are scaled and shifted to keep mean and variance."""
    _checked(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return input * 0.0
    shape = _channels(input) if by_channel else tuple(input.shape)
    if not input.dtype.is_differentiable:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {TYPE_NAMES[input.dtype]}")
    kept = happens(shape, 1.0 - p, None, input.device).to(input.dtype)
    scale = 1.0 / python_number(math.sqrt, (_SATURATION**2 * p + 1.0) * (1.0 - p))
    return input * (kept * scale) + ((kept - 1.0) * (_SATURATION * scale) + _SATURATION * scale * p)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of self-normalising networks (Klambauer et al. 2017)."""
    return _placed(input, _self_normalising(input, p, training, False), inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels of (batch, channels, ...)."""
    return _placed(input, _self_normalising(input, p, training, True), inplace)


class _DropoutNd(Module):
    function: Any

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        _checked(p)
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


def _module(name: str, function: Any) -> Any:
    members = {"function": staticmethod(function), "__doc__": function.__doc__, "__module__": __name__}
    return type(name, (_DropoutNd,), members)


Dropout = _module("Dropout", dropout)
Dropout1d = _module("Dropout1d", dropout1d)
Dropout2d = _module("Dropout2d", dropout2d)
Dropout3d = _module("Dropout3d", dropout3d)
AlphaDropout = _module("AlphaDropout", alpha_dropout)
FeatureAlphaDropout = _module("FeatureAlphaDropout", feature_alpha_dropout)
