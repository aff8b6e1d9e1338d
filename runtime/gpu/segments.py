"""Segments of device memory: split into blocks, which join again; the free ones sorted by size."""

from __future__ import annotations

import bisect

from eagerjit.runtime import heap_types

GRAIN = 512
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
LARGE_REQUEST = 10 << 20
"""Requests from this size on get a segment of their own; a segment for smaller ones has room for several."""


def rounded(size: int) -> int:
    """The size of the block for a request."""
    return max(-(-size // GRAIN) * GRAIN, GRAIN)


def segment_size(size: int, small: bool) -> int:
    """How much to ask the driver for, to serve a request of this rounded size."""
    if small:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size < LARGE_REQUEST else -(-size // SMALL_SEGMENT) * SMALL_SEGMENT


def figure(size: int) -> str:
    """A number of bytes as people read it."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"


_WORDS = ("address", "size", "segment_size", "requested", "stream", "small", "keeper", "_kept_next")
_OBJECTS = ("free", "next", "others", "owner", "pending", "previous")


class Block(heap_types.raw_base("BlockBase", _WORDS)):  # type: ignore[misc]
    """Part of a segment, or all of it. `previous` and `next` are its neighbours in the segment.

    stream     the one that it belongs to
    keeper     where native code keeps it when it is freed (`direct.py`); 0 where the allocator gets it at once
    others     streams besides its own that have used it since it was handed out
    pending    events of such streams that are waited for since it was freed
    """

    address: int
    size: int
    segment_size: int
    requested: int
    stream: int
    small: int
    keeper: int
    __slots__ = _OBJECTS

    def __init__(self, address: int, size: int, owner: FreeBlocks):
        self.address, self.size, self.segment_size, self.owner = address, size, size, owner
        self.stream, self.small, self.keeper = owner.stream, int(owner.small), 0
        self.previous: Block | None = None
        self.next: Block | None = None
        self.requested = self.pending = 0
        self.free = False
        self.others: set[int] = set()

    def __repr__(self) -> str:
        return f"<{'free' if self.free else 'used'} block of {self.size} bytes at {self.address:#x}>"

    def split(self, size: int) -> Block:
        """Keep so many bytes; the rest is a new, free block."""
        rest = Block(self.address + size, self.size - size, self.owner)
        rest.segment_size, rest.free = self.segment_size, True
        rest.previous, rest.next = self, self.next
        if rest.next is not None:
            rest.next.previous = rest
        self.next, self.size = rest, size
        return rest

    def join(self, after: Block) -> Block:
        """Take over the block after this one."""
        self.size += after.size
        self.next = after.next
        if self.next is not None:
            self.next.previous = self
        return self


class FreeBlocks:
    """The free blocks of one stream in one pool, small or large ones."""

    __slots__ = ("_blocks", "_keys", "pool", "small", "stream")

    def __init__(self, pool: Pool, stream: int, small: bool):
        self.pool, self.stream, self.small = pool, stream, small
        self._keys: list[tuple[int, int]] = []
        self._blocks: dict[int, Block] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def best(self, size: int) -> Block | None:
        """Take out the smallest block with room for the size, of several the one with the lowest address."""
        index = bisect.bisect_left(self._keys, (size, 0))
        return self._blocks.pop(self._keys.pop(index)[1]) if index < len(self._keys) else None

    def add(self, block: Block) -> None:
        """Keep a free block."""
        bisect.insort(self._keys, (block.size, block.address))
        self._blocks[block.address] = block

    def remove(self, block: Block) -> None:
        """Forget a block that is kept."""
        del self._keys[bisect.bisect_left(self._keys, (block.size, block.address))]
        del self._blocks[block.address]


class Pool:
    """Segments that serve each other's requests, by the address of their first block; `users` keep them.

    splits       whether a segment may serve several requests
    last_resort  whether its free blocks serve requests for which there is no memory elsewhere
    """

    def __init__(self, splits: bool = True, last_resort: bool = False) -> None:
        self.segments: dict[int, Block] = {}
        self.users = 0
        self.splits, self.last_resort = splits, last_resort
        self._free: dict[tuple[int, bool], FreeBlocks] = {}

    def free_blocks(self, stream: int, small: bool) -> FreeBlocks:
        """The free blocks for a stream's requests."""
        found = self._free.get((stream, small))
        if found is None:
            found = self._free[stream, small] = FreeBlocks(self, stream, small)
        return found
