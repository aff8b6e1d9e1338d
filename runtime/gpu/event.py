"""Events: points in a stream that others, and the host, wait for or measure time between."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from eagerjit.runtime.gpu.errors import NOT_READY
from eagerjit.runtime.gpu.functions import EVENT_BLOCKING_SYNC, EVENT_DISABLE_TIMING

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.devices import Device
    from eagerjit.runtime.gpu.stream import Stream


class Events:
    """The driver's events of one device, kept for reuse: making one takes longer than recording it."""

    def __init__(self, device: Device):
        self.device = device
        self._kept: dict[int, list[int]] = {}

    def take(self, flags: int = EVENT_DISABLE_TIMING) -> int:
        """An event that nobody else has."""
        kept = self._kept.setdefault(flags, [])
        try:
            return kept.pop()
        except IndexError:
            self.device.activate()
            return self.device.driver.integer("cuEventCreate", flags)

    def give_back(self, handle: int, flags: int = EVENT_DISABLE_TIMING) -> None:
        """Nobody needs the event any more."""
        self._kept.setdefault(flags, []).append(handle)

    def record(self, stream: int) -> int:
        """An event recorded now in a stream."""
        handle = self.take()
        self.device.activate()
        try:
            self.device.driver.cuEventRecord(handle, stream)
        except RuntimeError:
            self.give_back(handle)
            raise
        return handle

    def wait(self, handle: int) -> None:
        """Waits until the stream has got there."""
        self.device.activate()
        self.device.driver.cuEventSynchronize(handle)

    def is_done(self, handle: int) -> bool:
        """Whether the stream has got there."""
        self.device.activate()
        status = self.device.driver.status.cuEventQuery(handle)
        if status not in (0, NOT_READY):
            raise self.device.driver.error(status, "cuEventQuery")
        return not status


class Event:
    """A point in a stream, none before it is recorded. The driver's event is made when it is first recorded."""

    __slots__ = ("__weakref__", "_flags", "device", "handle", "timing")

    def __init__(self, enable_timing: bool = False, blocking: bool = False):
        self.device: Device | None = None
        self.handle, self.timing = 0, enable_timing
        self._flags = (0 if enable_timing else EVENT_DISABLE_TIMING) | (EVENT_BLOCKING_SYNC if blocking else 0)

    def __del__(self) -> None:
        if self.device is not None:
            self.device.events.give_back(self.handle, self._flags)

    def record(self, stream: Stream) -> None:
        """Notes where the stream is now; RuntimeError in a stream of another device than the first time."""
        if self.device is None:
            self.handle, self.device = stream.device.events.take(self._flags), stream.device
        if self.device is not stream.device:
            raise RuntimeError(
                f"Event device cuda:{self.device.index} does not match recording stream's device "
                f"cuda:{stream.device.index}."
            )
        stream.device.activate()
        stream.device.driver.cuEventRecord(self.handle, stream.handle)

    def wait(self, stream: Stream) -> None:
        """Work given to the stream from now on starts after the event."""
        stream.wait_event(self)

    def query(self) -> bool:
        """Whether everything before the event is done; true of one that was never recorded."""
        return self.device is None or self.device.events.is_done(self.handle)

    def synchronize(self) -> None:
        """Waits until everything before the event is done; raises what checks of the device's kernels found."""
        if self.device is not None:
            self.device.events.wait(self.handle)
            self.device.checks.raise_found()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another. Both are recorded with timing, and done."""
        if not (self.timing and end.timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.device is None or end.device is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        milliseconds = ctypes.c_float()
        self.device.driver.cuEventElapsedTime(ctypes.byref(milliseconds), self.handle, end.handle)
        return milliseconds.value
