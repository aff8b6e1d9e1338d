"""When the host queued work and when the device did it, for pictures and Chrome's trace viewer.

Within `recording` every launch, copy and request for memory is noted, with events before and after it in its stream.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

from eagerjit.runtime.gpu import observation
from eagerjit.runtime.gpu.event import Event
from eagerjit.runtime.records import record

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.devices import Device
    from eagerjit.runtime.gpu.stream import Stream


@record
class Span:
    """Something from one time to another, in seconds since the recording began.

    `lane` is "host" or a stream, `queued` when the host queued it.
    """

    name: str
    lane: str
    begin: float
    end: float
    queued: float


@record
class Timeline:
    """What happened, in the order in which the host queued it."""

    start: float
    spans: list[Span] = field(default_factory=list)
    _ends: dict[int, float] = field(default_factory=dict)

    def iteration(self, number: int) -> None:
        """What has been queued since the last call of this belongs to an iteration."""
        self._ends[number] = time.perf_counter() - self.start

    def of_iteration(self, number: int) -> list[Span]:
        """What the host queued in an iteration, and the device's part of it, of which there is as much."""
        begin, end = self._ends.get(number - 1, 0.0), self._ends[number]
        return [span for span in self.spans if begin <= span.queued < end]

    def mark(self, name: str, begin: float, end: float) -> None:
        """Adds something that the host did, by the clock of the recording."""
        self.spans.append(Span(name, "host", begin, end, begin))

    def chrome(self) -> dict[str, Any]:
        """The trace in the format of chrome://tracing and Perfetto: microseconds, a row per lane."""
        lanes = list(dict.fromkeys(["host", *(span.lane for span in self.spans)]))
        rows = [
            {"ph": "M", "pid": 0, "tid": i, "name": "thread_name", "args": {"name": lane}}
            for i, lane in enumerate(lanes)
        ]
        events = [
            {
                "ph": "X", "pid": 0, "tid": lanes.index(s.lane), "name": s.name,
                "ts": s.begin * 1e6, "dur": (s.end - s.begin) * 1e6,
            }
            for s in self.spans
        ]  # fmt: skip
        return {"traceEvents": [*rows, *events], "displayTimeUnit": "ms"}


class _Recorder:
    """Notes what is queued, and asks the device for its times at the end."""

    def __init__(self, device: Device):
        self.device = device
        self.queued: list[tuple[str, Stream, Event, Event, float]] = []
        self.base = Event(enable_timing=True)
        device.synchronize()
        self.base.record(device.streams.default)
        self.base.synchronize()
        self.timeline = Timeline(time.perf_counter())

    @contextlib.contextmanager
    def observe(self, name: str, stream: Stream | None) -> Iterator[None]:
        events = None
        if stream is not None and stream.device is self.device and not self.device.platform.captures:
            events = Event(enable_timing=True), Event(enable_timing=True)
            events[0].record(stream)
        begin = time.perf_counter() - self.timeline.start
        yield
        self.timeline.mark(name, begin, time.perf_counter() - self.timeline.start)
        if events is not None and stream is not None:
            events[1].record(stream)
            self.queued.append((name, stream, *events, begin))

    def finish(self) -> None:
        self.device.synchronize()
        for name, stream, first, last, queued in self.queued:
            begin, end = (self.base.elapsed_time(event) / 1e3 for event in (first, last))
            lane = f"stream {stream.handle:#x}" if stream.handle else "default stream"
            self.timeline.spans.append(Span(name, lane, begin, end, queued))


@contextlib.contextmanager
def recording(device: Device) -> Iterator[Timeline]:
    """Records what is queued within the block; the device's times are there when it ends, after waiting for it."""
    recorder = _Recorder(device)
    before = observation.watch(recorder.observe)
    try:
        yield recorder.timeline
    finally:
        observation.watch(before)
    recorder.finish()
