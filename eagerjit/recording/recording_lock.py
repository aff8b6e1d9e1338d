"""One recording at a time: while one runs, what it does to Python objects is there for all to see."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from eagerjit.runtime.once import lock

_recording = threading.RLock()
"""Held while a function is recorded: until the recording ends its changes of objects are there for all to see."""
os.register_at_fork(before=_recording.acquire, after_in_parent=_recording.release, after_in_child=_recording.release)
_running = [0]


@contextmanager
def collecting_later() -> Iterator[None]:
    """Keep Python from looking for garbage: a recording makes many objects that live until it ends."""
    with lock:
        _running[0] += 1
        if _running[0] == 1:
            _running.append(gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with lock:
            _running[0] -= 1
            if _running[0] == 0 and _running.pop():
                gc.enable()


class Busy(Exception):
    """A version for this call is being made: until it is there, calls run eagerly."""


@contextmanager
def recording(patience: float) -> Iterator[None]:
    """One recording at a time, in whose youngest generation of objects is what it made itself.

    Raises Busy if another thread is recording for more than `patience` seconds (-1: without end).
    """
    if not _recording.acquire(timeout=patience):
        raise Busy
    try:
        with collecting_later():
            gc.collect(0)
            yield
    finally:
        _recording.release()
