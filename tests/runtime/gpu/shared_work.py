"""Checks by name on a device, in parts, each by several processes that share it: compiling takes longest.

A process that dies, takes too long or has lost the device costs the name that it was at: another one goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from machines import GPU

PARTS = 6
WORKERS = min(12, len(os.sched_getaffinity(0)))
SLOWEST = 90.0 if GPU == "gpu" else 1200.0
"""Seconds that a name may take."""
END = float(os.environ.get("EAGERJIT_TESTS_END", "inf"))
"""When names are no longer begun, in seconds of `time.time`: what is known by then is told."""

LATE = 4.0
"""Seconds after that until names that were begun are given up."""

Check = Callable[[str, str], list[str]]


def part_of(names: Sequence[str], part: int) -> list[str]:
    """Names a fixed distance apart: neighbours take equally long."""
    return list(names[part::PARTS])


def problems(check: Check, names: Iterable[str], kind: str = GPU) -> list[str]:
    """What is wrong with these names; without anything wrong, but names for which there is no time, a skipped test."""
    left, late, found = deque(names), list[str](), list[str]()

    def examine() -> None:
        while time.time() < END:
            try:
                name = left.popleft()
            except IndexError:
                return
            try:
                wrong = _asked(check, kind, name)
                late.extend([name] if wrong is None else [])
                found.extend(wrong or [])
            except Exception as error:  # a process that cannot be started
                found.append(f"{name}: {error}")

    threads = [threading.Thread(target=examine) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rest = len(left) + len(late)
    if rest and not found:
        pytest.skip(f"no time for {rest} names")
    return found + [f"no time for {rest} names"] * bool(rest)


class _Worker:
    """A process that answers for one name after the other."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def ask(self, *question: Any) -> tuple[list[str] | None, bool]:
        """What is wrong, None where time was over first; and whether the process is of no more use."""
        limit = min(SLOWEST, max(END + LATE - time.time(), 0.0))
        try:
            self.connection.send(question)
            if self.connection.poll(limit):
                found: tuple[list[str], bool] = self.connection.recv()
                return found
            if limit < SLOWEST:
                return None, True
            problem = f"took more than {SLOWEST:.0f} s"
        except (EOFError, OSError):
            self.process.join(5)
            problem = f"ended its process with status {self.process.exitcode}"
        return [f"{question[-1]}: {problem}"], True


_idle: list[_Worker] = []  # processes that are kept for the next part: a context of a device takes long to make


def _asked(check: Check, kind: str, name: str) -> list[str] | None:
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    found, is_lost = worker.ask(check, kind, name)
    if is_lost:
        worker.process.kill()
    else:
        _idle.append(worker)
    return found


def _work(connection: Any) -> None:
    """Be the process."""
    while True:
        try:
            check, kind, name = connection.recv()
        except EOFError:
            return
        try:
            found = check(kind, name)
        except Exception as error:
            found = [f"{name}: {type(error).__name__}: {error}"[:300]]
        connection.send((found, kind == "gpu" and _is_lost()))


def _is_lost() -> bool:
    """Whether the device answers everything with an error from now on, as after an access outside of its memory."""
    from eagerjit.runtime.gpu.devices import platform

    device = platform().device(0)
    return bool(device.driver.status.cuCtxSetCurrent(device.context) or device.driver.status.cuCtxSynchronize())
