"""Marks for NVIDIA's profilers, which are not told of them: ranges are counted, as programs that nest them expect."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


class _Ranges(threading.local):
    depth = 0
    started = 0


_ranges = _Ranges()


def range_push(msg: str) -> int:
    """Begin a range in the last one that has begun; its depth, from 0 on."""
    _ranges.depth += 1
    return _ranges.depth - 1


def range_pop() -> int:
    """End the range that has begun last; its depth, negative where there is none."""
    if _ranges.depth == 0:
        return -2
    _ranges.depth -= 1
    return _ranges.depth


def range_start(msg: str) -> int:
    """Begin a range that `range_end` ends; its number."""
    _ranges.started += 1
    return _ranges.started


def range_end(range_id: int) -> None:
    """End a range by its number."""


def mark(msg: str) -> None:
    """Mark a moment."""


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A context or decorator: a range named `msg.format(*args, **kwargs)`."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
