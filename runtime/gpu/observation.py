"""Who wants to know of work that is queued: nobody, unless `timeline.py` records."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from eagerjit.runtime import mode

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.stream import Stream

Observe = Callable[[str, "Stream | None"], AbstractContextManager[None]]
"""(what it is, the stream it is queued in or None for what the host waits for) -> a context around the call."""

observe: Observe | None = None


def watch(new: Observe | None) -> Observe | None:
    """Whom to tell from now on, nobody for None; whom it was before. Native code leaves watched work to Python."""
    global observe
    before, observe = observe, new
    mode.words[mode.WATCHED_WORD] = new is not None
    return before


def observed(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A function whose last argument is a stream, shown under a name."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def wrapped(*arguments: Any) -> None:
            if observe is None:
                return function(*arguments)
            with observe(name, arguments[-1]):
                return function(*arguments)

        return wrapped

    return decorate


def by_host(name: str) -> AbstractContextManager[None]:
    """A context around something that the host waits for."""
    return nullcontext() if observe is None else observe(name, None)
