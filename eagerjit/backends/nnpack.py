"""NNPACK: not there. Its switch can be set."""

from __future__ import annotations

import contextlib
from typing import Any


def is_available() -> bool:
    """False."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Nothing is set; what was set before."""
    return (False,)


def flags(enabled: bool = False) -> Any:
    """A context that changes nothing."""
    return contextlib.nullcontext()
