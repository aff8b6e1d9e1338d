"""Pinned host memory, kept for reuse: the driver takes long to pin pages, and waits for the device to unpin them.

Sizes are powers of two. A block is free again when the streams that used it have got to where they were when its owner
gave it up. As in `allocator.py`, freeing only puts a block in a queue.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from eagerjit.runtime.gpu.functions import HOST_ALLOC_PORTABLE

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.devices import Device, Platform
    from eagerjit.runtime.gpu.stream import Stream

SMALLEST = 4096


class PinnedBlock:
    """Pinned memory at an address, and the streams whose work uses it."""

    __slots__ = ("address", "events", "size", "streams")

    def __init__(self, address: int, size: int):
        self.address, self.size = address, size
        self.streams: set[Stream] = set()
        self.events: list[tuple[Device, int]] = []


class PinnedAllocator:
    """The pinned memory of a process, which all its devices can use."""

    def __init__(self, platform: Platform):
        self.platform = platform
        self._lock = threading.Lock()
        self._free: dict[int, list[PinnedBlock]] = {}
        self._freed: deque[PinnedBlock] = deque()
        self._waiting: list[PinnedBlock] = []
        self.allocated = self.reserved = 0

    def allocate(self, nbytes: int, device: Device) -> PinnedBlock:
        """A block of at least so many bytes; the driver's error where it can pin no more."""
        size = max(SMALLEST, 1 << (nbytes - 1).bit_length())
        with self._lock:
            self._collect()
            kept = self._free.get(size)
            block = kept.pop() if kept else self._new(size, device)
            self.allocated += size
            return block

    def free(self, block: PinnedBlock) -> None:
        """The block's owner gives it up. Never waits."""
        self._freed.append(block)

    def empty_cache(self) -> None:
        """Gives back to the driver what is free."""
        with self._lock:
            self._collect()
            self._release()

    def _new(self, size: int, device: Device) -> PinnedBlock:
        device.activate()
        driver = self.platform.driver
        with self.platform.permitted():
            try:
                address = driver.integer("cuMemHostAlloc", size, HOST_ALLOC_PORTABLE)
            except RuntimeError:
                self._release()
                address = driver.integer("cuMemHostAlloc", size, HOST_ALLOC_PORTABLE)
        self.reserved += size
        return PinnedBlock(address, size)

    def _collect(self) -> None:
        """Take what was freed; find what the devices are done with."""
        while self._freed:
            block = self._freed.popleft()
            self.allocated -= block.size
            self._waiting.append(block)
        if self.platform.captures:
            return
        self._waiting = [block for block in self._waiting if not self._reusable(block)]

    def _reusable(self, block: PinnedBlock) -> bool:
        """Whether nothing uses the block any more; then it is kept."""
        try:
            while block.streams:
                stream = next(iter(block.streams))
                block.events.append((stream.device, stream.device.events.record(stream.handle)))
                block.streams.discard(stream)
            while block.events and block.events[-1][0].events.is_done(block.events[-1][1]):
                device, event = block.events.pop()
                device.events.give_back(event)
        except RuntimeError:  # of a device that has failed nothing is known any more
            return False
        if block.events:
            return False
        self._free.setdefault(block.size, []).append(block)
        return True

    def _release(self) -> None:
        for size, blocks in self._free.items():
            while blocks:
                self.platform.device(0).activate()  # portable memory: any context will do
                self.platform.driver.cuMemFreeHost(blocks[-1].address)
                blocks.pop()
                self.reserved -= size
