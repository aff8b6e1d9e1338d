"""Batches in pinned memory, which devices read while the host goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from eagerjit.tensors.tensor import Tensor


def pinned(value: Any) -> Any:
    """A batch with its tensors in pinned memory: nested lists, tuples, dictionaries, and what has `pin_memory`."""
    if isinstance(value, Tensor) or hasattr(value, "pin_memory"):
        return value.pin_memory()
    if isinstance(value, dict):
        return type(value)({key: pinned(part) for key, part in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(pinned, value))
    return type(value)(map(pinned, value)) if isinstance(value, (list, tuple)) else value


def batches(source: Iterable[Any]) -> Iterator[Any]:
    """Batches, pinned one by one."""
    for batch in source:
        yield pinned(batch)
