"""The device that tensors are made on where no other is asked for, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.devices import Device
from eagerjit.state import state


def __getattr__(name: str) -> Any:
    if name == "CURRENT_DEVICE":
        return state.device
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def set_device(device: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: tensors that the function makes are on this device."""
    return Device(device)
