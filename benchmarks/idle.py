"""A device that does nothing, at once: programs for GPUs are recorded, compiled and launched without one.

What it measures is the host's time; and kernels that were compiled for it are in the disk caches when a GPU is there.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

import numpy as np

ATTRIBUTES = {1: 1024, 8: 49152, 10: 32, 16: 132, 39: 2048, 75: 9, 76: 0, 97: 232448}
MEMORY, PAGE = 80 << 30, 1 << 21
NOTHING = "define i32 @nothing() { ret i32 0 }"


class IdleLibrary:
    """A driver that answers what programs ask of it, and queues nothing: machine code that returns at once."""

    def __init__(self) -> None:
        from eagerjit.runtime import cpu

        self._code = cpu.load_object(cpu.compile_text(NOTHING))
        self._numbers = itertools.count(1 << 32)
        self._memory = 1 << 40
        self._pinned: list[bytearray] = []

    def bind(self, name: str, prototype: Any) -> Callable[..., int]:
        """The function under this name."""
        made: Callable[..., int] = prototype(getattr(self, name, None) or self.address(name, prototype))
        return made

    def address(self, name: str, prototype: Any) -> int:
        """Where the function lies."""
        return int(self._code.address("nothing"))

    def cuDeviceGetCount(self, out: Any) -> int:
        out[0] = 1
        return 0

    def cuDeviceGetAttribute(self, out: Any, attribute: int, device: int) -> int:
        out[0] = ATTRIBUTES.get(attribute, 0)
        return 0

    def cuMemHostAlloc(self, out: Any, size: int, flags: int) -> int:
        self._pinned.append(bytearray(size))
        out[0] = np.frombuffer(self._pinned[-1], np.uint8).ctypes.data
        return 0

    def _new(self, out: Any, *others: Any) -> int:
        out[0] = next(self._numbers)
        return 0

    cuDevicePrimaryCtxRetain = cuModuleLoadData = cuModuleGetFunction = cuEventCreate = _new
    cuStreamCreateWithPriority = cuGraphInstantiateWithFlags = _new

    def cuMemAlloc_v2(self, out: Any, size: int) -> int:
        """Addresses of which no two allocations share one, for memory that nobody reads."""
        out[0] = self._memory
        self._memory += -(-size // PAGE) * PAGE
        return 0

    def cuStreamEndCapture(self, stream: int, out: Any) -> int:
        return self._new(out)

    def cuMemGetInfo_v2(self, free: Any, total: Any) -> int:
        free[0] = total[0] = MEMORY
        return 0

    def cuDeviceTotalMem_v2(self, out: Any, device: int) -> int:
        out[0] = MEMORY
        return 0

    def cuDeviceGetName(self, out: Any, length: int, device: int) -> int:
        ctypes.memmove(out, b"idle\0", 5)
        return 0

    def cuDriverGetVersion(self, out: Any) -> int:
        out[0] = 13000
        return 0

    def cuEventElapsedTime(self, out: Any, first: int, last: int) -> int:
        out[0] = 1.0  # no time is zero: rates are what it divides
        return 0


def compile_nothing(launch: Any, device: Any) -> Any:
    """A kernel of a launch that is never run."""
    from eagerjit.cuda.execution import layouts
    from eagerjit.runtime.gpu.descriptors import Box
    from eagerjit.runtime.gpu.launch import Kernel

    boxes = [Box(d.block, 0) for d in launch.descriptors]
    return Kernel(device, b"no code", launch.source.name, layouts(launch), launch.warps, boxes=boxes)


@contextlib.contextmanager
def idle(compile: Callable[[Any, Any], Any] | None = None) -> Iterator[None]:
    """Within the block the process's one device is idle; its kernels are compiled as for a GPU, or in this way."""
    from eagerjit.cuda import execution
    from eagerjit.runtime.gpu.devices import using
    from eagerjit.runtime.gpu.driver import Driver
    from eagerjit.runtime.gpu.functions import PROTOTYPES

    driver = Driver(IdleLibrary())
    for name in PROTOTYPES:  # now, since a recording would take what binds them for the program's own code
        getattr(driver, name)
    before = execution.compile
    execution.compile = compile or before
    try:
        with using(driver):
            yield
    finally:
        execution.compile = before


@contextlib.contextmanager
def preparing(workers: int = max(2, len(os.sched_getaffinity(0)) // 4)) -> Iterator[None]:
    """Within the context the process's one device is idle; when it ends, its kernels are in the disk caches.

    Other processes compile them meanwhile. One that does not compile is left to whoever wants to run it.
    """
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawned, _end_with, (os.getpid(),)) as pool:
        compiled: list[Future[None]] = []

        def compile(launch: Any, device: Any) -> Any:
            compiled.append(pool.submit(_compile, launch))
            return compile_nothing(launch, device)

        with idle(compile):
            yield
        for future in compiled:
            try:
                future.result()
            except Exception:
                traceback.print_exc()


def _compile(launch: Any) -> None:
    """Compile a launch's kernel as for the device that there will be."""
    from eagerjit.cuda import execution
    from eagerjit.runtime.gpu.devices import platform

    with idle():
        execution.compile(launch, platform().device(0))


def _end_with(parent: int) -> None:
    """This process ends when the one that started it does, which may be killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
