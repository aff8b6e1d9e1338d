"""Neural networks: modules, their functions, initial values and helpers."""

from eagerjit.nn import functional, init, utils
from eagerjit.nn.activations import (
    ELU,
    GELU,
    GLU,
    SELU,
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    MSELoss,
    NLLLoss,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    SmoothL1Loss,
    Softmax,
    Softmin,
    Softplus,
    Softsign,
    Tanh,
)
from eagerjit.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from eagerjit.nn.layers import Bilinear, Dropout, Embedding, Flatten, Identity, LayerNorm, Linear, RMSNorm, Unflatten
from eagerjit.nn.module import Module
from eagerjit.tensor import Parameter

__all__ = [name for name in dir() if name[0].isupper()] + ["functional", "init", "utils"]
