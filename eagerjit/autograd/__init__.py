"""Automatic differentiation: gradients of recorded operations, custom functions, and checks of both."""

from eagerjit.autograd.api import backward, grad
from eagerjit.autograd.modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
]


_LATE = {
    "Variable": "variable", "detect_anomaly": "anomaly", "set_detect_anomaly": "anomaly",
    "gradcheck": "check", "gradgradcheck": "check", "Function": "function", "once_differentiable": "function",
    **dict.fromkeys(("functional", "forward_ad", "profiler", "variable", "graph", "grad_mode"), ""),
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name in _LATE:
        import importlib

        found = importlib.import_module(f"eagerjit.autograd.{_LATE[name] or name}")
        return getattr(found, name) if _LATE[name] else found
    raise AttributeError(f"module 'eagerjit.autograd' has no attribute '{name}'")
