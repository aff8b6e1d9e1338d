"""The functions that neural networks are made of."""

from __future__ import annotations

from typing import Any

from eagerjit.namespace import late
from eagerjit.nn.activation_functions import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    sigmoid,
    silu,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
    threshold_,
)
from eagerjit.nn.batch import batch_norm, group_norm, instance_norm, local_response_norm
from eagerjit.nn.distances import cosine_similarity, normalize, pairwise_distance
from eagerjit.nn.dropouts import alpha_dropout, dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from eagerjit.nn.embeddings import embedding, embedding_bag, one_hot
from eagerjit.nn.layers import bilinear
from eagerjit.ops.attention import scaled_dot_product_attention
from eagerjit.ops.classification import cross_entropy, nll_loss
from eagerjit.ops.linear import linear_
from eagerjit.ops.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    smooth_l1_loss,
)
from eagerjit.ops.normalization import layer_norm, log_softmax, rms_norm, softmax, softmin
from eagerjit.tensors.mistakes import explained_functions

__all__ = [
    "alpha_dropout",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "gelu",
    "glu",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "huber_loss",
    "instance_norm",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pairwise_distance",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]

__all__ += late.NETWORK_FUNCTIONS

linear = linear_.call
globals().update(explained_functions({name: globals()[name] for name in __all__ if name in globals()}, __name__))


def __getattr__(name: str) -> Any:
    """Functions that cost time to import come when they are first used."""
    if name not in late.NETWORK_FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    globals()[name] = value = late.load(late.NETWORK_FUNCTIONS[name], name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *late.NETWORK_FUNCTIONS})
