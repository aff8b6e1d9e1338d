"""The memory that threads of a kernel read and write: a device's, at the addresses it has, and that of each block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fake_memory import POISON, Allocation, Memory, Violation

WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
Array = np.ndarray


@dataclass
class Accesses:
    """Which threads of a launch read and wrote which words: what two of them do to one must be ordered.

    Warps of a block are ordered by barriers, but where one reads a word and then writes it: others may read it then,
    as Triton has several warps load what one of them stores. A block comes after another one only where both have met,
    by an atomic operation: what that one wrote before, this one may read after.
    """

    what: str
    noted: list[Array] = field(default_factory=list)
    meetings: dict[int, int] = field(default_factory=dict)

    def note(self, addresses: Array, writes: bool, blocks: Array, warps: Array, phases: Array) -> None:
        """An access by threads, each with its block, its warp, and how many barriers it has passed."""
        made = np.empty((6, len(addresses)), np.int64)
        made[0], made[1], made[2], made[3], made[4] = addresses, blocks, warps, phases, writes
        made[5] = [self.meetings.get(int(b), 0) for b in blocks] if self.meetings else 0
        self.noted.append(made)

    def met(self, blocks: Array) -> None:
        """An atomic operation of these blocks."""
        for block in blocks:
            self.meetings[int(block)] = self.meetings.get(int(block), 0) + 1

    def check(self) -> None:
        """Violation where two accesses to a word, of which one writes, are in no order."""
        if not any(made[4].any() for made in self.noted):
            return
        everything = np.concatenate(self.noted, 1)
        written = np.unique(everything[0][everything[4] == 1])
        everything = everything[:, np.isin(everything[0], written)]
        self._between_warps(everything)
        self._between_blocks(everything)

    def _between_warps(self, noted: Array) -> None:
        address, block, warp, phase, writes, _ = noted[:, np.lexsort((noted[3], noted[1], noted[0]))]
        first = np.flatnonzero(np.r_[True, (np.diff(address) | np.diff(block) | np.diff(phase)) != 0])
        several = np.minimum.reduceat(warp, first) != np.maximum.reduceat(warp, first)
        suspect = several & (np.maximum.reduceat(writes, first) == 1)
        ends = np.r_[first[1:], len(address)]
        for begin, end in zip(first[suspect], ends[suspect], strict=True):
            rows = list(zip(warp[begin:end].tolist(), writes[begin:end].tolist(), strict=True))
            writers = {own for own, writing in rows if writing}
            reads_first = next(writing for own, writing in rows if own in writers) == 0
            if len(writers) > 1 or not reads_first:
                raise Violation(f"{self.what}: warps of block {block[begin]} race for {address[begin]:#x}")

    def _between_blocks(self, noted: Array) -> None:
        address, block, _, _, writes, met = noted[:, np.lexsort((noted[4], noted[0]))]
        first = np.flatnonzero(np.r_[True, np.diff(address) != 0])
        several = np.minimum.reduceat(block, first) != np.maximum.reduceat(block, first)
        ends = np.r_[first[1:], len(address)]
        for begin, end in zip(first[several], ends[several], strict=True):
            rows = list(zip(*(x[begin:end].tolist() for x in (block, writes, met)), strict=True))
            for writer, _, before in (row for row in rows if row[1]):
                for other, _, after in rows:
                    if other != writer and not (before < self.meetings.get(writer, 0) and after):
                        raise Violation(f"{self.what}: blocks {writer} and {other} race for {address[begin]:#x}")


class Global:
    """Memory of a fake device as one array; an address outside of what is allocated, or not aligned, is a Violation."""

    def __init__(self, memory: Memory, what: str, accesses: Accesses):
        self.memory, self.what, self.accesses = memory, what, accesses
        self._live = sorted(memory.live(), key=lambda a: a.address)
        self._starts = np.array([a.address for a in self._live], np.uint64)
        self._ends = np.array([a.address + a.size for a in self._live], np.uint64)

    def _found(self, addresses: Array, size: int) -> Array:
        """The number of the allocation of each."""
        found = np.maximum(np.searchsorted(self._starts, addresses, "right") - 1, 0)
        outside = (addresses < self._starts[found]) | (addresses + np.uint64(size) > self._ends[found])
        if outside.any():
            self.memory.view(int(addresses[outside][0]), size, self.what)
        return found

    def _parts(self, addresses: Array, size: int) -> Any:
        """Each allocation's words, and which of the addresses lie there at which places."""
        found = self._found(addresses, size)
        for number in np.unique(found):
            words, first = _words(self._live[number], size)
            which = found == number
            yield words, which, (addresses[which] - first) // np.uint64(size)

    def load(self, addresses: Array, size: int) -> Array:
        """The words at these addresses."""
        made = np.empty(addresses.shape, WORDS[size])
        for words, which, places in self._parts(addresses, size):
            made[which] = words[places]
        return made

    def store(self, addresses: Array, values: Array, size: int) -> None:
        """Words written to these addresses."""
        for words, which, places in self._parts(addresses, size):
            words[places] = values[which]


def _words(allocation: Allocation, size: int) -> tuple[Array, Any]:
    data = allocation.bytes
    return data[: len(data) // size * size].view(WORDS[size]), np.uint64(allocation.address)


class Shared:
    """Memory of blocks, one row of bytes for each."""

    def __init__(self, blocks: int, size: int, what: str):
        self.size, self.what = -(-size // 16) * 16, what
        self.bytes = np.full(blocks * self.size, POISON, np.uint8)
        self._arrays = {n: self.bytes.view(word) for n, word in WORDS.items()}

    def _places(self, addresses: Array, blocks: Array, size: int) -> Array:
        if addresses.size and int(addresses.max()) + size > self.size:
            raise Violation(f"{self.what}: beyond the {self.size} bytes of a block's memory")
        return (addresses.astype(np.int64) + blocks * self.size) // size

    def load(self, addresses: Array, blocks: Array, size: int) -> Array:
        """The words at these addresses of these blocks."""
        return self._arrays[size][self._places(addresses, blocks, size)]

    def store(self, addresses: Array, blocks: Array, values: Array, size: int) -> None:
        """Words written there."""
        self._arrays[size][self._places(addresses, blocks, size)] = values
