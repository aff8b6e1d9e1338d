"""The accelerator of this process: its CUDA devices, where there are any."""

from __future__ import annotations

import contextlib
from typing import Any

from eagerjit import cuda
from eagerjit.cuda.present import found
from eagerjit.devices import NO_ACCELERATOR, Device
from eagerjit.runtime import dtypes

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "empty_host_cache", "get_device_capability", "get_memory_info", "is_available",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream",
    "synchronize",
]  # fmt: skip

device_count, is_available = cuda.device_count, cuda.is_available


def current_accelerator(check_available: bool = False) -> Device | None:
    """The kind of accelerator, None where there is none."""
    return None if found() is None else Device("cuda")


def _check() -> Any:
    platform = found()
    if platform is None:
        raise RuntimeError(NO_ACCELERATOR)
    return platform


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


def set_stream(stream: Any) -> None:
    """Makes a stream the one that this thread gives its work to. Raises RuntimeError where there is no device."""
    _check()
    cuda.set_stream(stream)


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """The dtypes that tensors on a device have, as "supported_dtypes". Raises RuntimeError where there is none."""
    _check()
    return {"supported_dtypes": set(dtypes.BY_NAME.values())}


def empty_cache() -> None:
    """Gives memory that is kept for reuse back to the driver. Raises RuntimeError where there is no device."""
    _check()
    cuda.empty_cache()


def empty_host_cache() -> None:
    """Gives pinned memory of the host that is kept for reuse back. Raises RuntimeError where there is no device."""
    _check().pinned.empty_cache()


def get_memory_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of a device. Raises RuntimeError where there is none."""
    _check()
    return cuda.mem_get_info(device)


def memory_stats(device: Any = None) -> dict[str, int]:
    """Everything that the allocator counts, by names such as "allocated_bytes.all.peak".

    Raises RuntimeError where there is no device.
    """
    _check()
    return cuda.memory_stats(device)


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors occupy on a device. Raises RuntimeError where there is none."""
    _check()
    return cuda.memory_allocated(device)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors occupied on a device. Raises RuntimeError where there is none."""
    _check()
    return cuda.max_memory_allocated(device)


def memory_reserved(device: Any = None) -> int:
    """Bytes that the allocator holds on a device. Raises RuntimeError where there is none."""
    _check()
    return cuda.memory_reserved(device)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the allocator held on a device. Raises RuntimeError where there is none."""
    _check()
    return cuda.max_memory_reserved(device)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Counts peaks from now on. Raises RuntimeError where there is no device."""
    _check()
    cuda.reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Counts sums from now on. Raises RuntimeError where there is no device."""
    _check()
    cuda.reset_accumulated_memory_stats(device)
