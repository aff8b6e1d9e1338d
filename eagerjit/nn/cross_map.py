"""Normalization across the feature maps of images."""

from __future__ import annotations

from eagerjit.nn.module import Module
from eagerjit.ops.index import stack
from eagerjit.tensors.tensor import Tensor


class CrossMapLRN2d(Module):
    """input / (k + alpha * mean square of `size` neighbouring feature maps) ** beta, for images (N, C, H, W).

    As in PyTorch the sums take a map in and give another back, in order, and never give back the first one.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        squares, reach = input.square().unbind(1), (self.size + 1) // 2
        sums = [sum(squares[:reach])]
        for c in range(1, len(squares)):
            total = sums[-1]
            if c + reach <= len(squares):
                total = total + squares[c + reach - 1]
            sums.append(total - squares[c - reach] if c > reach else total)
        return (stack(sums, 1) * (self.alpha / self.size) + self.k).pow(-self.beta) * input

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
