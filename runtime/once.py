"""What a process makes once or step by step, one thread at a time: LLVM's state, native code, tables that it reads."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from eagerjit.runtime.interrupts import surely
from eagerjit.runtime.trace_functions import of_recording

T = TypeVar("T")



class _Lock:
    """A lock that its thread may take again. A recording that watches the thread's code sees nothing of what is made
    under it: imports and the compiler are not the user's."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._watching: Any = None
        self._inner = 0
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> None:
        if self._lock._is_owned():  # type: ignore[attr-defined]
            self._inner += 1
            return
        try:
            self.acquire()
            self._watching = of_recording()
            if self._watching is not None:
                sys.settrace(None)
        except BaseException:
            self._leave()
            raise

    def __exit__(self, *exc: object) -> None:
        if self._inner:
            self._inner -= 1
        else:
            surely(self._leave)

    def _leave(self) -> None:
        if not self._lock._is_owned():  # type: ignore[attr-defined]
            return
        if self._watching is not None:
            sys.settrace(self._watching)
            self._watching = None
        self.release()


lock = _Lock()
"""One lock for all of it, so that no order of taking several can be wrong. No code of the user runs under it, and no
call that is compiled already takes it."""

innermost = _Lock()
"""One for what modules ask while they are imported. Who imports may not wait for `lock`, as its holder may wait for
the import. Under this one no other is taken, and nothing of ours is imported."""

# A child of a fork has this thread alone: nobody else may be in the middle of something. What is registered last comes
# first before the fork: `innermost` is taken under `lock`.
for held in (innermost, lock):
    os.register_at_fork(before=held.acquire, after_in_parent=held.release, after_in_child=held.release)


def once(function: Callable[[], T], lock: _Lock = lock) -> Callable[[], T]:
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
