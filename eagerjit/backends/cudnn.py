"""cuDNN: not there. Its switches can be set."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False."""
    return False


def version() -> int | None:
    """None."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """False."""
    return False


def set_flags(**switches: Any) -> dict[str, Any]:
    """Set switches by name; returns what they were."""
    known = globals()
    before = {name.lstrip("_"): known[name.lstrip("_")] for name in switches}
    known.update({name.lstrip("_"): value for name, value in switches.items() if value is not None})
    return before


@contextlib.contextmanager
def flags(**switches: Any) -> Iterator[None]:
    """A context in which switches are set."""
    before = set_flags(**switches)
    try:
        yield
    finally:
        set_flags(**before)
