"""Names of `functorch`, which PyTorch ships beside `torch`: transforms as they are here, each with its warning, and
Modules as functions of their parameters."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from eagerjit import func
from eagerjit.nn.module import Module
from eagerjit.tensors.tensor import Tensor

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "vjp",
    "vmap",
]  # fmt: skip


def _deprecated(instead: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds the warning that PyTorch gives of a name here."""

    def of(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def warned(*args: Any, **kwargs: Any) -> Any:
            name = function.__name__
            warnings.warn(f"`functorch.{name}` is deprecated; please use `torch.{instead}` instead", FutureWarning, 2)
            return function(*args, **kwargs)

        return warned

    return of


class FunctionalModule(Module):
    """A Module called with its parameters: `module(parameters, *args)`."""

    def __init__(self, stateless_model: Module, param_names: tuple[str, ...], buffer_names: tuple[str, ...] = ()):
        super().__init__()
        self.stateless_model, self.param_names, self.buffer_names = stateless_model, param_names, buffer_names

    def _called(self, state: dict[str, Tensor], args: Any, kwargs: Any) -> Any:
        return func.functional_call(self.stateless_model, state, args, kwargs)

    def forward(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        return self._called(dict(zip(self.param_names, params, strict=False)), args, kwargs)


class FunctionalModuleWithBuffers(FunctionalModule):
    """A Module called with its parameters and buffers: `module(parameters, buffers, *args)`."""

    def forward(self, params: Iterable[Tensor], buffers: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        state = dict(zip(self.param_names, params, strict=False))
        return self._called({**state, **dict(zip(self.buffer_names, buffers, strict=False))}, args, kwargs)


def _parts(model: Module, disable_autograd_tracking: bool) -> tuple[Module, dict[str, Tensor], dict[str, Tensor]]:
    """A copy of a Module, its parameters and its buffers; tied ones once."""
    own = copy.deepcopy(model)
    parameters: dict[str, Tensor] = dict(own.named_parameters())
    buffers: dict[str, Tensor] = dict(own.named_buffers())
    if disable_autograd_tracking:
        for parameter in parameters.values():
            parameter.requires_grad_(False)
    return own, parameters, buffers


@_deprecated("func.functional_call")
def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """A Module as a function of its parameters, and these. Raises RuntimeError if it has buffers."""
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    own, parameters, _ = _parts(model, disable_autograd_tracking)
    return FunctionalModule(own, tuple(parameters)), tuple(parameters.values())


@_deprecated("func.functional_call")
def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A Module as a function of its parameters and buffers, and these."""
    own, parameters, buffers = _parts(model, disable_autograd_tracking)
    made = FunctionalModuleWithBuffers(own, tuple(parameters), tuple(buffers))
    return made, tuple(parameters.values()), tuple(buffers.values())


@_deprecated("func.stack_module_state")
def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """One Module as a function, and the parameters and buffers of several of its class, stacked, without history."""
    parameters, buffers = func.stack_module_state(models)
    own = _parts(models[0], False)[0]
    made = FunctionalModuleWithBuffers(own, tuple(parameters), tuple(buffers))
    return made, tuple(p.detach() for p in parameters.values()), tuple(buffers.values())


functionalize, hessian = (_deprecated(f"func.{f.__name__}")(f) for f in (func.functionalize, func.hessian))
grad, grad_and_value = (_deprecated(f"func.{f.__name__}")(f) for f in (func.grad, func.grad_and_value))
jacfwd, jacrev = (_deprecated(f"func.{f.__name__}")(f) for f in (func.jacfwd, func.jacrev))
jvp, vjp = (_deprecated(f"func.{f.__name__}")(f) for f in (func.jvp, func.vjp))
vmap = _deprecated("vmap")(func.vmap)
