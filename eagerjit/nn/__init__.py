"""Neural networks: modules, their functions, initial values and helpers. Each part is imported when first used."""

from __future__ import annotations

import importlib
from typing import Any

from eagerjit.nn.module import Module
from eagerjit.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

_MODULES = {
    "activations": "CELU ELU GELU GLU SELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax "
    "Mish ReLU ReLU6 Sigmoid SiLU Softmax Softmin Softplus Softshrink Softsign Tanh Tanhshrink BCELoss "
    "BCEWithLogitsLoss CrossEntropyLoss HuberLoss KLDivLoss L1Loss MSELoss NLLLoss SmoothL1Loss",
    "batch": "BatchNorm1d BatchNorm2d GroupNorm",
    "convolution": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "containers": "ModuleDict ModuleList Sequential",
    "layers": "Bilinear Dropout Embedding Flatten Identity LayerNorm Linear RMSNorm Unflatten",
    "parameter_containers": "ParameterDict ParameterList",
    "pooling": "MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d MaxUnpool1d "
    "MaxUnpool2d MaxUnpool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d "
    "AdaptiveMaxPool3d ConstantPad1d ConstantPad2d ConstantPad3d ZeroPad1d ZeroPad2d ZeroPad3d ReflectionPad1d "
    "ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d CircularPad1d CircularPad2d "
    "CircularPad3d",
    "rnn": "GRU LSTM RNN GRUCell LSTMCell RNNBase RNNCell RNNCellBase",
}
"""Where the public classes are."""

_WHERE = {name: module for module, names in _MODULES.items() for name in names.split()}
_PARTS = frozenset({"functional", "init", "parameter", "utils"})

__all__ = ["Buffer", "Module", "Parameter", "UninitializedBuffer", "UninitializedParameter"]
__all__ += sorted({*_WHERE, *_PARTS})


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f"eagerjit.nn.{name}")
    if name not in _WHERE:
        raise AttributeError(f"module 'eagerjit.nn' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"eagerjit.nn.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
