"""Activation functions as users call them: with `inplace`, and those made of others."""

from __future__ import annotations

from typing import Any

from eagerjit import random
from eagerjit.calling.dispatch import Op
from eagerjit.ops import activation
from eagerjit.ops.elementary import ELEMENTARY
from eagerjit.ops.inplace import INPLACE
from eagerjit.ops.inplace import inplace as inplace_op
from eagerjit.ops.normalization import softmax
from eagerjit.ops.pointwise import POINTWISE
from eagerjit.tensors.mistakes import calls_op
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor

sigmoid, tanh = POINTWISE["sigmoid"].call, POINTWISE["tanh"].call
logsigmoid = activation.logsigmoid.call
softsign = activation.softsign.call
softplus = activation.softplus.call
gelu = activation.gelu.call
tanhshrink = ELEMENTARY["tanhshrink"].call


def _activation(op: Op) -> Any:
    """The public function: `inplace=True` writes the result into the argument."""
    write = (INPLACE.get(f"{op.name}_") or inplace_op(op)).method()

    @calls_op
    def function(input: Tensor, *args: Any, inplace: bool = False, **kwargs: Any) -> Tensor:
        if args and isinstance(args[-1], bool):
            args, inplace = args[:-1], args[-1]
        return write(input, *args, **kwargs) if inplace else op.call(input, *args, **kwargs)

    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = op.body.__doc__
    function.plain = op.call  # type: ignore[attr-defined]
    return function


relu, silu, mish, selu = map(_activation, (activation.relu, activation.silu, activation.mish, activation.selu))
leaky_relu, elu, celu = map(_activation, (activation.leaky_relu, activation.elu, activation.celu))
_limited = _activation(activation.hardtanh)
hardsigmoid, hardswish = map(_activation, (activation.hardsigmoid, activation.hardswish))
hardshrink, softshrink, threshold = (_activation(ELEMENTARY[n]) for n in ("hardshrink", "softshrink", "threshold"))


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """input limited to [min_val, max_val], in its dtype. ValueError where min_val > max_val."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val cannot be greater than max_val, got {min_val} and {max_val}")
    return _limited(input, min_val, max_val, inplace=inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """input limited to [0, 6]."""
    return _limited(input, 0.0, 6.0, inplace=inplace)


def _written(function: Any) -> Any:
    def write(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(input, *args, inplace=True, **kwargs)

    write.__name__ = write.__qualname__ = f"{function.__name__}_"
    write.__doc__ = f"In-place version of `{function.__name__}`."
    return write


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """input where positive, else times a slope: drawn from [lower, upper) while training, else their mean.

    One slope per element (Xu et al. 2015). Raises RuntimeError where lower > upper.
    """
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    slope: Any = (lower + upper) / 2
    if training:
        slope = random.rand_like(input) * (upper - lower) + lower
    result = input.where(input > 0, input * slope) if training else activation.leaky_relu.call(input, slope)
    return input.copy_(result) if inplace else result.contiguous()


relu_, celu_, selu_, leaky_relu_ = map(_written, (relu, celu, selu, leaky_relu))
hardtanh_, threshold_, rrelu_ = map(_written, (_limited, threshold, rrelu))


def elu_(input: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """In-place version of `elu`, with factors of the result and of what is exponentiated."""
    if scale == 1 and input_scale == 1:
        return elu(input, alpha, inplace=True)
    return input.copy_(input.where(input > 0, alpha * (input * input_scale).expm1()) * scale)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input where positive, else weight * input; one weight, or one per channel (He et al. 2015).

    Channels are dimension 1. Raises RuntimeError for as many weights as there are no channels, for a weight of more
    than one dimension, and for one of another dtype.
    """
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if weight.numel() == 1:
        weight = weight.view(())
    else:
        if input.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.numel() != channels:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} and "
                f"channel size = {channels}."
            )
        weight = weight.view((-1, *(1,) * (input.ndim - 2)))
    if weight.dtype is not input.dtype:
        names = f"{TYPE_NAMES[input.dtype]} and {TYPE_NAMES[weight.dtype]}"
        raise RuntimeError(f"prelu: Type promoting not supported. Got {names}")
    return ELEMENTARY["prelu"].call(input, weight)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of a dimension times the sigmoid of the second (Dauphin et al. 2017).

    The dimension is half as long in the result. Raises RuntimeError for an odd size, NotImplementedError for integers.
    """
    if input.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    activation.only_floats("glu", input)
    if input.shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {input.shape[dim]}")
    first, second = input.chunk(2, dim)
    return first * second.sigmoid()


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A random point of the simplex (Jang et al. 2017), or with `hard` a corner that passes on its gradient.

    softmax((logits + g) / tau) along `dim` in logits' shape, every g = -log(-log(u)) of a uniform number.
    Raises RuntimeError for logits that are not floating point.
    """
    if not logits.dtype.is_floating_point:
        raise RuntimeError(f"gumbel_softmax: logits must be floating point, not {logits.dtype}")
    noise = -(-(1.0 - random.rand_like(logits)).log()).log()
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    corner = soft.detach().new_zeros(tuple(soft.shape)).scatter(dim, soft.argmax(dim, keepdim=True), 1.0)
    return corner - soft.detach() + soft
