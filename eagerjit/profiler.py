"""A profiler of the ranges that a program names: how often each ran, and for how long."""

from __future__ import annotations

import functools
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from eagerjit.runtime.records import record

__all__ = ["ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "tensorboard_trace_handler"]


def kineto_available() -> bool:
    """False: nothing but this module records times."""
    return False


class ProfilerActivity(Enum):
    """What could be observed; ranges of the CPU are."""

    CPU, CUDA, XPU, MTIA, PrivateUse1 = range(5)


class ProfilerAction(Enum):
    """What a profiler does during a step."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


@record(frozen=True)
class Event:
    """A range that ran: its name, and begin and end in nanoseconds."""

    name: str
    begin: int
    end: int
    depth: int
    thread: int


@record
class Average:
    """All events of one name; times in microseconds."""

    key: str
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0

    @property
    def cpu_time(self) -> float:
        """Microseconds of one event on average."""
        return self.cpu_time_total / self.count if self.count else 0.0


_running: list[profile] = []
_depth = threading.local()


class record_function:
    """A named range: a context, or a decorator."""

    def __init__(self, name: str, args: str | None = None):
        self.name = name

    def __enter__(self) -> record_function:
        self.depth = getattr(_depth, "value", 0)
        _depth.value = self.depth + 1
        self.begin = time.perf_counter_ns()
        return self

    def __exit__(self, *exc: object) -> None:
        end = time.perf_counter_ns()
        _depth.value = self.depth
        for profiler in _running:
            profiler.add(Event(self.name, self.begin, end, self.depth, threading.get_ident()))

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return call


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Which steps are recorded: after `skip_first`, cycles of `wait`, `warmup` and `active` steps.

    With `skip_first_wait` the first cycle does not wait. Raises AssertionError for negative numbers and no active step.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        given = f"{wait=}, {warmup=}, {active=}, {repeat=}, {skip_first=}"
        raise AssertionError(f"Invalid profiler schedule arguments. Got {given}.")

    def action(step: int) -> ProfilerAction:
        cycle, at = divmod(step - skip_first + (wait if skip_first_wait else 0), wait + warmup + active)
        if step < skip_first or (repeat and cycle >= repeat) or at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        last = at == wait + warmup + active - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Any:
    """What writes a trace into a folder each time a cycle ends."""

    def write(profiler: profile) -> None:
        from pathlib import Path

        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{worker_name or 'worker'}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        profiler.export_chrome_trace(str(folder / name))

    return write


_ACCEPTED = frozenset(
    """use_cuda use_device use_kineto use_cpu use_mtia record_shapes with_flops profile_memory with_stack with_modules
    experimental_config acc_events custom_trace_id_callback post_processing_timeout_s
    execution_trace_observer""".split()
)
"""Options of PyTorch's profilers that change nothing here."""


class profile:
    """Records the ranges that run in it: a context, advanced by `step()` where there is a schedule."""

    def __init__(
        self,
        enabled: Any = True,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        **ignored: Any,
    ):
        if unknown := ignored.keys() - _ACCEPTED:
            raise TypeError(f"profile.__init__() got an unexpected keyword argument '{min(unknown)}'")
        self.enabled = enabled is not False
        self.schedule, self.on_trace_ready = schedule, on_trace_ready
        self.found: list[Event] = []
        self.step_num = 0
        self.action = self._action()

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def add(self, event: Event) -> None:
        """Keep an event, if this step is recorded."""
        if self.action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self.found.append(event)

    def start(self) -> None:
        """Begin."""
        if self.enabled:
            _running.append(self)

    def stop(self) -> None:
        """End."""
        if self in _running:
            _running.remove(self)
            if self.on_trace_ready is not None and (self.schedule is None or self.found):
                self.on_trace_ready(self)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def step(self) -> None:
        """The next step begins."""
        if self.action is ProfilerAction.RECORD_AND_SAVE and self.on_trace_ready is not None:
            self.on_trace_ready(self)
            self.found = []
        self.step_num += 1
        self.action = self._action()

    def events(self) -> list[Event]:
        """What was recorded."""
        return list(self.found)

    function_events = property(events, doc="What was recorded.")

    def key_averages(self, *args: Any, **kwargs: Any) -> Averages:
        """What was recorded, by name."""
        return Averages(self.found)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **ignored: Any) -> str:
        """`key_averages().table()`."""
        return self.key_averages().table(sort_by, row_limit)

    def total_average(self) -> Average:
        """Everything in one."""
        averages = self.key_averages()
        self_time = sum(a.self_cpu_time_total for a in averages)
        return Average("Total", sum(a.count for a in averages), self_time, self_time)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds in all ranges."""
        return self.total_average().self_cpu_time_total

    def export_chrome_trace(self, path: str) -> None:
        """Write what chrome://tracing and Perfetto show, compressed where the path ends with .gz."""
        events = [
            {"name": e.name, "ph": "X", "ts": e.begin / 1e3, "dur": (e.end - e.begin) / 1e3, "pid": 0, "tid": e.thread}
            for e in self.found
        ]
        with gzip.open(path, "wt") if str(path).endswith(".gz") else open(path, "w") as file:
            json.dump({"traceEvents": events}, file)


class Averages(list[Average]):
    """Events by name, the longest first."""

    def __init__(self, events: Iterable[Event]):
        found: dict[str, Average] = {}
        inner: dict[tuple[int, int], int] = {}  # time of the ranges inside, by thread and depth
        for event in sorted(events, key=lambda e: e.end):
            average = found.setdefault(event.name, Average(event.name))
            duration = event.end - event.begin
            own = duration - inner.pop((event.thread, event.depth + 1), 0)
            inner[event.thread, event.depth] = inner.get((event.thread, event.depth), 0) + duration
            average.count += 1
            average.cpu_time_total += duration / 1e3
            average.self_cpu_time_total += own / 1e3
        super().__init__(sorted(found.values(), key=lambda a: -a.self_cpu_time_total))

    def table(self, sort_by: str | None = None, row_limit: int = 100, **ignored: Any) -> str:
        """A table as text, sorted by a column such as "cpu_time_total"."""
        rows = sorted(self, key=lambda a: -getattr(a, sort_by)) if sort_by and hasattr(Average, sort_by) else list(self)
        width = max([4, *(len(a.key) for a in rows)])
        head = f"{'Name':>{width}}  {'Self CPU':>12}  {'CPU total':>12}  {'CPU avg':>12}  {'# of Calls':>10}"
        lines = [head, "-" * len(head)]
        for a in rows[: row_limit if row_limit >= 0 else None]:
            times = "  ".join(f"{t:>10.3f}us" for t in (a.self_cpu_time_total, a.cpu_time_total, a.cpu_time))
            lines.append(f"{a.key:>{width}}  {times}  {a.count:>10}")
        return "\n".join(lines)
