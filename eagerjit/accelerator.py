"""The accelerator of this process: there is none."""

from __future__ import annotations

from typing import Any

from eagerjit.devices import NO_ACCELERATOR, Device

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "is_available", "max_memory_allocated", "memory_allocated", "set_device_idx",
    "set_device_index", "synchronize",
]  # fmt: skip


def device_count() -> int:
    """0."""
    return 0


def is_available() -> bool:
    """False."""
    return False


def current_accelerator(check_available: bool = False) -> Device | None:
    """None."""
    return None


def _none(*args: Any, **kwargs: Any) -> Any:
    """Raises RuntimeError: there is no accelerator."""
    raise RuntimeError(NO_ACCELERATOR)


def set_device_index(device: Any, /) -> None:
    """Raises RuntimeError: there is no accelerator."""
    _none()


set_device_idx = set_device_index
current_device_index = current_device_idx = _none
current_stream = synchronize = _none


def device_index(device: int | None) -> Any:
    """A context in which that accelerator is the current one; None changes nothing."""
    import contextlib

    return contextlib.nullcontext() if device is None else _none()


def empty_cache() -> None:
    """Nothing is kept."""


def memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


max_memory_allocated = memory_allocated
