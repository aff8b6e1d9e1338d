"""CPU memory for results: the native caching allocator, its counters, and ndarrays that live in it."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eagerjit.runtime.cpython import function, increment
from eagerjit.runtime.native import agreed as layout
from eagerjit.runtime.native.library import native
from eagerjit.runtime.once import once

_SET_HANDLER = 304  # index of PyDataMem_SetHandler in NumPy's C API table
_HANDLER_NAME_BYTES = 127
_CAPSULE_NAME = ctypes.create_string_buffer(b"mem_handler")  # the name NumPy asks capsules for; never freed


class NoMemory(RuntimeError, MemoryError):
    """There is no memory for a result: a RuntimeError, as PyTorch's programs expect."""

    def __init__(self, size: int | str):
        wanted = f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {size} bytes"
        super().__init__(size if isinstance(size, str) else wanted)


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler (numpy/ndarraytypes.h)."""

    _fields_ = (
        ("name", ctypes.c_char * _HANDLER_NAME_BYTES),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


@once
def handler_capsule() -> Any:
    """A capsule over our PyDataMem_Handler: an ndarray that owns a block of ours refers to it (`mem_handler`)."""
    library = native()
    addresses = [library.address(f"handler_{name}") for name in ("malloc", "calloc", "realloc", "free")]
    handler = _Handler(b"eagerjit", 1, None, *addresses)
    new_capsule = function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    capsule = new_capsule(ctypes.addressof(handler), ctypes.addressof(_CAPSULE_NAME), None)
    # Arrays alive at interpreter exit still use both: they are never freed.
    increment(handler)
    increment(capsule)
    return capsule


@functools.cache
def _set_handler() -> Any:
    """NumPy's PyDataMem_SetHandler, which returns the handler it replaces."""
    get_pointer = function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    table = get_pointer(np._core.multiarray._ARRAY_API, None)  # type: ignore[attr-defined]
    address = (ctypes.c_void_p * (_SET_HANDLER + 1)).from_address(table)[_SET_HANDLER]
    assert address
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)


def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An uninitialised C-contiguous ndarray over a block of the caching allocator; NoMemory where there is none."""
    previous = _set_handler()(handler_capsule())
    try:
        return fresh(shape, dtype)
    finally:
        _set_handler()(previous)


def fresh(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An uninitialised ndarray; NoMemory where there is none."""
    try:
        return np.empty(shape, dtype)
    except MemoryError:
        raise NoMemory(math.prod(shape) * np.dtype(dtype).itemsize) from None


def is_cached(array: np.ndarray[Any, Any]) -> bool:
    """Whether the array itself owns a block of the caching allocator."""
    return bool(np._core.multiarray.get_handler_name(array) == "eagerjit")  # type: ignore[attr-defined]


def _counter(offset: int) -> ctypes.c_int64:
    return ctypes.c_int64.from_address(native().address("memory_counters") + offset)


def memory_stats() -> dict[str, int]:
    """Bytes in use, most in use at once, cached bytes and their limit; blocks taken fresh and taken from the cache."""
    names = {
        "allocated_bytes": layout.ALLOCATED,
        "peak_bytes": layout.PEAK,
        "cached_bytes": layout.CACHED,
        "fresh_blocks": layout.FRESH,
        "reused_blocks": layout.REUSED,
    }
    return {name: _counter(offset).value for name, offset in names.items()} | {"limit_bytes": cache_limit()}


def reset_peak() -> None:
    """Counts the peak from the bytes in use now."""
    _counter(layout.PEAK).value = _counter(layout.ALLOCATED).value


def empty_cache() -> int:
    """Gives cached blocks back to the C library; returns their bytes."""
    return int(_empty_cache()())


@functools.cache
def _empty_cache() -> Any:
    return native().function("empty_cache", ctypes.c_int64, keep_gil=True)


def cache_limit() -> int:
    """Most bytes kept for reuse: a quarter of the memory that the process may have unless set (or
    EAGERJIT_CACHED_MEMORY says)."""
    return _counter(layout.LIMIT).value


def set_cache_limit(limit: int) -> None:
    """Keeps at most `limit` bytes for reuse from now on; 0 keeps none."""
    if limit < 0:
        raise ValueError(f"the limit must not be negative, got {limit}")
    _counter(layout.LIMIT).value = limit
    if _counter(layout.CACHED).value > limit:
        empty_cache()
