"""Streams: queues of work that run beside each other, and the one that each thread gives its work to.

A device has its default stream and a fixed number of others, made when they are first asked for and handed out in
turn: they live as long as the process, so that memory kept for a stream never outlives it.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from eagerjit.runtime import mode
from eagerjit.runtime.gpu.errors import NOT_READY
from eagerjit.runtime.gpu.functions import STREAM_NON_BLOCKING
from eagerjit.runtime.once import lock

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.devices import Device
    from eagerjit.runtime.gpu.event import Event

PER_PRIORITY = 32


class Stream:
    """A queue of a device. The handle is the driver's; 0 is the default stream."""

    __slots__ = ("__weakref__", "device", "handle", "priority")

    def __init__(self, device: Device, handle: int, priority: int = 0):
        self.device, self.handle, self.priority = device, handle, priority

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device is other.device and self.handle == other.handle

    def __hash__(self) -> int:
        return hash((self.device.index, self.handle))

    def __repr__(self) -> str:
        return f"<stream {self.handle:#x} of device {self.device.index}>"

    def query(self) -> bool:
        """Whether all work given to the stream is done."""
        self.device.activate()
        status = self.device.driver.status.cuStreamQuery(self.handle)
        if status not in (0, NOT_READY):
            raise self.device.driver.error(status, "cuStreamQuery")
        return not status

    def synchronize(self) -> None:
        """Waits until all work given to the stream is done; raises what checks of the device's kernels found."""
        self.wait()
        self.device.checks.raise_found()

    def wait(self) -> None:
        """Waits until all work given to the stream is done."""
        self.device.activate()
        self.device.driver.cuStreamSynchronize(self.handle)

    def wait_event(self, event: Event) -> None:
        """Work given from now on starts after the event; the host does not wait."""
        if event.handle:
            self.device.activate()
            self.device.driver.cuStreamWaitEvent(self.handle, event.handle, 0)

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, a new one unless it is given."""
        from eagerjit.runtime.gpu.event import Event

        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_stream(self, stream: Stream) -> None:
        """Work given from now on starts after what the other stream has been given so far."""
        if stream != self:
            self.wait_event(stream.record_event())

    @property
    def is_capturing(self) -> bool:
        """Whether work given to the stream is captured into a graph instead of being done."""
        self.device.activate()
        state = ctypes.c_int()
        self.device.driver.cuStreamIsCapturing(self.handle, ctypes.byref(state))
        return state.value != 0


class Streams:
    """The streams of one device."""

    def __init__(self, device: Device):
        self.device, self.default = device, Stream(device, 0)
        self._made: dict[int, list[Stream]] = {}
        self._turn: dict[int, int] = {}
        self._capture: Stream | None = None
        self.capturing = threading.Lock()

    def priorities(self) -> tuple[int, int]:
        """The least and the greatest priority; greater ones are smaller numbers."""
        self.device.activate()
        least, greatest = ctypes.c_int(), ctypes.c_int()
        self.device.driver.cuCtxGetStreamPriorityRange(ctypes.byref(least), ctypes.byref(greatest))
        return least.value, greatest.value

    @property
    def capture(self) -> Stream:
        """The stream that calls are captured in, by whoever holds `capturing`; no work is ever done in it.

        It is not among those that `new` hands out: what somebody else gave it meanwhile would be captured too.
        """
        self.device.activate()
        with lock:
            if self._capture is None:
                self._capture = self._make(0)
            return self._capture

    def new(self, priority: int = 0) -> Stream:
        """One of the streams of a priority, in turn; a priority out of range is brought into it."""
        least, greatest = self.priorities()
        priority = max(greatest, min(least, priority))
        with lock:
            made = self._made.setdefault(priority, [])
            turn = self._turn.get(priority, 0)
            if turn == len(made):
                made.append(self._make(priority))
            self._turn[priority] = (turn + 1) % PER_PRIORITY
            return made[turn]

    def _make(self, priority: int) -> Stream:
        handle = self.device.driver.integer("cuStreamCreateWithPriority", STREAM_NON_BLOCKING, priority)
        return Stream(self.device, handle, priority)


def current_stream(device: Device) -> Stream:
    """The stream that this thread gives its work on a device to."""
    return device.platform.here.streams.get(device) or device.streams.default


def set_stream(stream: Stream) -> None:
    """Makes a stream this thread's on its device, and its device this thread's."""
    here = stream.device.platform.here
    here.streams[stream.device] = stream
    here.current = stream.device.index
    mode.leave_device()


@contextlib.contextmanager
def using_stream(stream: Stream) -> Iterator[Stream]:
    """Within the context the stream is this thread's, and its device too."""
    here = stream.device.platform.here
    device, before = here.current, here.streams.get(stream.device)
    set_stream(stream)
    try:
        yield stream
    finally:
        here.current = device
        mode.leave_device()
        if before is None:
            here.streams.pop(stream.device, None)
        else:
            here.streams[stream.device] = before
