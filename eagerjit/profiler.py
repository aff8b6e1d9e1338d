"""A profiler of the operators that a program calls and of the ranges that it names: how often each ran, how long.

Operators are the public functions that the program calls itself, and compiled calls as a whole.
"""

from __future__ import annotations

import functools
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from eagerjit.overrides import TorchFunctionMode
from eagerjit.runtime.records import record
from eagerjit.state import set_function_modes, state
from eagerjit.tensors.methods import BINARY

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


class _Operators(TorchFunctionMode):
    """Makes ranges of the calls of public functions, and of compiled calls, which stay compiled."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = _name_of(func)
        if not name:
            return func(*args, **(kwargs or {}))
        with record_function(name):
            return func(*args, **(kwargs or {}))

    def compiled_call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a jitted function."""
        modes = state.function_modes
        set_function_modes(())
        try:
            with record_function(f"jit: {function.__qualname__}"):
                return function(*args, **kwargs)
        finally:
            set_function_modes(modes)


_operators = _Operators()


@functools.cache
def _name_of(function: Any) -> str:
    """What PyTorch calls an operator, "" for what only asks what a tensor is."""
    name: str = getattr(function, "__name__", type(function).__name__)
    if name in _ASKING:
        return ""
    if name in _OTHERS:
        return _OTHERS[name]
    plain = name.strip("_") if name.startswith("__") else name
    found = [BINARY[n] for n in (plain, plain[1:]) if name != plain and n in BINARY]
    return f"aten::{(found or [_SPECIAL.get(plain, plain)])[0]}"


_OTHERS = {"backward": "autograd::backward", "__getitem__": "Tensor.__getitem__", "__setitem__": "Tensor.__setitem__"}
_SPECIAL = {
    "rsub": "sub", "rdiv": "reciprocal", "invert": "bitwise_not", "lshift": "__lshift__", "rshift": "__rshift__",
    "rlshift": "bitwise_left_shift", "rrshift": "bitwise_right_shift",
}  # fmt: skip
_ASKING = frozenset(
    """__get__ __set__ __len__ dim ndimension numel nelement size stride is_contiguous is_floating_point is_complex
    is_signed is_inference is_shared element_size data_ptr storage_offset get_device type requires_grad_""".split()
)
"""What PyTorch lists no operator for."""


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


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """Records the operators and ranges that run in it: a context, advanced by `step()` where there is a schedule."""

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
        if self.action in _RECORDING:
            self.found.append(event)

    def start(self) -> None:
        """Begin."""
        if not self.enabled:
            return
        if not _running:
            _operators.__enter__()
        _running.append(self)

    def stop(self) -> None:
        """End."""
        if self in _running:
            _running.remove(self)
            if not _running:
                set_function_modes(tuple(m for m in state.function_modes if m is not _operators))
            if self.action in _RECORDING and self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def step(self) -> None:
        """The next step begins."""
        self.step_num += 1
        before, self.action = self.action, self._action()
        if before is ProfilerAction.RECORD_AND_SAVE and self.on_trace_ready is not None:
            self.on_trace_ready(self)
        if before is not ProfilerAction.RECORD and self.action in _RECORDING:
            self.found = []  # until a cycle begins, what the last one recorded can be read

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
        rows = self if sort_by is None else sorted(self, key=lambda a: -getattr(a, sort_by))
        total = sum(a.self_cpu_time_total for a in self)
        width = max([4, *(len(a.key) for a in rows)])
        columns = ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls")
        head = "  ".join([f"{'Name':>{width}}", *(f"{column:>12}" for column in columns)])
        rule = "  ".join(["-" * width, *["-" * 12] * len(columns)])
        lines = [rule, head, rule]
        for a in rows[: row_limit if row_limit >= 0 else None]:
            times = (a.self_cpu_time_total, a.cpu_time_total)
            own, whole = ([f"{100 * t / total if total else 0:.2f}%", _shown(t)] for t in times)
            cells = [*own, *whole, _shown(a.cpu_time), str(a.count)]
            lines.append("  ".join([f"{a.key:>{width}}", *(f"{cell:>12}" for cell in cells)]))
        return "\n".join([*lines, rule, f"Self CPU time total: {_shown(total)}", ""])


def _shown(microseconds: float) -> str:
    """A time with its unit."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3f}{unit}"
    return f"{microseconds:.3f}us"
