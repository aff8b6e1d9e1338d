"""The functions that neural networks are made of."""

from __future__ import annotations

from typing import Any

from eagerjit import late, random
from eagerjit.compiler.ops import indexing
from eagerjit.creation import arange, zeros
from eagerjit.dispatch import Op, emit
from eagerjit.ops import activation, index
from eagerjit.ops.attention import scaled_dot_product_attention
from eagerjit.ops.classification import cross_entropy, nll_loss
from eagerjit.ops.elementary import ELEMENTARY
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
from eagerjit.ops.pointwise import POINTWISE
from eagerjit.ops.reduce import norm
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensor import Tensor

__all__ = [
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
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
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
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
]

linear = linear_.call
sigmoid, tanh = POINTWISE["sigmoid"].call, POINTWISE["tanh"].call
logsigmoid = activation.logsigmoid.call
softsign = activation.softsign.call
softplus = activation.softplus.call


def _activation(op: Op) -> Any:
    """The public function: `inplace=True` writes the result into the argument."""

    def function(input: Tensor, *args: Any, inplace: bool = False, **kwargs: Any) -> Tensor:
        if args and isinstance(args[-1], bool):
            args, inplace = args[:-1], args[-1]
        result = op.call(input, *args, **kwargs)
        return input.copy_(result) if inplace else result

    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = op.body.__doc__
    return function


relu, silu, mish, selu = map(_activation, (activation.relu, activation.silu, activation.mish, activation.selu))
leaky_relu, elu, hardtanh = map(_activation, (activation.leaky_relu, activation.elu, activation.hardtanh))
hardsigmoid, hardswish = map(_activation, (activation.hardsigmoid, activation.hardswish))
gelu = activation.gelu.call
celu, hardshrink, softshrink = (_activation(ELEMENTARY[name]) for name in ("celu", "hardshrink", "softshrink"))
threshold, tanhshrink = _activation(ELEMENTARY["threshold"]), ELEMENTARY["tanhshrink"].call


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """input limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace=inplace)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input where positive, else weight * input; one weight, or one per channel."""
    if weight.numel() != 1 and input.ndim > 1:
        weight = weight.view((-1, *(1,) * (input.ndim - 2)))
    return ELEMENTARY["prelu"].call(input, weight)


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Tensor:
    """A random point of the simplex (Jang et al. 2017), or with `hard` a corner that passes on its gradient."""
    noise = -(-(1.0 - random.rand_like(logits)).log()).log()
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    corner = soft.detach().new_zeros(tuple(soft.shape)).scatter(dim, soft.argmax(dim, keepdim=True), 1.0)
    return corner - soft.detach() + soft


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The norm of x1 - x2 + eps over the last dimension."""
    return norm(x1 - x2 + eps, p, -1, keepdim)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of a dimension times the sigmoid of the second."""
    if input.shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}")
    first, second = input.chunk(2, dim)
    return first * second.sigmoid()


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements zeroed with probability p while training, the others scaled by 1 / (1 - p)."""
    result = random.dropout(input, p, training)
    return input.copy_(result) if inplace and result is not input else result


def _embedding(weight: Tensor, input: Tensor, padding_idx: int | None) -> Tensor:
    """Rows of weight; unlike in indexing, numbers do not count from the end."""
    return emit(indexing.take_rows, weight, input)


def _embedding_rule(g: Any, out: Any, weight: Any, input: Any, padding_idx: int | None) -> Any:
    if padding_idx is not None:
        g = g.where((input != padding_idx).unsqueeze(-1), 0.0)
    return g.new_zeros(weight.shape).add_rows(input, g)


_embedding_op = Op("embedding", _embedding, (_embedding_rule, None, None))


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: Any = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Rows of weight by number; the row `padding_idx` gets no gradient."""
    if input.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(
            f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{input.dtype} instead (while checking arguments for embedding)"
        )
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise NotImplementedError("embedding: max_norm, scale_grad_by_freq and sparse are not supported")
    if padding_idx is not None:
        if not -weight.shape[0] <= padding_idx < weight.shape[0]:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx = padding_idx % int(weight.shape[0])
    return _embedding_op.call(weight, input, padding_idx)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 vectors with a 1 at each class number."""
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, but got {tensor.dtype}")
    if num_classes == -1 or state.tracer is None:
        classes = index.concrete(tensor, "the number of classes depends on values")
        if num_classes == -1:
            if classes.size == 0:
                raise RuntimeError("Can not infer total number of classes from empty tensor.")
            num_classes = int(classes.max()) + 1
        if classes.size and classes.min() < 0:
            raise RuntimeError("Class values must be non-negative.")
        if classes.size and classes.max() >= num_classes:
            raise RuntimeError("Class values must be smaller than num_classes.")
    if state.tracer is not None:
        # Compiled code has no classes to look at beforehand: a write out of range is an error of the call.
        return zeros(*tensor.shape, num_classes, dtype=dtypes.int64).scatter(-1, tensor.unsqueeze(-1), 1)
    return (tensor.unsqueeze(-1) == arange(num_classes)).long()


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Tensor:
    """input divided by its norm along a dimension, the norm at least eps."""
    return input / norm(input, p, dim, keepdim=True).clamp(min=eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along a dimension."""
    lengths = norm(x1, 2, dim).clamp(min=eps) * norm(x2, 2, dim).clamp(min=eps)
    return (x1 * x2).sum(dim) / lengths


def batch_norm(*args: Any, **kwargs: Any) -> Tensor:
    """Mean 0 and variance 1 per channel; see `eagerjit.nn.batch`."""
    return _batch().batch_norm(*args, **kwargs)


def group_norm(*args: Any, **kwargs: Any) -> Tensor:
    """Mean 0 and variance 1 within groups of channels; see `eagerjit.nn.batch`."""
    return _batch().group_norm(*args, **kwargs)


def _batch() -> Any:
    from eagerjit.nn import batch

    return batch


def __getattr__(name: str) -> Any:
    """Functions that cost time to import come when they are first used."""
    if name not in late.NETWORK_FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    globals()[name] = value = late.load(late.NETWORK_FUNCTIONS[name], name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *late.NETWORK_FUNCTIONS})
