"""Automatic differentiation: gradients of recorded operations, custom functions, and checks of both."""

from eagerjit.autograd.api import backward, grad
from eagerjit.autograd.check import gradcheck, gradgradcheck
from eagerjit.autograd.function import Function, once_differentiable
from eagerjit.autograd.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "Variable",
    "backward",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "set_grad_enabled",
]


def __getattr__(name: str) -> object:
    if name in ("functional", "forward_ad", "profiler", "variable", "Variable"):
        import importlib

        found = importlib.import_module(f"eagerjit.autograd.{name.lower()}")
        return found.Variable if name == "Variable" else found
    raise AttributeError(f"module 'eagerjit.autograd' has no attribute '{name}'")
