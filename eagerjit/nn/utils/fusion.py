"""A layer and the normalisation after it as one layer, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.tensors.tensor import Parameter, Tensor

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


@no_grad()
def _fused(
    weight: Tensor, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float, gain: Any, shift: Any, dim: int
) -> tuple[Parameter, Parameter]:
    factor = (var + eps).rsqrt()
    factor = factor if gain is None else factor * gain
    shape = [1] * weight.ndim
    shape[dim] = -1
    moved = (-mean if bias is None else bias - mean) * factor
    moved = moved if shift is None else moved + shift
    return Parameter(weight * factor.reshape(shape), weight.requires_grad), Parameter(moved)


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
    bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """(weight, bias) of a convolution followed by a batch normalisation with these statistics."""
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """(weight, bias) of a Linear followed by a batch normalisation with these statistics."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what a convolution and a batch normalisation do in evaluation."""
    return _layer(conv, bn, 1 if transpose else 0)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A Linear that does what a Linear and a batch normalisation do in evaluation."""
    return _layer(linear, bn, 0)


def _layer(layer: Any, bn: Any, dim: int) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    made = copy.deepcopy(layer)
    statistics = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    made.weight, made.bias = _fused(layer.weight, layer.bias, *statistics, dim)
    return made
