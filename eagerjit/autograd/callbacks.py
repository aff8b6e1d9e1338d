"""What is called when a backward walk has ended: the tape's own hooks see one gradient each."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any


class _Walks(threading.local):
    """waiting: what the innermost walk of this thread calls at its end, None where there is no walk."""

    waiting: list[Callable[[], Any]] | None = None


walks = _Walks()


def waiting() -> Sequence[Callable[[], Any]]:
    """What the innermost walk of this thread calls at its end; empty outside of walks."""
    return walks.waiting or ()


def at_end_of_walk(callback: Callable[[], Any]) -> None:
    """Call this when the walk that is under way has come to its end. Raises RuntimeError outside of walks."""
    if walks.waiting is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    walks.waiting.append(callback)


def with_callbacks(walk: Callable[..., Any]) -> Callable[..., Any]:
    """A walk, and then what waits for its end, and what that adds."""

    @functools.wraps(walk)
    def call(*args: Any) -> Any:
        outer, walks.waiting = walks.waiting, []
        try:
            found = walk(*args)
            while walks.waiting:
                walks.waiting.pop(0)()
            return found
        finally:
            walks.waiting = outer

    return call
