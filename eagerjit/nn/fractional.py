"""Fractional max pooling as layers."""

from __future__ import annotations

from typing import Any

from eagerjit.nn.module import Module
from eagerjit.ops import fractional
from eagerjit.tensors.tensor import Tensor


class _FractionalMaxPool(Module):
    function: Any

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ):  # fmt: skip
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError("exactly one of output_size and output_ratio has to be given")
        ratios = () if output_ratio is None else output_ratio if isinstance(output_ratio, tuple) else (output_ratio,)
        if not all(0 < ratio < 1 for ratio in ratios):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")
        self.kernel_size, self.return_indices = kernel_size, return_indices
        self.output_size, self.output_ratio = output_size, output_ratio
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        how = (self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples)
        return type(self).function(input, *how)


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima over windows of images that begin at places drawn at random."""

    function = staticmethod(fractional.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima over windows of volumes that begin at places drawn at random."""

    function = staticmethod(fractional.fractional_max_pool3d)
