"""Memory formats of convolutions' weights."""

from __future__ import annotations

from typing import Any

from eagerjit.nn.convolution import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d


def _convert(module: Any, kinds: tuple[type[Any], ...], memory_format: Any) -> Any:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """The Module, with the weights of its Conv2d and ConvTranspose2d in this memory format."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """The Module, with the weights of its Conv3d and ConvTranspose3d in this memory format."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
