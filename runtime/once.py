"""What a process makes once or step by step, one thread at a time: LLVM's state, native code, tables that it reads."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

lock = threading.RLock()
"""One lock for all of it, so that no order of taking several can be wrong. No code of the user runs under it, and no
call that is compiled already takes it."""

# A child of a fork has this thread alone: nobody else may be in the middle of something.
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def once(function: Callable[[], T]) -> Callable[[], T]:
    """The function, run at its first call only, by one thread; the others wait for its result."""
    made: list[T] = []

    @functools.wraps(function)
    def value() -> T:
        if not made:
            with lock:
                if not made:
                    made.append(function())
        return made[0]

    return value
