"""Names of `torch.distributed.elastic`, which starts programs on several machines: what marks a main function."""

from __future__ import annotations

from typing import Any


def record(fn: Any, error_handler: Any = None) -> Any:
    """The function itself: Python prints what it raises, and whoever started the processes sees their status."""
    return fn
