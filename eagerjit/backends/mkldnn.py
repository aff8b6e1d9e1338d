"""oneDNN: not there. Its switches can be set."""

from __future__ import annotations

import contextlib
from typing import Any

enabled = True
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False."""
    return False


def flags(*args: Any, **kwargs: Any) -> Any:
    """A context that changes nothing."""
    return contextlib.nullcontext()
