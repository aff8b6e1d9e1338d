"""Compiling in the background: one thread for the process, which ends when nothing is left to do.

It is no daemon: a process that exits waits for what is being compiled at that moment, since LLVM cannot be stopped in
the middle, and drops the rest.
"""

from __future__ import annotations

import collections
import os
import threading
import time
from collections.abc import Callable
from typing import Any

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


class Pending:
    """What there is to compile for the calls of one function, and what compiling has raised."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Any, Job]] = []
        self._failure: BaseException | None = None

    def knows(self, kind: Any) -> bool:
        """Whether something is being compiled for calls of a kind."""
        self.jobs[:] = [(known, job) for known, job in self.jobs if not job.ended.is_set()]
        return any(kind == known for known, _ in self.jobs)

    def submit(self, kind: Any, work: Callable[[], Any]) -> None:
        """Do it for calls of a kind."""

        def kept() -> None:
            try:
                work()
            except BaseException as error:
                self._failure = error

        self.jobs.append((kind, submit(kept)))

    def wait(self, timeout: float | None) -> bool:
        """Wait for all there is; False if `timeout` seconds pass before."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for _, job in list(self.jobs):
            if not job.ended.wait(None if deadline is None else max(deadline - time.monotonic(), 0)):
                return False
        return True

    def raise_failure(self) -> None:
        """Raise, once, what compiling has raised."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure


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
