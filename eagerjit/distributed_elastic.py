"""Names of `torch.distributed.elastic`, which starts programs on several machines: what marks a main function."""

from __future__ import annotations

from typing import Any


def record(fn: Any, error_handler: Any = None) -> Any:
    """The function itself: no other process wants to know of its errors."""
    return fn
