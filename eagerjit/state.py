"""What this thread is doing: the trace being recorded. Grad mode lives in the runtime, where native code reads it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from eagerjit.runtime import dtypes, mode

if TYPE_CHECKING:
    from eagerjit.trace import Tracer


class _State(threading.local):
    tracer: Tracer | None = None
    inference: bool = False


state = _State()


class Defaults:
    """Process-wide defaults."""

    dtype = dtypes.float32


def set_tracer(tracer: Tracer | None) -> Tracer | None:
    """Make `tracer` the one that records this thread's operations; returns the one before."""
    before = state.tracer
    state.tracer = tracer
    mode.set_tracing(tracer is not None)
    return before


class untraced:
    """A context in which operations run eagerly although a trace is being recorded."""

    def __enter__(self) -> None:
        self._before = set_tracer(None)

    def __exit__(self, *exc: object) -> None:
        set_tracer(self._before)
