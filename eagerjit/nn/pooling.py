"""Pooling and padding as layers: each holds the arguments of a function."""

from __future__ import annotations

from typing import Any

from eagerjit.nn.module import Module
from eagerjit.ops import adaptive, padding, pooling
from eagerjit.tensors.tensor import Tensor


def _layer(base: type[Module], prefix: str, function: str) -> list[type[Module]]:
    """The layer for one, two and three dimensions."""
    made = []
    for rank in (1, 2, 3):
        name = f"{prefix}{rank}d"
        target = getattr(adaptive if "adaptive" in function else pooling, f"{function}{rank}d")
        members = {"rank": rank, "function": staticmethod(target), "__doc__": target.__doc__, "__module__": __name__}
        made.append(type(name, (base,), members))
    return made


class _Pool(Module):
    rank = 0
    function: Any
    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxPoolNd(_Pool):
    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, return_indices: bool = False,
        ceil_mode: bool = False,
    ):  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        how = (self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)
        return type(self).function(input, *how)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _AvgPoolNd(_Pool):
    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ):  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding
        if self.rank == 1:
            self.kernel_size, self.stride, self.padding = (
                tuple(v) if isinstance(v, (tuple, list)) else (v,)
                for v in (self.kernel_size, self.stride, self.padding)
            )
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        rest = () if self.rank == 1 else (self.divisor_override,)
        how = (self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, *rest)
        return type(self).function(input, *how)


class _LPPoolNd(_Pool):
    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False):
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class _MaxUnpoolNd(_Pool):
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0):
        super().__init__()
        each = [tuple(v) if isinstance(v, (tuple, list)) else (v,) * self.rank
                for v in (kernel_size, kernel_size if stride is None else stride, padding)]  # fmt: skip
        self.kernel_size, self.stride, self.padding = each

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class _AdaptiveAvgPoolNd(_Pool):
    def __init__(self, output_size: Any):
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Any:
        return type(self).function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveMaxPoolNd(_AdaptiveAvgPoolNd):
    def __init__(self, output_size: Any, return_indices: bool = False):
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return type(self).function(input, self.output_size, self.return_indices)


MaxPool1d, MaxPool2d, MaxPool3d = _layer(_MaxPoolNd, "MaxPool", "max_pool")
AvgPool1d, AvgPool2d, AvgPool3d = _layer(_AvgPoolNd, "AvgPool", "avg_pool")
LPPool1d, LPPool2d, LPPool3d = _layer(_LPPoolNd, "LPPool", "lp_pool")
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = _layer(_MaxUnpoolNd, "MaxUnpool", "max_unpool")
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = _layer(
    _AdaptiveAvgPoolNd, "AdaptiveAvgPool", "adaptive_avg_pool"
)
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = _layer(
    _AdaptiveMaxPoolNd, "AdaptiveMaxPool", "adaptive_max_pool"
)


class _Pad(Module):
    """A border of `padding`: one number, or (left, right) of the last dimension, then of the one before it."""

    rank = 0
    mode = "constant"
    value: float | None = None

    def __init__(self, padding: Any):
        super().__init__()
        self.padding = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * (2 * self.rank)

    def forward(self, input: Tensor) -> Tensor:
        return padding.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    def __init__(self, padding: Any, value: float):
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _Zeros(_ConstantPadNd):
    def __init__(self, padding: Any):
        super().__init__(padding, 0.0)

    extra_repr = _Pad.extra_repr


class _ReflectionPadNd(_Pad):
    mode = "reflect"


class _ReplicationPadNd(_Pad):
    mode = "replicate"


class _CircularPadNd(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise ValueError(f"expected {self.rank + 1}D or {self.rank + 2}D input (got {input.ndim}D input)")
        return super().forward(input)


def _pads(name: str, base: type[_Pad]) -> list[type[_Pad]]:
    """The layer for one, two and three dimensions."""
    each = ({"rank": rank, "__doc__": _Pad.__doc__, "__module__": __name__} for rank in (1, 2, 3))
    return [type(f"{name}{members['rank']}d", (base,), members) for members in each]


ConstantPad1d, ConstantPad2d, ConstantPad3d = _pads("ConstantPad", _ConstantPadNd)
ZeroPad1d, ZeroPad2d, ZeroPad3d = (
    type(f"ZeroPad{base.rank}d", (_Zeros, base), {"__doc__": _Pad.__doc__, "__module__": __name__})
    for base in (ConstantPad1d, ConstantPad2d, ConstantPad3d)
)
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _pads("ReflectionPad", _ReflectionPadNd)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _pads("ReplicationPad", _ReplicationPadNd)
CircularPad1d, CircularPad2d, CircularPad3d = _pads("CircularPad", _CircularPadNd)
