"""One recording at a time: while one runs, what it does to Python objects is there for all to see."""

from __future__ import annotations

import gc
import os
import sys
import threading
from typing import TYPE_CHECKING

from eagerjit.runtime.interrupts import surely

if TYPE_CHECKING:
    from eagerjit.recording.trace import Tracer

_recording = threading.RLock()
"""Held while a function is recorded: until the recording ends its changes of objects are there for all to see."""
os.register_at_fork(before=_recording.acquire, after_in_parent=_recording.release, after_in_child=_recording.release)
_counting = threading.Lock()
_collect_later: set[collecting_later] = set()
_collected = [True]
"""Whether Python looked for garbage before the first of these."""


class collecting_later:
    """Keep Python from looking for garbage: a recording makes many objects that live until it ends."""

    def __enter__(self) -> None:
        try:
            with _counting:
                if not _collect_later:
                    _collected[0] = gc.isenabled()
                _collect_later.add(self)
                gc.disable()
        except BaseException:
            self.leave()
            raise

    def __exit__(self, *exc: object) -> None:
        surely(self.leave)

    def leave(self) -> None:
        """Let Python look for garbage again; nothing, if that was done."""
        with _counting:
            if _collect_later == {self} and _collected[0]:
                gc.enable()
            _collect_later.discard(self)


class Busy(Exception):
    """A version for this call is being made: until it is there, calls run eagerly."""


class recording(collecting_later):
    """One recording at a time, in whose youngest generation of objects is what it made itself.

    Raises Busy if another thread is recording for more than `patience` seconds (-1: without end).
    """

    def __init__(self, patience: float, tracer: Tracer) -> None:
        self._patience, self._tracer, self._watching = patience, tracer, sys.gettrace()
        self._within = _recording._is_owned()  # type: ignore[attr-defined]

    def __enter__(self) -> None:
        try:
            if not self._within and not _recording.acquire(timeout=self._patience):
                raise Busy
            super().__enter__()
            gc.collect(0)
        except BaseException:
            surely(self.leave)
            raise

    def leave(self) -> None:
        """Let others record, and put back what an interrupt has left as it was recorded; nothing, if that was done."""
        if sys.gettrace() is not self._watching:
            sys.settrace(self._watching)
        if self._tracer.journal is not None:
            self._tracer.journal.undo()
        self._tracer.leave()
        super().leave()
        if not self._within and _recording._is_owned():  # type: ignore[attr-defined]
            _recording.release()
