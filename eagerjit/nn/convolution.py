"""Convolutions as layers."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.nn import init
from eagerjit.nn.module import Module
from eagerjit.ops import convolution as F
from eagerjit.ops.padding import pad
from eagerjit.tensors.creation import empty
from eagerjit.tensors.tensor import Parameter, Tensor

MODES = ("zeros", "reflect", "replicate", "circular")


def _each(value: Any, rank: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank


class _ConvNd(Module):
    """What all of them share: `rank` spatial dimensions, weight, bias and how the kernel moves."""

    rank = 0
    transposed = False

    def _set(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any, output_padding: Any,
        dilation: Any, groups: int, bias: bool, padding_mode: str, device: Any, dtype: Any,
    ) -> None:  # fmt: skip
        Module.__init__(self)
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(f"Invalid padding string {padding!r}, should be one of ('same', 'valid')")
        if padding == "same" and any(s != 1 for s in _each(stride, self.rank)):
            raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in MODES:
            raise ValueError(f"padding_mode must be one of {set(MODES)}, but got padding_mode='{padding_mode}'")
        if self.transposed and padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        rank = self.rank
        self.in_channels, self.out_channels, self.groups, self.padding_mode = (
            in_channels, out_channels, groups, padding_mode,
        )  # fmt: skip
        self.kernel_size, self.stride, self.dilation = (_each(v, rank) for v in (kernel_size, stride, dilation))
        self.padding = padding if isinstance(padding, str) else _each(padding, rank)
        self.output_padding = _each(output_padding, rank)
        channels = (in_channels, out_channels // groups) if self.transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(empty(*channels, *self.kernel_size, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, uniform within 1 / sqrt(channels seen by one output)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = math.prod(int(n) for n in self.weight.shape[1:])
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}", f"kernel_size={self.kernel_size}", f"stride={self.stride}"]
        if self.padding != (0,) * self.rank:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * self.rank:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * self.rank:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class _Forward(_ConvNd):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        self._set(
            in_channels, out_channels, kernel_size, stride, padding, 0, dilation, groups, bias, padding_mode, device,
            dtype,
        )  # fmt: skip
        amounts: list[int] = []
        for d, k, p in zip(self.dilation, self.kernel_size, _each(self.padding, self.rank), strict=False):
            total = d * (k - 1)
            pair = (total // 2, total - total // 2) if self.padding == "same" else (p, p)
            amounts = [*(pair if self.padding != "valid" else (0, 0)), *amounts]
        self._reversed_padding_repeated_twice = tuple(amounts)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with another weight and bias: what classes derived from this one call."""
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self.rank - 1]
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = pad(input, self._reversed_padding_repeated_twice, self.padding_mode), 0
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Forward):
    """A convolution of (batch, channels, length), or of one example; see `Conv2d`."""

    rank = 1


class Conv2d(_Forward):
    """A convolution of (batch, channels, height, width), or of one example (channels, height, width).

    out[b, o] = bias[o] + sum over channels and taps of weight[o, c] * input[b, c], the kernel not flipped; spatial
    sizes become floor((n + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1.

    weight is (out_channels, in_channels / groups, kernel_size...), drawn uniform within 1 / sqrt(its taps) as bias is.
    `padding` is numbers, "same" or "valid"; `padding_mode` "zeros", "reflect", "replicate" or "circular". Raises
    ValueError for options that do not go together, RuntimeError for inputs whose channels or sizes do not fit.
    """

    rank = 2


class Conv3d(_Forward):
    """A convolution of (batch, channels, depth, height, width), or of one example; see `Conv2d`."""

    rank = 3


class _ConvTransposeNd(_ConvNd):
    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        self._set(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """The result; `output_size` chooses among the sizes that the stride leaves open."""
        convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.rank - 1]
        extra = self.output_padding if output_size is None else self._extra(input, output_size)
        return convolve(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _extra(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """The output padding that gives a size. Raises ValueError where none does."""
        wanted = list(output_size)
        if len(wanted) == input.ndim:
            wanted = wanted[-self.rank :]
        if len(wanted) != self.rank:
            raise ValueError(
                f"{type(self).__name__}: for {input.ndim}D input, output_size must have {self.rank} or {input.ndim} "
                f"elements (got {len(wanted)})"
            )
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-self.rank :], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
            )
        ]
        most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
        if any(w < a or w > b for w, a, b in zip(wanted, least, most, strict=True)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to {most} (for an input of "
                f"{list(input.shape[2:])})"
            )
        return tuple(w - n for w, n in zip(wanted, least, strict=True))


class ConvTranspose1d(_ConvTransposeNd):
    """A transposed convolution of (batch, channels, length); see `ConvTranspose2d`."""

    rank = 1


class ConvTranspose2d(_ConvTransposeNd):
    """A transposed convolution of (batch, channels, height, width): what gives a `Conv2d` the gradient of its input.

    Spatial sizes become (n - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1; weight is
    (in_channels, out_channels / groups, kernel_size...). `forward` takes an `output_size` in place of `output_padding`.
    Raises ValueError for a size that no padding gives, RuntimeError for inputs whose channels do not fit.
    """

    rank = 2


class ConvTranspose3d(_ConvTransposeNd):
    """A transposed convolution of (batch, channels, depth, height, width); see `ConvTranspose2d`."""

    rank = 3
