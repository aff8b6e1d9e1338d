"""The tape seen from outside: its nodes, versions of memory, and where saved values are kept."""

from __future__ import annotations

import contextlib
from typing import Any

from eagerjit.autograd.node import GradNode as Node
from eagerjit.autograd.saving import disable_saved_tensors_hooks, saved_tensors_hooks
from eagerjit.tensors.tensor import Tensor, note_written, storage_of

__all__ = ["Node", "disable_saved_tensors_hooks", "increment_version", "save_on_cpu", "saved_tensors_hooks"]


def increment_version(tensor: Any) -> None:
    """Count a write to a tensor's memory, or to several tensors', that happened behind the library's back."""
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        storage_of(each).version += 1
        note_written(each, None)


def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Any:
    """A context that changes nothing: what operations save lies on the CPU anyway."""
    return contextlib.nullcontext()
