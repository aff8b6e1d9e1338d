"""Python's multiprocessing under PyTorch's name, with `spawn`."""

from __future__ import annotations

import multiprocessing as _standard
import os
import signal
import traceback
from multiprocessing import *  # noqa: F403
from multiprocessing.connection import wait
from typing import Any

__all__ = [*_standard.__all__, "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "spawn"]  # type: ignore[attr-defined]


class ProcessException(Exception):
    """A process ended in another way than by returning."""

    def __init__(self, msg: str, error_index: int, pid: int):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """A process raised an exception."""


class ProcessExitedException(ProcessException):
    """A process exited, or was killed."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name


def _run(function: Any, index: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        function(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.send(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that were started together."""

    def __init__(self, processes: list[Any], errors: list[Any]):
        self.processes, self.errors = processes, errors
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """The processes' numbers."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for one or more to end; True once all have. If one failed, the others are ended and its error raised."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in wait(list(self.sentinels), timeout):
            index = self.sentinels.pop(sentinel)  # type: ignore[arg-type]
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index if failed is None else failed
        if failed is None:
            return not self.sentinels
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(grace_period)
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
        return self._raise(failed)

    def _raise(self, index: int) -> Any:
        process = self.processes[index]
        try:
            text = self.errors[index].recv()
        except EOFError:
            text = None
        if text is not None:
            message = f"\n\n-- Process {index} terminated with the following error:\n{text}"
            raise ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        name = signal.Signals(-code).name if code < 0 else None
        how = f"with signal {name}" if name else f"with exit code {code}"
        raise ProcessExitedException(f"process {index} terminated {how}", index, process.pid, code, name)


SpawnContext = ProcessContext


def start_processes(
    fn: Any, args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Run fn(i, *args) in processes i = 0 to nprocs - 1; returns when all have ended, or without `join` at once."""
    context = _standard.get_context(start_method)
    processes, errors = [], []
    for index in range(nprocs):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, index, args, sender), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        sender.close()
        processes.append(process)
        errors.append(receiver)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Any, args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """`start_processes` in fresh interpreters. Raises ProcessRaisedException with the traceback of one that failed."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies() -> set[str]:
    """How tensors could be shared: by files' descriptors."""
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """How tensors are shared."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """There is one way."""
    if new_strategy not in ("file_descriptor", "file_system"):
        raise AssertionError(f"unknown sharing strategy {new_strategy}")
