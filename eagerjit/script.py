"""Names of `torch.jit`: what marks code for TorchScript there has nothing to do here, and gives its function back."""

from __future__ import annotations

from typing import Any


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """The function, Module or class itself."""
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The function or Module itself."""
    return func


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function itself; also with an argument, as a decorator."""
    return drop if callable(drop) else _same


def unused(fn: Any) -> Any:
    """The function itself."""
    return fn


def export(fn: Any) -> Any:
    """The function itself."""
    return fn


def is_scripting() -> bool:
    """False: nothing is ever scripted."""
    return False


def is_tracing() -> bool:
    """Whether a function is being recorded in this thread."""
    from eagerjit.state import state

    return state.tracer is not None


def _same(fn: Any) -> Any:
    return fn
