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
    "containers": "ModuleDict ModuleList Sequential",
    "layers": "Bilinear Dropout Embedding Flatten Identity LayerNorm Linear RMSNorm Unflatten",
    "parameter_containers": "ParameterDict ParameterList",
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
