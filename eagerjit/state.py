"""What this thread is doing: the trace being recorded. Grad mode lives in the runtime, where native code reads it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from eagerjit.runtime import dtypes, mode

if TYPE_CHECKING:
    from eagerjit.trace import Tracer


class _State(threading.local):
    tracer: Tracer | None = None
    inference: bool = False
    casting: Any = None
    """What autocast does to arguments, None while it is off."""


state = _State()


class Defaults:
    """Process-wide defaults."""

    dtype = dtypes.float32
    anomaly: tuple[bool] | None = None
    """Whether a watched backward pass looks for NaN; None where none is watched."""


def set_tracer(tracer: Tracer | None) -> Tracer | None:
    """Make `tracer` the one that records this thread's operations; returns the one before."""
    before = state.tracer
    state.tracer = tracer
    mode.set_tracing(tracer is not None or state.casting is not None)
    return before


def set_casting(casting: Any) -> Any:
    """Turn autocast on or off in this thread; returns what it was. Native fast paths do not convert: they close."""
    before = state.casting
    state.casting = casting
    mode.set_tracing(casting is not None or state.tracer is not None)
    return before


class untraced:
    """A context in which operations run eagerly although a trace is being recorded."""

    def __enter__(self) -> None:
        self._before = set_tracer(None)

    def __exit__(self, *exc: object) -> None:
        set_tracer(self._before)
