"""CUDA devices: there are none, and what asks says so; what would only tidy them up does nothing."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from eagerjit.legacy import CUDA_TYPES

globals().update(CUDA_TYPES)


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def init() -> None:
    """Raises AssertionError: there is no CUDA device."""
    raise AssertionError("Torch not compiled with CUDA enabled: eagerjit computes on the CPU")


def _absent(*args: Any, **kwargs: Any) -> Any:
    """Raises AssertionError: there is no CUDA device."""
    return init()


current_device = set_device = get_device_name = get_device_properties = get_device_capability = synchronize = _absent
current_stream = default_stream = mem_get_info = memory_stats = get_rng_state = set_rng_state = _absent
get_rng_state_all = list


def set_rng_state_all(new_states: Any) -> None:
    """There is nothing to set."""
    for state in new_states:
        set_rng_state(state)


def manual_seed(seed: int) -> None:
    """There is nothing to seed."""


manual_seed_all = manual_seed


def empty_cache() -> None:
    """There is nothing to free."""


seed = seed_all = ipc_collect = reset_peak_memory_stats = reset_max_memory_allocated = empty_cache


def memory_allocated(device: Any = None) -> int:
    """0 bytes."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_cached = max_memory_cached = memory_allocated


def device(device: Any) -> Any:
    """A context in which that device is the current one; without devices it changes nothing."""
    return contextlib.nullcontext()


def stream(stream: Any) -> Any:
    """A context that changes nothing."""
    return contextlib.nullcontext()


class Stream:
    """Cannot be made: there is no CUDA device."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Stream:
        raise RuntimeError("torch.cuda.Stream requires CUDA support")


class Event:
    """Cannot be made: there is no CUDA device."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Event:
        raise RuntimeError("torch.cuda.Event requires CUDA support")


class OutOfMemoryError(RuntimeError):
    """What a device without memory left would raise."""


def __getattr__(name: str) -> Any:
    if name == "amp":
        return importlib.import_module("eagerjit.amp.cuda")
    raise AttributeError(f"module 'eagerjit.cuda' has no attribute '{name}'")
