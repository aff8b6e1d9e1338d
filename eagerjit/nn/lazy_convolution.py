"""Convolutions whose channels the first call tells."""

from __future__ import annotations

from typing import Any

from eagerjit.nn import convolution
from eagerjit.nn.lazy import LazyModuleMixin
from eagerjit.nn.parameter import UninitializedParameter


class _LazyConvolution(LazyModuleMixin):
    def __init__(self, out_channels: int, kernel_size: Any, *args: Any, bias: bool = True, **kwargs: Any):
        device, dtype = kwargs.get("device"), kwargs.get("dtype")
        super().__init__(0, 0, kernel_size, *args, bias=False, **kwargs)  # type: ignore[call-arg]
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, once they have shapes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        if input.ndim not in (self.rank + 1, self.rank + 2):  # type: ignore[attr-defined]
            raise RuntimeError(
                f"Expected {self.rank + 1}D or {self.rank + 2}D input to {type(self).__name__}, but got input of size: "  # type: ignore[attr-defined]
                f"{list(input.shape)}"
            )
        self.in_channels = int(input.shape[-self.rank - 1])  # type: ignore[attr-defined]
        if self.in_channels % self.groups:  # type: ignore[attr-defined]
            raise ValueError("in_channels must be divisible by groups")
        pair = (self.in_channels, self.out_channels)
        first, second = pair if self.transposed else pair[::-1]  # type: ignore[attr-defined]
        self.weight.materialize((first, second // self.groups, *self.kernel_size))  # type: ignore[attr-defined]
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


def _lazy(name: str) -> type:
    """The lazy kind of a convolution."""
    full = getattr(convolution, name)
    members = {"cls_to_become": full, "__doc__": f"A {name} that learns in_channels at its first call."}
    return type(f"Lazy{name}", (_LazyConvolution, full), {**members, "__module__": __name__})


LazyConv1d, LazyConv2d, LazyConv3d = (_lazy(f"Conv{n}d") for n in (1, 2, 3))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (_lazy(f"ConvTranspose{n}d") for n in (1, 2, 3))
