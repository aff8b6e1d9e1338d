"""Whether somebody is recording or compiling: what nobody waits for is done at other times."""

from __future__ import annotations

import os
import threading
import time

_lock = threading.Lock()
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
_working = 0
_ended = 0.0


def begin() -> None:
    """Somebody waits for what is recorded or compiled from here on."""
    global _working
    with _lock:
        _working += 1


def end() -> None:
    """It is done."""
    global _working, _ended
    with _lock:
        _working -= 1
        _ended = time.monotonic()


def idle_seconds() -> float:
    """For how long nobody has waited."""
    return 0.0 if _working > 0 else time.monotonic() - _ended
