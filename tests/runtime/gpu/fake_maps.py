"""Tensor maps of the fake driver: what a driver refuses it refuses, and a kernel is given what its map says."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, ClassVar

from fake_memory import Violation

ITEMSIZES = {6: 2, 7: 4, 9: 2}
WORD = b"fake map"


@dataclass(frozen=True)
class TensorMap:
    """What a map was made of; dimensions as the driver has them, the innermost first, strides in bytes."""

    format: int
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int


class MapWord(ctypes.Structure):
    """A parameter of a kernel that is a map: `value` is what it was made of."""

    _fields_ = (("bytes", ctypes.c_char * 128),)
    made: ClassVar[dict[int, TensorMap]] = {}

    @property
    def value(self) -> TensorMap:
        data = ctypes.string_at(ctypes.addressof(self), 128)
        if data[:8] != WORD:
            raise Violation("a kernel is given a tensor map that the driver did not make")
        return self.made[int.from_bytes(data[8:16], "little")]


class Maps:
    """The function that makes maps."""

    def cuTensorMapEncodeTiled(
        self: Any, out: int, kind: int, rank: int, address: int, dims: int, strides: int, box: int, apart: int,
        interleave: int, swizzle: int, promotion: int, fill: int,
    ) -> int:  # fmt: skip
        def words(kind: Any, at: int, count: int) -> tuple[int, ...]:
            return tuple((kind * count).from_address(at))

        if out % 64 or kind not in ITEMSIZES or not 1 <= rank <= 5 or address % 16:
            return 1
        sizes, steps = words(ctypes.c_uint64, dims, rank), words(ctypes.c_uint64, strides, rank - 1)
        extents, between = words(ctypes.c_uint32, box, rank), words(ctypes.c_uint32, apart, rank)
        line = extents[0] * ITEMSIZES[kind]
        if (
            any(not 0 < size <= 1 << 32 for size in sizes)
            or any(step % 16 or step >= 1 << 40 for step in steps)
            or any(not 0 < extent <= 256 for extent in extents)
            or between != (1,) * rank
            or (interleave, promotion, fill) != (0, 2, 0)
            or line % 16
            or line > {1: 32, 2: 64, 3: 128}.get(swizzle, 1 << 20)
        ):
            return 1
        number = len(MapWord.made)
        MapWord.made[number] = TensorMap(kind, address, sizes, steps, extents, swizzle)
        ctypes.memmove(out, (WORD + number.to_bytes(8, "little")).ljust(128, b"\0"), 128)
        return 0
