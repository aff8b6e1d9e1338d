"""Compiling in the background: one thread for the process, which ends when nothing is left to do.

It is no daemon: a process that exits waits for what is being compiled at that moment, since LLVM cannot be stopped in
the middle, and drops the rest.
"""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Callable

from eagerjit.runtime.once import lock


class Job:
    """Something to do once; `ended` is set when it is done or will never be."""

    def __init__(self, work: Callable[[], None]):
        self.work, self.ended = work, threading.Event()


_waiting: collections.deque[Job] = collections.deque()
_unfinished: set[Job] = set()
_worker: threading.Thread | None = None


def submit(work: Callable[[], None]) -> Job:
    """Do it after all that was submitted before. It must not raise."""
    global _worker
    job = Job(work)
    with lock:
        _waiting.append(job)
        _unfinished.add(job)
        if _worker is None:
            _worker = threading.Thread(target=_work, name="eagerjit-compiler", daemon=False)
            _worker.start()
    return job


def _work() -> None:
    """The life of the thread."""
    global _worker
    while True:
        with lock:
            if not threading.main_thread().is_alive():
                _abandon()
            if not _waiting:
                _worker = None
                return
            job = _waiting.popleft()
        try:
            job.work()
        finally:
            _unfinished.discard(job)
            job.ended.set()


def _abandon() -> None:
    """End what has not been done."""
    for job in _unfinished:
        job.ended.set()
    _unfinished.clear()
    _waiting.clear()


def _after_fork() -> None:
    """In the child of a fork, which has no such thread: what it was about to do is not going to happen."""
    global _worker
    _worker = None
    _abandon()


os.register_at_fork(after_in_child=_after_fork)
