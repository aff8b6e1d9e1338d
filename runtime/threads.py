"""The thread pool for Python: how many threads, how long they spin, and `parallel_for` over a compiled kernel."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from eagerjit.runtime.native import agreed as layout
from eagerjit.runtime.native.library import native


def _word(offset: int) -> ctypes.c_int64:
    return ctypes.c_int64.from_address(native().address("thread_pool") + offset)


def get_num_threads() -> int:
    """Threads a kernel runs on, the caller included: EAGERJIT_NUM_THREADS, OMP_NUM_THREADS, or the processors that this
    process may use."""
    return _word(layout.THREADS).value


def set_num_threads(threads: int) -> None:
    """Runs kernels on this many threads from now on; ValueError below 1. Results never depend on it."""
    if threads < 1:
        raise ValueError(f"the number of threads must be at least 1, got {threads}")
    from eagerjit.runtime.native.threads import HAS_FUTEX

    _word(layout.THREADS).value = min(threads, layout.MAX_THREADS) if HAS_FUTEX else 1


def set_spin_microseconds(microseconds: float) -> None:
    """How long idle workers spin before they sleep (200 unless EAGERJIT_SPIN_MICROSECONDS says otherwise)."""
    _word(layout.SPIN_NANOSECONDS).value = max(1, int(microseconds * 1000))


@functools.cache
def _parallel_for() -> Any:
    pointers = (ctypes.c_void_p, ctypes.c_void_p)
    return native().function("parallel_for", ctypes.c_int64, *pointers, *[ctypes.c_int64] * 3)


def parallel_for(kernel: int, arguments: Any, tasks: int, scratch_bytes: int = 0, block: int = 1) -> int:
    """Runs the kernel at address `kernel` over [0, tasks) with the GIL released, in ranges from multiples of `block`.

    `arguments` is a ctypes array of 64-bit words (or an address). Returns 0, or the status of the first range that
    failed; `native.agreed.OUT_OF_MEMORY` where scratch memory could not be had.
    """
    return int(_parallel_for()(kernel, arguments, tasks, scratch_bytes, block))
