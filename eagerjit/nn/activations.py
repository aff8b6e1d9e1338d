"""Activation functions and losses as modules: each holds the options of a function."""

from __future__ import annotations

from typing import Any, ClassVar

from eagerjit.nn import functional as F
from eagerjit.nn.module import Module
from eagerjit.tensor import Tensor


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
    return type(name, (_Options,), members)


ReLU = _module("ReLU", F.relu, inplace=False)
ReLU6 = _module("ReLU6", F.relu6, inplace=False)
SiLU = _module("SiLU", F.silu, inplace=False)
Mish = _module("Mish", F.mish, inplace=False)
SELU = _module("SELU", F.selu, inplace=False)
ELU = _module("ELU", F.elu, ("alpha",), alpha=1.0, inplace=False)
GELU = _module("GELU", F.gelu, ("approximate",), approximate="none")
LeakyReLU = _module("LeakyReLU", F.leaky_relu, ("negative_slope",), negative_slope=0.01, inplace=False)
Hardtanh = _module("Hardtanh", F.hardtanh, ("min_val", "max_val"), min_val=-1.0, max_val=1.0, inplace=False)
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
Softmax = _module("Softmax", F.softmax, ("dim",), dim=None)
LogSoftmax = _module("LogSoftmax", F.log_softmax, ("dim",), dim=None)
Softmin = _module("Softmin", F.softmin, ("dim",), dim=None)


# -- losses -----------------------------------------------------------------------------------------------------------


class _Loss(Module):
    """A loss of (input, target); tensors among the options become buffers."""

    function: Any
    options: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__()
        names = [
            *self.tensors,
            "size_average",
            *(n for n in self.defaults if n == "ignore_index"),
            "reduce",
            "reduction",
        ]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        values = {**dict.fromkeys(self.tensors), **self.defaults, "reduction": "mean"}
        for name, value in given.items():
            if name not in values and name not in ("size_average", "reduce"):
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{name}'")
            values[name] = value
        for name, value in values.items():
            if name in self.tensors:
                self.register_buffer(name, value)
            elif name not in ("size_average", "reduce"):
                setattr(self, name, value)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        names = (*self.tensors, *self.defaults, "reduction")
        return type(self).function(input, target, **{name: getattr(self, name) for name in names})


def _loss(name: str, function: Any, tensors: tuple[str, ...] = (), **defaults: Any) -> type[_Loss]:
    members = {
        "function": staticmethod(function),
        "tensors": tensors,
        "defaults": defaults,
        "__doc__": function.__doc__,
    }
    members["__module__"] = __name__
    return type(name, (_Loss,), members)


CrossEntropyLoss = _loss("CrossEntropyLoss", F.cross_entropy, ("weight",), ignore_index=-100, label_smoothing=0.0)
NLLLoss = _loss("NLLLoss", F.nll_loss, ("weight",), ignore_index=-100)
MSELoss = _loss("MSELoss", F.mse_loss)
L1Loss = _loss("L1Loss", F.l1_loss)
SmoothL1Loss = _loss("SmoothL1Loss", F.smooth_l1_loss, beta=1.0)
HuberLoss = _loss("HuberLoss", F.huber_loss, delta=1.0)
BCELoss = _loss("BCELoss", F.binary_cross_entropy, ("weight",))
BCEWithLogitsLoss = _loss("BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, ("weight", "pos_weight"))
KLDivLoss = _loss("KLDivLoss", F.kl_div, log_target=False)
