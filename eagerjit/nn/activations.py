"""Activation functions as modules: each holds the options of a function."""

from __future__ import annotations

from typing import Any, ClassVar

from eagerjit.nn import activation_functions as F
from eagerjit.nn.module import Module
from eagerjit.ops.normalization import log_softmax, softmax, softmin
from eagerjit.tensors.creation import full
from eagerjit.tensors.tensor import Parameter, Tensor


class _Options(Module):
    """A module that calls a function of one tensor with its options; `shown` are those that repr names."""

    function: Any
    options: ClassVar[dict[str, Any]] = {}
    shown: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()
        names = list(self.options)
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__}() takes {len(names)} arguments but {len(args)} were given")
        values = {**self.options, **dict(zip(names, args, strict=False))}
        for name, value in kwargs.items():
            if name not in names:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{name}'")
            values[name] = value
        for name, value in values.items():
            setattr(self, name, value)

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, **{name: getattr(self, name) for name in self.options})

    def extra_repr(self) -> str:
        parts = [f"{'' if name == 'lambd' else name + '='}{getattr(self, name)!r}" for name in self.shown]
        return ", ".join(parts + ["inplace=True"] * (self.__dict__.get("inplace") is True))


def _module(name: str, function: Any, shown: tuple[str, ...] = (), **options: Any) -> type[_Options]:
    members = {"function": staticmethod(function), "options": options, "shown": shown, "__doc__": function.__doc__}
    members["__module__"] = __name__
    if not options:
        members["forward"] = lambda self, input: function(input)
    elif set(options) == {"dim"}:
        members["forward"] = lambda self, input: function(input, self.dim)
    elif set(options) == {"inplace"} and hasattr(function, "plain"):
        plain = function.plain
        members["forward"] = lambda self, input: function(input, inplace=True) if self.inplace else plain(input)
    return type(name, (_Options,), members)


ReLU = _module("ReLU", F.relu, inplace=False)
SiLU = _module("SiLU", F.silu, inplace=False)
Mish = _module("Mish", F.mish, inplace=False)
SELU = _module("SELU", F.selu, inplace=False)
ELU = _module("ELU", F.elu, ("alpha",), alpha=1.0, inplace=False)
GELU = _module("GELU", F.gelu, ("approximate",), approximate="none")
LeakyReLU = _module("LeakyReLU", F.leaky_relu, ("negative_slope",), negative_slope=0.01, inplace=False)
Hardsigmoid = _module("Hardsigmoid", F.hardsigmoid, inplace=False)
Hardswish = _module("Hardswish", F.hardswish, inplace=False)
Softplus = _module("Softplus", F.softplus, ("beta", "threshold"), beta=1.0, threshold=20.0)
Softsign = _module("Softsign", F.softsign)
LogSigmoid = _module("LogSigmoid", F.logsigmoid)
Tanh = _module("Tanh", F.tanh)
Sigmoid = _module("Sigmoid", F.sigmoid)
CELU = _module("CELU", F.celu, ("alpha",), alpha=1.0, inplace=False)
Hardshrink = _module("Hardshrink", F.hardshrink, ("lambd",), lambd=0.5)
Softshrink = _module("Softshrink", F.softshrink, ("lambd",), lambd=0.5)
Tanhshrink = _module("Tanhshrink", F.tanhshrink)
GLU = _module("GLU", F.glu, ("dim",), dim=-1)
Softmax = _module("Softmax", softmax, ("dim",), dim=None)
LogSoftmax = _module("LogSoftmax", log_softmax, ("dim",), dim=None)
Softmin = _module("Softmin", softmin, ("dim",), dim=None)


class Threshold(_Options):
    """input where above a threshold, else a value."""

    function = staticmethod(F.threshold)
    options: ClassVar[dict[str, Any]] = {"threshold": None, "value": None, "inplace": False}
    shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        super().__init__(threshold, value, inplace)


class RReLU(Module):
    """input where positive, else times a slope: drawn while training, else the middle one."""

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False):
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}" + (", inplace=True" if self.inplace else "")


class Hardtanh(_Options):
    """input limited to [min_val, max_val]."""

    function = staticmethod(F.hardtanh)
    options: ClassVar[dict[str, Any]] = {"min_val": -1.0, "max_val": 1.0, "inplace": False}
    shown: tuple[str, ...] = ("min_val", "max_val")

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False, min_value: float | None = None,
        max_value: float | None = None,
    ):  # fmt: skip
        low, high = min_val if min_value is None else min_value, max_val if max_value is None else max_value
        if high <= low:
            raise AssertionError(f"max_val must be larger than min_val, but got max_val={high} and min_val={low}")
        super().__init__(low, high, inplace)


class ReLU6(Hardtanh):
    """input limited to [0, 6]."""

    shown = ()

    def __init__(self, inplace: bool = False):
        super().__init__(0.0, 6.0, inplace)


class PReLU(Module):
    """input where positive, else weight * input; one weight, or one per channel."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(full((num_parameters,), float(init), device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """All weights as at first."""
        self.weight.data.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Softmax2d(Module):
    """softmax over the channels of (batch, channels, height, width) or (channels, height, width)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return softmax(input, -3)
