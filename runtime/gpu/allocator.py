"""The caching allocator of a device's memory, after section 5.3 of the PyTorch paper.

Asking the driver for memory makes the host wait, so what is freed is kept. Requests are rounded up to 512 bytes and
served from segments, which are split into blocks; free neighbours join again. Every stream has free blocks of its own:
what a program frees is used again at once by the same stream, in whose order the last use comes first. A block that
other streams used as well is free once events recorded there when it was freed are done.

Blocks may be freed by Python's garbage collector in the middle of anything, and by any thread. So freeing puts a block
in a queue, and who has the lock empties it.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from typing import TYPE_CHECKING, Protocol

from eagerjit.runtime.gpu.errors import OutOfMemoryError
from eagerjit.runtime.gpu.observation import by_host
from eagerjit.runtime.gpu.segments import GRAIN, Block, FreeBlocks, Pool, figure, rounded, segment_size
from eagerjit.runtime.gpu.statistics import Statistics

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.devices import Device

SMALL = 1 << 20
"""Requests up to this size are served from small segments, so that they do not break up large ones."""


class Kept(Protocol):
    """Blocks that were freed and are handed out again without a lock, in front of the allocator; counted as free."""

    address: int

    def take(self, requested: int, stream: int) -> Block | None:
        """One for a request of this many bytes by work in a stream."""
        ...

    def give_up(self) -> list[Block]:
        """All of them; none is kept any longer."""
        ...


class Allocator:
    """The memory of one device. Blocks are asked for with the handle of the stream that will use them."""

    def __init__(self, device: Device):
        self.device, self.statistics = device, Statistics()
        self.limit: int | None = None
        self.kept: Kept | None = None
        self._lock = threading.Lock()
        self._common = Pool()
        self._pools: list[Pool] = [self._common]
        self._freed: deque[Block] = deque()
        self._put_off: list[Block] = []
        self._waiting: dict[int, deque[tuple[int, Block]]] = {}

    # -- asking and freeing ---------------------------------------------------------------------------------------

    def allocate(self, requested: int, stream: int) -> Block:
        """A block of at least so many bytes, at least one; OutOfMemoryError where the device has no more."""
        try:
            return self._allocate(requested, stream)
        except OutOfMemoryError:
            gc.collect()  # tensors in cycles of references are there until Python looks for them
        try:
            return self._allocate(requested, stream)
        except OutOfMemoryError:
            self.statistics.events["num_ooms"] += 1
            raise

    def _allocate(self, requested: int, stream: int) -> Block:
        size = rounded(requested)
        pool = self.device.platform.here.pools.get(self.device, self._common)
        kept = None if self.kept is None or pool is not self._common else self.kept.take(requested, stream)
        if kept is not None:
            return kept
        with self._lock:
            self._collect()
            free = pool.free_blocks(stream, size <= SMALL)
            block = free.best(size)
            if block is None:
                self._join_kept()
                self._poll()
                block = free.best(size) or self._new_segment(free, size, requested)
            self._hand_out(block, size, requested)
            block.keeper = 0 if self.kept is None or pool is not self._common else self.kept.address
            return block

    def free(self, block: Block) -> None:
        """The block is not used by work given to any stream from now on. Never waits for the device."""
        self._freed.append(block)
        if self._lock.acquire(blocking=False):
            try:
                self._collect()
            finally:
                self._lock.release()

    def record_stream(self, block: Block, stream: int) -> None:
        """Work given to this stream uses the block too; what reuses it after it is freed waits for that."""
        if stream != block.stream:
            block.others.add(stream)
            block.keeper = 0

    def _hand_out(self, block: Block, size: int, requested: int) -> None:
        small, split = block.owner.small, block.size < block.segment_size
        if split:
            self.statistics.take(small, inactive_split=1, inactive_split_bytes=block.size)
        rest = block.size - size
        if rest >= (GRAIN if small else SMALL + 1) and block.owner.pool.splits:
            remainder = block.split(size)
            block.owner.add(remainder)
            self.statistics.add(small, inactive_split=1, inactive_split_bytes=remainder.size)
        block.free, block.requested = False, requested
        amount = block.size
        self.statistics.add(
            small, allocation=1, allocated_bytes=amount, active=1, active_bytes=amount, requested_bytes=requested
        )

    def _collect(self) -> None:
        """Take what was freed."""
        while self._freed:
            block = self._freed.popleft()
            size, requested = block.size, block.requested
            self.statistics.take(block.owner.small, allocation=1, allocated_bytes=size, requested_bytes=requested)
            if block.others:
                self._put_off.append(block)
            else:
                self._return(block)
        if self._put_off and not self.device.platform.captures:
            blocks, self._put_off = self._put_off, []
            for index, block in enumerate(blocks):
                try:
                    self._await_others(block)
                except RuntimeError:  # a device that has failed: what its streams still do to the block is unknown
                    self._put_off += blocks[index:]
                    return

    def _await_others(self, block: Block) -> None:
        """Record where the other streams are: the block is free when they have got there."""
        while block.others:
            stream = next(iter(block.others))
            event = self.device.events.record(stream)
            self._waiting.setdefault(stream, deque()).append((event, block))
            block.pending += 1
            block.others.discard(stream)

    def _return(self, block: Block) -> None:
        """The block is free: it joins its free neighbours."""
        self.statistics.take(block.owner.small, active=1, active_bytes=block.size)
        self._join(block)

    def _join(self, block: Block) -> None:
        small, owner = block.owner.small, block.owner
        for neighbour in (block.previous, block.next):
            if neighbour is not None and neighbour.free:
                owner.remove(neighbour)
                self.statistics.take(small, inactive_split=1, inactive_split_bytes=neighbour.size)
                block = neighbour.join(block) if neighbour is block.previous else block.join(neighbour)
        block.free = True
        owner.add(block)
        if block.size < block.segment_size:
            self.statistics.add(small, inactive_split=1, inactive_split_bytes=block.size)

    def _join_kept(self) -> None:
        """Free what is kept for requests of the same size."""
        for block in self.kept.give_up() if self.kept is not None else ():
            if block.size < block.segment_size:
                self.statistics.take(block.owner.small, inactive_split=1, inactive_split_bytes=block.size)
            self._join(block)

    def _poll(self, wait: bool = False) -> None:
        """Free the blocks whose events are done; or wait for all of them. A graph's capture forbids to ask."""
        if self.device.platform.captures:
            return
        for queue in self._waiting.values():
            while queue:
                event, block = queue[0]
                if wait:
                    self.device.events.wait(event)
                elif not self.device.events.is_done(event):
                    break
                queue.popleft()
                self.device.events.give_back(event)
                block.pending -= 1
                if not block.pending and not block.others:
                    self._return(block)

    # -- segments -------------------------------------------------------------------------------------------------

    def _new_segment(self, free: FreeBlocks, size: int, requested: int) -> Block:
        """A segment with room for the size; what is kept goes back to the driver where it has no more."""
        wanted = segment_size(size, free.small)
        address = self._ask(wanted)
        if address is None:
            self.statistics.events["num_alloc_retries"] += 1
            self._release()
            found = free.best(size)  # a block that had to be waited for
            if found is not None:
                return found
            address = self._ask(wanted)
        if address is None:
            for pool in self._pools:
                found = pool.free_blocks(free.stream, free.small).best(size) if pool.last_resort else None
                if found is not None:
                    return found
            raise OutOfMemoryError(self._complaint(requested))
        self.statistics.add(free.small, segment=1, reserved_bytes=wanted)
        block = Block(address, wanted, free)
        free.pool.segments[address] = block
        return block

    def _ask(self, size: int) -> int | None:
        """The driver's memory; None where it or the limit has no more."""
        if self.limit is not None and self.statistics.current("reserved_bytes") + size > self.limit:
            return None
        self.device.activate()
        try:
            with self.device.platform.permitted(), by_host("cuMemAlloc"):
                address = self.device.driver.integer("cuMemAlloc_v2", size)
        except OutOfMemoryError:
            return None
        self.statistics.events["num_device_alloc"] += 1
        return address

    def _release(self) -> None:
        """Give whole free segments back to the driver, after waiting for blocks that other streams use."""
        self._join_kept()
        self._poll(wait=True)
        self.device.activate()
        for pool in self._pools:
            if pool.users or self.device.platform.captures:
                continue  # a graph has the addresses
            for block in [block for block in pool.segments.values() if block.free and block.next is None]:
                with self.device.platform.permitted(), by_host("cuMemFree"):
                    self.device.driver.cuMemFree_v2(block.address)
                self.statistics.events["num_device_free"] += 1
                self.statistics.take(block.owner.small, segment=1, reserved_bytes=block.size)
                block.owner.remove(block)
                del pool.segments[block.address]
        self._pools = [pool for pool in self._pools if pool is self._common or pool.users or pool.segments]

    def _complaint(self, requested: int) -> str:
        free, total = self.device.memory_info()
        allocated, reserved = map(self.statistics.current, ("allocated_bytes", "reserved_bytes"))
        text = (
            f"CUDA out of memory. Tried to allocate {figure(requested)}. GPU {self.device.index} has a total capacity "
            f"of {figure(total)} of which {figure(free)} is free. This process has reserved {figure(reserved)}: "
            f"{figure(allocated)} is allocated, {figure(reserved - allocated)} is reserved but unallocated."
        )
        return text if self.limit is None else f"{text} It may reserve {figure(self.limit)}."

    # -- what programs ask for ------------------------------------------------------------------------------------

    def empty_cache(self) -> None:
        """Gives back to the driver all segments of which nothing is in use."""
        with self._lock:
            self._collect()
            self._release()

    def collect(self) -> None:
        """Takes what was freed into account, and what other streams have finished with."""
        with self._lock:
            self._collect()
            self._poll()

    def new_pool(self, splits: bool = True, last_resort: bool = False) -> Pool:
        """Memory of its own: kept as long as the pool has users."""
        with self._lock:
            self._pools.append(Pool(splits, last_resort))
            return self._pools[-1]

    def blocks(self, of: Pool | None = None) -> list[Block]:
        """All blocks by address, free ones too; of one pool or of all."""
        with self._lock:
            self._join_kept()
            found = []
            for pool in self._pools if of is None else [of]:
                for block in pool.segments.values():
                    while block is not None:
                        found.append(block)
                        block = block.next  # type: ignore[assignment]
            return sorted(found, key=lambda block: block.address)
