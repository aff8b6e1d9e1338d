"""The devices of a driver, their contexts and properties, and the device that each thread works on."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import os
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from eagerjit.runtime import mode
from eagerjit.runtime.gpu.allocator import Allocator
from eagerjit.runtime.gpu.checks import Checks
from eagerjit.runtime.gpu.driver import Driver, SharedLibrary
from eagerjit.runtime.gpu.errors import AcceleratorError
from eagerjit.runtime.gpu.event import Events
from eagerjit.runtime.gpu.functions import CAPTURE_RELAXED, DEVICE_ATTRIBUTES
from eagerjit.runtime.gpu.launch import Modules
from eagerjit.runtime.gpu.pinned import PinnedAllocator
from eagerjit.runtime.gpu.segments import Pool
from eagerjit.runtime.gpu.stream import Stream, Streams, current_stream
from eagerjit.runtime.once import lock


@dataclass(frozen=True)
class DeviceProperties:
    """What a device is: sizes in bytes, rates in kHz, the width of the memory bus in bits."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    is_integrated: int
    is_multi_gpu_board: int
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int
    uuid: uuid.UUID


class Device:
    """One device. Its primary context, which the libraries of a process share, is made when it is first needed."""

    def __init__(self, platform: Platform, index: int):
        self.platform, self.driver, self.index = platform, platform.driver, index
        self.handle = self.driver.integer("cuDeviceGet", index)
        self.streams, self.events, self.allocator = Streams(self), Events(self), Allocator(self)
        self.modules, self.checks = Modules(self), Checks(self)

    def __repr__(self) -> str:
        return f"<device {self.index}>"

    @cached_property
    def context(self) -> int:
        """The primary context; it lives as long as the process."""
        with lock:
            return self.driver.integer("cuDevicePrimaryCtxRetain", self.handle)

    @property
    def is_initialized(self) -> bool:
        """Whether the context is made."""
        return "context" in self.__dict__

    def activate(self) -> None:
        """Makes the context current for this thread; every call that has no stream of its own needs that."""
        here = self.platform.here
        if here.active is not self:
            self.platform.check_process()
            self.driver.cuCtxSetCurrent(self.context)
            here.active = self
            mode.leave_device()

    def leads(self) -> bool:
        """Makes native code give this thread's work for the device to its current stream, if it does not do so yet.

        False where nothing changes: it does, or may not because a pool serves the thread.
        """
        words, kept = mode.thread_words(), self.allocator.kept
        if kept is None or self.platform.here.pools or words[mode.DEVICE // 8] == kept.address:
            return False
        self.activate()
        words[mode.DEVICE // 8], words[mode.STREAM // 8] = kept.address, current_stream(self).handle
        return True

    def attribute(self, number: int) -> int:
        """One attribute by the driver's number for it."""
        return self.driver.integer("cuDeviceGetAttribute", number, self.handle)

    @cached_property
    def properties(self) -> DeviceProperties:
        """Everything that programs ask of a device, read once."""
        name = ctypes.create_string_buffer(256)
        self.driver.cuDeviceGetName(name, len(name), self.handle)
        identity = ctypes.create_string_buffer(16)
        self.driver.cuDeviceGetUuid(identity, self.handle)
        return DeviceProperties(
            name=name.value.decode(),
            total_memory=self.driver.integer("cuDeviceTotalMem_v2", self.handle),
            uuid=uuid.UUID(bytes=identity.raw[:16]),
            **{key: self.attribute(number) for key, number in DEVICE_ATTRIBUTES.items()},
        )

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes, as the driver counts them for all processes."""
        self.activate()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def synchronize(self) -> None:
        """Waits until the device has done everything it was given; raises what checks of its kernels found."""
        self.activate()
        self.driver.cuCtxSynchronize()
        self.checks.raise_found()


class _Here(threading.local):
    """What belongs to a thread.

    current    the number of the device that its programs work on
    active     the device whose context is current
    streams    the stream that it gives its work to, by device; where there is none, the default stream
    pools      where its requests for memory go, by device, where that is not the memory of all
    captures   how many graphs it captures
    """

    def __init__(self) -> None:
        self.current = 0
        self.active: Device | None = None
        self.streams: dict[Device, Stream] = {}
        self.pools: dict[Device, Pool] = {}
        self.captures = 0

    def switch_pool(self, device: Device, pool: Pool | None) -> Pool | None:
        """Let a pool, or the memory of all, serve this thread's requests; returns what did. Native code knows none."""
        before = self.pools.pop(device, None)
        if pool is not None:
            self.pools[device] = pool
        mode.leave_device()
        return before


class Platform:
    """A driver that was started, and its devices."""

    def __init__(self, driver: Driver):
        driver.cuInit(0)
        self.driver, self.here, self.forked = driver, _Here(), False
        self.pinned = PinnedAllocator(self)
        self.captures = 0  # graphs that are being captured; changed under the lock
        self.devices = [Device(self, index) for index in range(driver.integer("cuDeviceGetCount"))]

    @property
    def is_usable(self) -> bool:
        """Whether it is the process's driver, started by the process itself."""
        return not self.forked and bool(_platforms) and _platforms[-1] is self

    def check_process(self) -> None:
        """RuntimeError in the child of a fork, where the parent's contexts are of no use."""
        if self.forked:
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
                "you must use the 'spawn' start method"
            )

    @contextlib.contextmanager
    def permitted(self) -> Iterator[None]:
        """Within the context this thread may ask the driver for memory although it captures a graph."""
        if not self.captures:
            yield
            return
        mode = ctypes.c_int(CAPTURE_RELAXED)
        self.driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        try:
            yield
        finally:
            self.driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))

    def device(self, index: int | None = None) -> Device:
        """A device by its number, without one this thread's; AcceleratorError where there is none of this number."""
        if index is None:
            index = self.here.current
        if not 0 <= index < len(self.devices):
            raise AcceleratorError(f"CUDA error: invalid device ordinal: {index} of {len(self.devices)} devices", 101)
        return self.devices[index]

    def set_current(self, index: int) -> None:
        """Makes a device this thread's."""
        self.here.current = self.device(index).index


_platforms: list[Platform | Exception] = []


def _mark_forked() -> None:
    mode.leave_device()
    for found in _platforms:
        if isinstance(found, Platform):
            found.here, found.forked = _Here(), True


os.register_at_fork(after_in_child=_mark_forked)


def platform() -> Platform:
    """The process's driver and devices, looked for at the first call; OSError or AcceleratorError without them."""
    if not _platforms:
        with lock:
            if not _platforms:
                _platforms.append(_start())
    found = _platforms[-1]
    if isinstance(found, Exception):
        raise _without_frames(found)
    return found


def _start() -> Platform | Exception:
    try:
        return Platform(Driver(SharedLibrary()))
    except (OSError, AttributeError, AcceleratorError) as error:
        return _without_frames(error)


def _without_frames(error: Exception) -> Exception:
    """The error as one that nobody has raised: what has been keeps the frames it passed, and all that they hold."""
    return copy.copy(error)


def available() -> bool:
    """Whether there is a driver that starts and has a device."""
    try:
        return bool(platform().devices)
    except (OSError, AttributeError, AcceleratorError):
        return False


@contextlib.contextmanager
def using(driver: Driver) -> Iterator[Platform]:
    """Within the context another driver is the process's."""
    _platforms.append(Platform(driver))
    try:
        yield _platforms[-1]  # type: ignore[misc]
    finally:
        _platforms.pop()
