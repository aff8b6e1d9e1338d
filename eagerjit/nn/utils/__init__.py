"""Helpers for all parameters of a network at once."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable
from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.nn.module import Module
from eagerjit.ops.index import cat, stack
from eagerjit.ops.reduce import norm
from eagerjit.recording.numbers import to_float
from eagerjit.tensors.creation import zeros
from eagerjit.tensors.tensor import Tensor


def _with_grad(parameters: Any) -> list[Tensor]:
    found = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in found if p.grad is not None]


@no_grad()
def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> Tensor:
    """The norm of all tensors as one vector. Raises RuntimeError for one that is not finite, if asked to."""
    found = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not found:
        return zeros(())
    norms = stack([norm(t, norm_type) for t in found])
    total = norms.max() if norm_type == math.inf else norm(norms, norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Tensor, foreach: Any = None) -> None:
    """Scale all gradients, whose norm is total_norm, so that it is at most max_norm."""
    factor = (to_float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for grad in _with_grad(parameters):
        grad.mul_(factor if grad.dtype is factor.dtype else factor.to(grad.dtype))


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> Tensor:
    """Scale all gradients so that their norm as one vector is at most max_norm; returns what it was.

    In place, by max_norm / (norm + 1e-6) where that is below 1 (Pascanu et al. 2013). Raises RuntimeError for a norm
    that is not finite, with `error_if_nonfinite`.
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_with_grad(parameters), float(norm_type), error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_norm(parameters: Any, max_norm: float, norm_type: float = 2.0, **options: Any) -> Tensor:
    """The older name of `clip_grad_norm_`."""
    return clip_grad_norm_(parameters, max_norm, norm_type, **options)


@no_grad()
def clip_grad_value_(parameters: Any, clip_value: float, foreach: Any = None) -> None:
    """Limit every gradient element to [-clip_value, clip_value]."""
    for grad in _with_grad(parameters):
        grad.clamp_(-float(clip_value), float(clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters as one vector, in their order."""
    return cat.call([p.reshape(-1) for p in parameters])


@no_grad()
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy one vector into all parameters, in their order. Raises TypeError for what is no tensor."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        count = parameter.numel()
        parameter.copy_(vec[start : start + count].view_as(parameter))
        start += count


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters have no initial values worth computing: they are what the constructor gives."""
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    return module_cls(*args, **kwargs)


_PARTS = ("fusion", "parametrizations", "parametrize", "prune", "rnn", "stateless")
_LATER = {
    "fuse_conv_bn_eval": "fusion", "fuse_conv_bn_weights": "fusion", "fuse_linear_bn_eval": "fusion",
    "fuse_linear_bn_weights": "fusion", "weight_norm": "norms", "remove_weight_norm": "norms",
    "spectral_norm": "norms", "remove_spectral_norm": "norms",
    "convert_conv2d_weight_memory_format": "memory_format", "convert_conv3d_weight_memory_format": "memory_format",
}  # fmt: skip

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]
__all__ += ["parameters_to_vector", "skip_init", "vector_to_parameters", *_PARTS, *_LATER]


def __getattr__(name: str) -> Any:
    """Parts that are imported when first used."""
    if name in _PARTS:
        return importlib.import_module(f"eagerjit.nn.utils.{name}")
    if name in _LATER:
        return getattr(importlib.import_module(f"eagerjit.nn.utils.{_LATER[name]}"), name)
    raise AttributeError(f"module 'eagerjit.nn.utils' has no attribute '{name}'")
