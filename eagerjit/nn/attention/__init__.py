"""Which implementation attention takes: on the CPU there is one, whatever is asked for."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.Enum):
    """PyTorch's implementations of attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """A context in which attention takes one of these implementations; all of them give the same results here."""
    given = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(backend, SDPBackend) for backend in given):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    if not given:
        raise AssertionError("At least one backend must be provided")
    yield
