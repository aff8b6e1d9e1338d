"""Objects made to be others: tensors that trade all that they are, and the module that a class says it is from."""

from __future__ import annotations

from typing import Any

from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line

__all__ = ["set_module", "swap_tensors"]

_PARTS = ("_data", "_grad", "_hooks", "_index", "_node", "_requires_grad", "_storage", "_view", "__dict__", "__class__")


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Let two tensors trade memory, history, attributes and class, so that whoever holds one has the other."""
    if state.tracer is not None:
        raise TraceBreak("two tensors were swapped", user_line())
    for name in _PARTS:
        one, other = getattr(t1, name), getattr(t2, name)
        setattr(t1, name, other)
        setattr(t2, name, one)


def set_module(obj: Any, mod: str) -> None:
    """Make a class or function say that it is from another module."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod
