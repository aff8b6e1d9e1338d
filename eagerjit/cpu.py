"""The CPU under the names that devices' modules have."""

from __future__ import annotations

import contextlib
from typing import Any


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """The name `cpu`."""
    return "cpu"


def set_device(device: Any) -> None:
    """There is one."""


def synchronize(device: Any = None) -> None:
    """Nothing is ever outstanding."""


def stream(stream: Any) -> Any:
    """A context that changes nothing."""
    return contextlib.nullcontext()


def __getattr__(name: str) -> Any:
    if name == "amp":
        import importlib

        return importlib.import_module("eagerjit.amp.cpu")
    raise AttributeError(f"module 'eagerjit.cpu' has no attribute '{name}'")
