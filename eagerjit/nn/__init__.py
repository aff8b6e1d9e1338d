"""Neural networks: modules, their functions, initial values and helpers. Each part is imported when first used."""

from __future__ import annotations

import importlib
from typing import Any

from eagerjit.nn.module import Module
from eagerjit.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

_MODULES = {
    "activations": "CELU ELU GELU GLU SELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax "
    "Mish PReLU ReLU ReLU6 RReLU Sigmoid SiLU Softmax Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink "
    "Threshold",
    "adaptive": "AdaptiveLogSoftmaxWithLoss",
    "batch": "BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm InstanceNorm1d InstanceNorm2d "
    "InstanceNorm3d LocalResponseNorm SyncBatchNorm",
    "convolution": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "containers": "ModuleDict ModuleList Sequential",
    "cross_map": "CrossMapLRN2d",
    "distances": "CosineSimilarity PairwiseDistance",
    "dropouts": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "embeddings": "Embedding EmbeddingBag",
    "fractional": "FractionalMaxPool2d FractionalMaxPool3d",
    "layers": "Bilinear Flatten Identity LayerNorm Linear RMSNorm Unflatten",
    "lazy": "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d "
    "LazyLinear",
    "lazy_convolution": "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d "
    "LazyConvTranspose3d",
    "losses": "BCELoss BCEWithLogitsLoss CosineEmbeddingLoss CrossEntropyLoss CTCLoss GaussianNLLLoss "
    "HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss MarginRankingLoss MSELoss MultiLabelMarginLoss "
    "MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss NLLLoss2d PoissonNLLLoss SmoothL1Loss SoftMarginLoss "
    "TripletMarginLoss TripletMarginWithDistanceLoss",
    "linear_losses": "LinearCrossEntropyLoss LinearCrossEntropyOptions",
    "multihead": "MultiheadAttention",
    "parallel": "DataParallel",
    "parameter_containers": "ParameterDict ParameterList",
    "pooling": "MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d MaxUnpool1d "
    "MaxUnpool2d MaxUnpool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d "
    "AdaptiveMaxPool3d ConstantPad1d ConstantPad2d ConstantPad3d ZeroPad1d ZeroPad2d ZeroPad3d ReflectionPad1d "
    "ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d CircularPad1d CircularPad2d "
    "CircularPad3d",
    "resampling": "ChannelShuffle Fold PixelShuffle PixelUnshuffle Unfold Upsample UpsamplingBilinear2d "
    "UpsamplingNearest2d",
    "rnn": "GRU LSTM RNN GRUCell LSTMCell RNNBase RNNCell RNNCellBase",
    "transformer": "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer",
}
"""Where the public classes are."""

_WHERE = {name: module for module, names in _MODULES.items() for name in names.split()}
_PARTS = frozenset("attention common_types functional grad init modules parallel parameter utils".split())

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
