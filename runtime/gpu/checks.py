"""What kernels found wrong, an index out of range: noted by the device, raised where the host waits for it anyway.

A check that fails stores its number in a word of pinned memory, which the host looks at without asking the device. The
words are used in turn; a part of them is used again when events in all streams that it was given to are done.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.runtime.gpu.memory import PinnedMemory
from eagerjit.runtime.queued import Queued, note_queued
from eagerjit.runtime.records import record
from eagerjit.runtime.source import Place, here, line_of

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.devices import Device
    from eagerjit.runtime.gpu.stream import Stream
    from eagerjit.runtime.program import Program

WORD = np.dtype(np.int32)
PARTS = 4


@record
class _Run:
    """A run of a Program whose kernels may report: where they do, and what its errors say."""

    words: np.ndarray[Any, Any]
    program: Program
    slots: Sequence[int]
    place: Place | None
    queued: Queued

    def error(self) -> BaseException | None:
        """What its first kernel that found something has to say."""
        found = self.words[self.words != 0]
        if not found.size:
            return None
        self.words[:] = 0
        error = self.program.errors[int(found[0]) - 1].error(self.slots)
        error.add_note(f"The call was queued at {line_of(self.place)}; what it computed is not to be used.")
        note_queued(error, self.queued)
        return error


class Checks:
    """The checks of one device that have not been heard of as good."""

    def __init__(self, device: Device, part: int = 1024):
        self.device, self.part = device, part
        self._lock = threading.Lock()
        self._words = np.zeros(0, WORD)
        self._next = 0
        self._runs: list[deque[_Run]] = [deque() for _ in range(PARTS)]
        self._streams: set[Stream] = set()
        self._events: list[list[int]] = [[] for _ in range(PARTS)]
        self._captured: list[_Run] = []

    def words(self, count: int, program: Program, slots: Sequence[int], stream: Stream) -> int:
        """The address of a word for each of so many kernels, in the order of their launches.

        First raises what is known of earlier runs.
        """
        self.raise_found()
        with self._lock:
            if count > self.part or self.device.platform.here.captures:
                return self._own(count, program, slots)
            if not self._words.size:
                self._words = self._new(PARTS * self.part)
            if self._next % self.part + count > self.part:
                self._next = (self._next // self.part + 1) % PARTS * self.part
            if self._next % self.part == 0:
                self._enter(self._next // self.part)
            first, self._next = self._next, (self._next + count) % (PARTS * self.part)
            self._streams.add(stream)
            own = self._words[first : first + count]
            self._runs[first // self.part].append(_Run(own, program, slots, here(), Queued()))
            return int(own.ctypes.data)

    def raise_found(self) -> None:
        """Raises the error of the earliest run of which one is known; each run's is raised once."""
        if self._words.any():
            current = (self._next - 1) % (PARTS * self.part) // self.part
            for part in range(current + 1, current + 1 + PARTS):  # from the oldest on
                for run in self._runs[part % PARTS]:
                    self._raise(run)
        for run in self._captured:
            self._raise(run)

    def _raise(self, run: _Run) -> None:
        error = run.error()
        if error is not None:
            raise error

    def _new(self, count: int) -> np.ndarray[Any, Any]:
        words = PinnedMemory(count * WORD.itemsize, self.device).array((count,), WORD)
        words[:] = 0
        return words

    def _enter(self, part: int) -> None:
        """Leaves one part for the next, when all work that was given the next one before is done."""
        events = self.device.events
        self._events[part - 1] += [events.record(stream.handle) for stream in self._streams]
        self._streams.clear()
        while self._events[part]:
            event = self._events[part].pop()
            events.wait(event)
            events.give_back(event)
        for run in self._runs[part]:
            self._raise(run)
        self._runs[part].clear()

    def _own(self, count: int, program: Program, slots: Sequence[int]) -> int:
        """Words for good: of a graph, whose replays write them again and again, or of a run with very many kernels."""
        words = self._new(count)
        self._captured.append(_Run(words, program, slots, here(), Queued()))
        return int(words.ctypes.data)
