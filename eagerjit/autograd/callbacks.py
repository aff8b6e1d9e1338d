"""What is called when a backward walk has ended: the tape's own hooks see one gradient each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class _Walks(threading.local):
    """waiting: what the innermost walk of this thread calls at its end, None where there is no walk."""

    waiting: list[Callable[[], Any]] | None = None


walks = _Walks()


def at_end_of_walk(callback: Callable[[], Any]) -> None:
    """Call this when the walk that is under way has come to its end. Raises RuntimeError outside of walks."""
    if walks.waiting is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    walks.waiting.append(callback)


def ended() -> None:
    """Call what waits for the end of this walk, and what that adds."""
    while walks.waiting:
        walks.waiting.pop(0)()
