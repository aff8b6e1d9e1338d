"""Streams and events of a device, and the stream that a thread gives its work to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from eagerjit.cuda.present import device_of, found, needed
from eagerjit.devices import Device

if TYPE_CHECKING:
    from eagerjit.runtime.gpu import event as gpu_event
    from eagerjit.runtime.gpu import stream as gpu_stream

__all__ = [
    "Event", "ExternalStream", "Stream", "StreamContext", "current_stream", "default_stream",
    "get_stream_from_external", "is_current_stream_capturing", "set_stream", "stream",
]  # fmt: skip


class Stream:
    """A queue of work of a device. Work in different streams may be done at the same time, in any order.

    `Stream(device=None, priority=0)`: smaller numbers come first. Raises RuntimeError without a device.
    """

    __slots__ = ("__weakref__", "_context", "_stream")

    _stream: gpu_stream.Stream

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        if found() is None:
            raise RuntimeError("torch.cuda.Stream requires CUDA support")
        return _wrapped(device_of(device).streams.new(priority))

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority."""
        return device_of().streams.priorities()

    @property
    def cuda_stream(self) -> int:
        """The driver's handle."""
        return self._stream.handle

    stream_id = cuda_stream

    @property
    def device(self) -> Device:
        """The device."""
        return Device("cuda", self._stream.device.index)

    @property
    def priority(self) -> int:
        """The priority."""
        return self._stream.priority

    def query(self) -> bool:
        """Whether all work given to the stream is done."""
        return self._stream.query()

    def synchronize(self) -> None:
        """Waits until all work given to the stream is done."""
        self._stream.synchronize()

    def wait_event(self, event: Event) -> None:
        """Work given from now on starts after an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Work given from now on starts after what another stream has been given so far."""
        self._stream.wait_stream(stream._stream)

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, a new one unless it is given."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._context = stream(self)
        self._context.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._context.__exit__(*exc)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self._stream == other._stream

    def __hash__(self) -> int:
        return hash(self._stream)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


def _wrapped(stream: gpu_stream.Stream) -> Stream:
    made = object.__new__(Stream)
    made._stream = stream
    return made


class Event:
    """A point in a stream. `enable_timing`: times between events can be asked for; `blocking`: who waits sleeps.

    Raises RuntimeError without a device.
    """

    __slots__ = ("__weakref__", "_event")

    _event: gpu_event.Event

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        if found() is None:
            raise RuntimeError("torch.cuda.Event requires CUDA support")
        if interprocess:
            raise NotImplementedError("eagerjit's events belong to one process")
        from eagerjit.runtime.gpu.event import Event as Recorded

        made = object.__new__(cls)
        made._event = Recorded(enable_timing, blocking)
        return made

    def record(self, stream: Stream | None = None) -> None:
        """Notes where a stream, this thread's unless it is given, is now."""
        self._event.record((stream or current_stream())._stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Work given to a stream, this thread's unless it is given, from now on starts after the event."""
        self._event.wait((stream or current_stream())._stream)

    def query(self) -> bool:
        """Whether everything before the event is done."""
        return self._event.query()

    def synchronize(self) -> None:
        """Waits until everything before the event is done."""
        self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another."""
        return self._event.elapsed_time(end_event._event)

    @property
    def cuda_event(self) -> int:
        """The driver's handle; 0 before the event is recorded."""
        return self._event.handle

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self.cuda_event:#x}>" if self.cuda_event else "<torch.cuda.Event uninitialized>"


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread gives its work to."""
    from eagerjit.runtime.gpu import stream as gpu

    return _wrapped(gpu.current_stream(device_of(device)))


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to unless a program says otherwise."""
    return _wrapped(device_of(device).streams.default)


def set_stream(stream: Stream | None) -> None:
    """Makes a stream this thread's, and its device too."""
    if stream is not None:
        from eagerjit.runtime.gpu import stream as gpu

        gpu.set_stream(stream._stream)


@contextlib.contextmanager
def _in_stream(stream: Stream) -> Iterator[None]:
    from eagerjit.runtime.gpu import stream as gpu

    with gpu.using_stream(stream._stream):
        yield


class StreamContext:
    """A context in which a stream is this thread's; None, or having no devices, changes nothing."""

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        stream = self.stream if found() is not None else None
        self._entered: Any = contextlib.nullcontext() if stream is None else _in_stream(stream)
        self._entered.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self._entered.__exit__(*error)


def stream(stream: Stream | None) -> StreamContext:
    """`StreamContext` of a stream."""
    return StreamContext(stream)


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A stream that somebody else made, by the driver's handle; it must outlive what uses it."""
    from eagerjit.runtime.gpu import stream as gpu

    return _wrapped(gpu.Stream(device_of(device), data_ptr))


def ExternalStream(stream_ptr: int, device: Any = None, **kwargs: Any) -> Stream:
    """A stream that somebody else made."""
    return get_stream_from_external(stream_ptr, device)


def is_current_stream_capturing() -> bool:
    """Whether this thread's work is captured into a graph instead of being done."""
    needed()
    return current_stream()._stream.is_capturing
