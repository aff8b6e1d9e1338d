"""Memory of a fake device: real host memory at real addresses, with a record of who read and wrote which bytes.

A device's memory is mapped without any access while nothing of the device runs: whoever reads it from the host crashes.

Two accesses to the same bytes, of which one writes, must be ordered: by the stream both are in, by an event that one
stream recorded and the other waited for, or by the host waiting in between. Every operation carries a vector clock:
how many operations of each stream it comes after.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import mmap
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

ALIGNMENT = 512
POISON = 0xCD
POISONED = 1 << 16  # so many bytes of every allocation are overwritten when it is made and when it is freed

CLOSED, OPEN = 0, 3  # mprotect's PROT_NONE and PROT_READ | PROT_WRITE
RESERVED = 1 << 36  # addresses of a driver's devices, of which the system gives memory to those that are written
HUGE = 1 << 21  # bytes of a large page
MAP_NORESERVE = 0x4000  # Linux's, which the module mmap does not name

Clock = dict[object, int]
_protect = ctypes.CDLL(None, use_errno=True).mprotect
_protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Violation(AssertionError):
    """The runtime did what a driver does not forgive."""


def merge(clock: Clock, other: Clock) -> None:
    """What comes after both."""
    for stream, count in other.items():
        if clock.get(stream, 0) < count:
            clock[stream] = count


@dataclass(slots=True)
class Access:
    begin: int
    end: int
    writes: bool
    stream: object
    count: int
    what: str


@dataclass(slots=True)
class Allocation:
    address: int
    size: int
    owner: object  # a device, or "host" for pinned memory
    buffer: np.ndarray
    accesses: list[Access] = field(default_factory=list)
    freed: bool = False

    @property
    def bytes(self) -> np.ndarray:
        start = self.address - self.buffer.ctypes.data
        return self.buffer[start : start + self.size]


class Memory:
    """All allocations of a fake driver. Freed ones stay, so that no address is given twice.

    Those of devices lie one after the other, so that one call of the system opens or closes them all.
    """

    def __init__(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        reserved = mmap.mmap(-1, RESERVED, flags=flags)
        reserved.madvise(mmap.MADV_HUGEPAGE)  # which are opened and closed quickly
        self._of_devices = np.frombuffer(reserved, np.uint8)
        self._taken = 0
        self._starts: list[int] = []
        self._all: dict[int, Allocation] = {}
        self._lock, self._running = threading.RLock(), 0

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Within the context something of a device runs, and its memory can be read and written."""
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._set(OPEN)
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    self._set(CLOSED)

    def _set(self, access: int) -> None:
        """Let the host read and write the memory of devices, or not."""
        if _protect(self._of_devices.ctypes.data, -(-self._taken // HUGE) * HUGE, access):
            raise OSError(ctypes.get_errno(), "mprotect")

    def live(self, owner: object = None) -> list[Allocation]:
        return [a for a in self._all.values() if not a.freed and (owner is None or a.owner is owner)]

    def used(self, owner: object) -> int:
        return sum(a.size for a in self.live(owner))

    def allocate(self, size: int, owner: object) -> int:
        if owner == "host":
            return self._made(size, owner, np.frombuffer(mmap.mmap(-1, size + ALIGNMENT), np.uint8))
        with self._lock:
            begin, length = self._taken, -(-(size + ALIGNMENT) // mmap.PAGESIZE) * mmap.PAGESIZE
            self._taken += length
            with self.opened():
                return self._made(size, owner, self._of_devices[begin : self._taken])

    def _made(self, size: int, owner: object, buffer: np.ndarray) -> int:
        buffer[:POISONED] = POISON
        address = -(-buffer.ctypes.data // ALIGNMENT) * ALIGNMENT
        bisect.insort(self._starts, address)
        self._all[address] = Allocation(address, size, owner, buffer)
        return address

    def free(self, address: int, kind: str) -> None:
        found = self._all.get(address)
        if found is None:
            raise Violation(f"freed what was never allocated: {address:#x}")
        if found.freed:
            raise Violation(f"freed twice: {address:#x}")
        if (kind == "host") != (found.owner == "host"):
            raise Violation(f"{address:#x} is memory of {found.owner}, freed as memory of a {kind}")
        found.freed = True
        with self.opened():
            found.bytes[:POISONED] = POISON

    def find(self, address: int) -> Allocation | None:
        """The allocation that an address lies in, freed or not."""
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        found = self._all[self._starts[index]]
        return found if address < found.address + found.size else None

    def view(self, address: int, size: int, what: str) -> np.ndarray:
        """The bytes at an address, which must lie in one live allocation."""
        found = self.find(address)
        if found is None or address + size > found.address + found.size:
            raise Violation(f"{what}: {size} bytes at {address:#x} are in no allocation")
        if found.freed:
            raise Violation(f"{what}: use after free at {address:#x}")
        return found.bytes[address - found.address :][:size]

    def peek(self, address: int, size: int) -> np.ndarray:
        """A copy of the bytes at an address as they are, whatever is queued."""
        with self.opened():
            return self.view(address, size, "the test").copy()

    def access(self, address: int, size: int, writes: bool, stream: object, clock: Clock, what: str) -> np.ndarray:
        """The same, noting the access; Violation where an earlier one is not ordered before it."""
        view = self.view(address, size, what)
        found = self.find(address)
        assert found is not None
        new = Access(address, address + size, writes, stream, clock.get(stream, 0), what)
        kept = []
        for old in found.accesses:
            if old.end <= new.begin or new.end <= old.begin:
                kept.append(old)
                continue
            if (old.writes or writes) and clock.get(old.stream, 0) < old.count:
                raise Violation(f"{what} is not ordered after {old.what}, on the same memory at {address:#x}")
            if not (writes and new.begin <= old.begin and old.end <= new.end):
                kept.append(old)
        found.accesses = [*kept, new]
        return view
