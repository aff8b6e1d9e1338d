"""The accelerator of this process: its CUDA devices, where there are any."""

from __future__ import annotations

import contextlib
from typing import Any

from eagerjit import cuda
from eagerjit.cuda.present import found
from eagerjit.devices import NO_ACCELERATOR, Device

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "is_available", "max_memory_allocated", "memory_allocated", "set_device_idx",
    "set_device_index", "synchronize",
]  # fmt: skip

device_count, is_available = cuda.device_count, cuda.is_available
empty_cache = cuda.empty_cache


def current_accelerator(check_available: bool = False) -> Device | None:
    """The kind of accelerator, None where there is none."""
    return None if found() is None else Device("cuda")


def _check() -> None:
    if found() is None:
        raise RuntimeError(NO_ACCELERATOR)


def current_device_index() -> int:
    """The number of the device that this thread works on. Raises RuntimeError where there is none."""
    _check()
    return cuda.current_device()


def set_device_index(device: Any) -> None:
    """Makes a device this thread's. Raises RuntimeError where there is none."""
    if not isinstance(device, (int, str, Device)):
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    _check()
    cuda.set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


def current_stream(device: Any = None) -> Any:
    """The stream that this thread gives its work to. Raises RuntimeError where there is no device."""
    _check()
    return cuda.current_stream(device)


def synchronize(device: Any = None) -> None:
    """Waits until a device has done everything that it was given. Raises RuntimeError where there is none."""
    _check()
    cuda.synchronize(device)


def device_index(device: int | None) -> Any:
    """A context in which that accelerator is the current one; None changes nothing."""
    if device is None:
        return contextlib.nullcontext()
    _check()
    return cuda.device(device)


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors occupy on a device; 0 where there is none."""
    return 0 if found() is None else cuda.memory_allocated(device)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors occupied on a device; 0 where there is none."""
    return 0 if found() is None else cuda.max_memory_allocated(device)
