"""Helpers for all parameters of a network at once."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable
from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.ops.index import cat, stack
from eagerjit.tensor import Tensor


def _with_grad(parameters: Any) -> list[Tensor]:
    found = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in found if p.grad is not None]


@no_grad()
def get_total_norm(tensors: Iterable[Tensor], norm_type: float = 2.0) -> Tensor:
    """The norm of all tensors as one vector."""
    from eagerjit.creation import zeros

    norms = [t.norm(norm_type) for t in tensors]
    if not norms:
        return zeros(())
    if norm_type == math.inf:
        return stack(norms).max()
    return stack(norms).norm(norm_type)


@no_grad()
def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> Tensor:
    """Scale all gradients so that their norm as one vector is at most max_norm; returns what it was."""
    grads = _with_grad(parameters)
    total = get_total_norm(grads, float(norm_type))
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped."
        )
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for grad in grads:
        grad.mul_(factor.to(grad.dtype))
    return total


@no_grad()
def clip_grad_value_(parameters: Any, clip_value: float, foreach: Any = None) -> None:
    """Limit every gradient element to [-clip_value, clip_value]."""
    for grad in _with_grad(parameters):
        grad.clamp_(-float(clip_value), float(clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters as one vector."""
    return cat.call([p.reshape(-1) for p in parameters])


@no_grad()
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy one vector into all parameters."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        count = parameter.numel()
        parameter.copy_(vec[start : start + count].view_as(parameter))
        start += count


def __getattr__(name: str) -> Any:
    """Parts that are imported when first used."""
    if name in ("parametrizations", "parametrize", "rnn", "stateless"):
        return importlib.import_module(f"eagerjit.nn.utils.{name}")
    raise AttributeError(f"module 'eagerjit.nn.utils' has no attribute '{name}'")
