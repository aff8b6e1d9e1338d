"""What normalisations have in common: a weight and a bias for what they have normalised."""

from __future__ import annotations

from typing import Any

from eagerjit.nn import init
from eagerjit.nn.module import Module
from eagerjit.tensors.creation import empty
from eagerjit.tensors.tensor import Parameter


class Affine(Module):
    """A Module with a weight and a bias of a shape, or without one of them, or both."""

    def _make_parameters(self, shape: Any, weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        for name, present in (("weight", weight), ("bias", bias)):
            made = Parameter(empty(shape, device=device, dtype=dtype)) if present else None
            self.register_parameter(name, made)

    def reset_parameters(self) -> None:
        """weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)
