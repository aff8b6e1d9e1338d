"""Runs kernels in PTX on the memory of a fake device, some blocks at a time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from fake_memory import Memory
from ptx_instructions import handler
from ptx_memory import Accesses, Global
from ptx_text import parse
from ptx_threads import Threads

THREADS = 1 << 14
"""Threads that are done together, in whole blocks."""
parsed = lru_cache(maxsize=256)(parse)


def run(
    text: str, memory: Memory, name: str, grid: tuple[int, int, int], threads: int, shared: int, values: list[Any]
) -> None:
    """Run the kernel of a text: each parameter's bytes, or a tensor's map. Violation where blocks or warps race."""
    kernel, blocks = parsed(text), grid[0] * grid[1] * grid[2]
    together, accesses = max(THREADS // threads, 1), Accesses(name)
    with np.errstate(all="ignore"):
        for first in range(0, blocks, together):
            some = range(first, min(first + together, blocks))
            Threads(kernel, Global(memory, name, accesses), name, grid, some, threads, shared, values, handler).run()
    accesses.check()
