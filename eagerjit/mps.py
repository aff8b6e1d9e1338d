"""Apple's GPUs: there are none, and what works on one raises RuntimeError, as PyTorch does without them."""

from typing import Any, NoReturn

__all__ = [
    "current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache", "get_rng_state",
    "is_available", "manual_seed", "recommended_max_memory", "seed", "set_per_process_memory_fraction",
    "set_rng_state", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing has such generators."""


def _missing(what: str) -> RuntimeError:
    return RuntimeError(f"Cannot execute {what}() without MPS backend.")


def seed() -> NoReturn:
    """Raises RuntimeError."""
    raise _missing("getDefaultGenerator")


def get_rng_state(device: Any = "mps") -> NoReturn:
    """Raises RuntimeError."""
    raise _missing("getDefaultGenerator")


def set_rng_state(new_state: Any, device: Any = "mps") -> NoReturn:
    """Raises RuntimeError."""
    raise _missing("getDefaultGenerator")


def empty_cache() -> NoReturn:
    """Raises RuntimeError."""
    raise _missing("emptyCache")


def synchronize() -> NoReturn:
    """Raises RuntimeError."""
    raise _missing("deviceSynchronize")


def current_allocated_memory() -> NoReturn:
    """Raises RuntimeError."""
    raise _missing("getCurrentAllocatedMemory")


def driver_allocated_memory() -> NoReturn:
    """Raises RuntimeError."""
    raise _missing("getDriverAllocatedMemory")


def recommended_max_memory() -> NoReturn:
    """Raises RuntimeError."""
    raise _missing("getRecommendedMaxMemory")


def set_per_process_memory_fraction(fraction: float) -> NoReturn:
    """Raises RuntimeError."""
    raise _missing("setMemoryFraction")
