"""Batches in pinned memory, which devices read while the host goes on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

from eagerjit.tensors.tensor import Tensor


def pin_memory(data: Any, device: Any = None) -> Any:
    """A batch with its tensors in pinned memory: nested sequences, mappings, and what has `pin_memory`."""
    if isinstance(data, Tensor) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        parts = {key: pin_memory(part) for key, part in data.items()}
        return _of_its_class(data, parts, MutableMapping, lambda made: made.update(parts))
    if isinstance(data, tuple):
        pinned = map(pin_memory, data)
        return type(data)(*pinned) if hasattr(data, "_fields") else type(data)(pinned)  # type: ignore[call-overload]
    if isinstance(data, Sequence):
        items = [pin_memory(part) for part in data]
        return _of_its_class(data, items, MutableSequence, lambda made: made.__setitem__(slice(None), items))
    return data


def _of_its_class(data: Any, parts: Any, changes: type, fill: Callable[[Any], object]) -> Any:
    """Pinned parts in what their container was: a filled copy of it, or one made of them; else `parts`."""
    try:
        if not isinstance(data, changes):
            return type(data)(parts)
        made = copy.copy(data)
        fill(made)
    except TypeError:
        return parts
    return made


def batches(source: Iterable[Any]) -> Iterator[Any]:
    """Batches, pinned one by one."""
    for batch in source:
        yield pin_memory(batch)
