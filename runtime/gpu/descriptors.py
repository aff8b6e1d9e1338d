"""Tensors that a GPU loads blocks of by itself (its tensor memory accelerator): what it is told of them.

A kernel is given a tensor map, 128 bytes that the driver makes of a tensor's address, sizes and strides, and of how the
kernel was compiled to take blocks. Of a launch that is ready all but the address is known.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from typing import TYPE_CHECKING

from eagerjit.runtime import records
from eagerjit.runtime.native import descriptors as record

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.driver import Driver

FORMATS = {"f16": 6, "f32": 7, "bf16": 9}  # CU_TENSOR_MAP_DATA_TYPE_*
NAMES = {"f16": "fp16", "f32": "fp32", "bf16": "bf16"}
ITEMSIZES = {"f16": 2, "f32": 4, "bf16": 2}
MOST_DIMENSIONS, MOST_STRIDE, MOST_EXTENT = 5, 1 << 40, 1 << 31
"""Limits of a map: dimensions, bytes between neighbours; and of 32 bits of a place."""
LEAST_BYTES = 128 << 10
"""Of tensors smaller than this drivers before CUDA 13.1 make maps that may be wrong."""


class Maps:
    """Whether tensors are described at all: not with EAGERJIT_TENSOR_MAPS=0, and not after a driver refused a map."""

    def __init__(self) -> None:
        self.refused = False

    @property
    def wanted(self) -> bool:
        """Asked whenever a launch is prepared."""
        return not self.refused and os.environ.get("EAGERJIT_TENSOR_MAPS", "") != "0"

    def refuse(self, why: Exception) -> None:
        """From now on kernels compute addresses, with one warning."""
        self.refused = True
        warnings.warn(
            f"this driver makes no tensor maps ({why}): kernels load blocks without. "
            "EAGERJIT_TENSOR_MAPS=0 does so from the start.",
            RuntimeWarning,
            stacklevel=2,
        )


maps = Maps()
"""The process's."""


@records.record(frozen=True)
class Descriptor:
    """A tensor of which blocks are loaded; extents and strides in elements, the last stride is 1. Outside it is 0."""

    param: str
    dtype: str
    block: tuple[int, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def type(self) -> str:
        """Triton's type of the argument."""
        return f"tensordesc<{NAMES[self.dtype]}[{', '.join(map(str, self.block))}]>"

    @property
    def possible(self) -> bool:
        """Whether there is a map of such a tensor at an address that 16 bytes divide."""
        itemsize = ITEMSIZES[self.dtype]
        steps = [itemsize * stride for stride in self.strides[:-1]]
        span = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)) + 1
        return (
            len(self.shape) <= MOST_DIMENSIONS
            and self.strides[-1] == 1
            and all(0 < step < MOST_STRIDE and step % 16 == 0 for step in steps)
            and all(0 < extent < MOST_EXTENT for extent in self.shape)
            and itemsize * span >= LEAST_BYTES
        )


@records.record(frozen=True)
class Box:
    """How a kernel takes blocks: what is copied at once, and how it is swizzled (CU_TENSOR_MAP_SWIZZLE_*)."""

    extents: tuple[int, ...]
    swizzle: int


class TensorMap:
    """The maps of a descriptor at any address. `words` are the record that native code makes them with."""

    def __init__(self, driver: Driver, descriptor: Descriptor, box: Box, argument: int):
        self.driver, self.argument = driver, argument
        memory = ctypes.create_string_buffer(record.RECORD_BYTES + record.MAP_ALIGNMENT)
        start = -(-ctypes.addressof(memory) // record.MAP_ALIGNMENT) * record.MAP_ALIGNMENT
        self._memory, self.address = memory, start
        itemsize = ITEMSIZES[descriptor.dtype]
        dims, steps = descriptor.shape[::-1], [itemsize * s for s in descriptor.strides[-2::-1]]
        for at, kind, values in (
            (record.ARGUMENT, ctypes.c_int64, (argument,)),
            (record.FORMAT, ctypes.c_int64, (FORMATS[descriptor.dtype],)),
            (record.RANK, ctypes.c_int64, (len(dims),)),
            (record.SWIZZLE, ctypes.c_int64, (box.swizzle,)),
            (record.DIMS, ctypes.c_uint64, dims),
            (record.STRIDES, ctypes.c_uint64, steps),
            (record.BOX, ctypes.c_uint32, box.extents[::-1]),
            (record.APART, ctypes.c_uint32, [1] * len(dims)),
        ):
            (kind * len(values)).from_address(start + at)[:] = values
        self._values = (
            FORMATS[descriptor.dtype], len(dims), start + record.DIMS, start + record.STRIDES, start + record.BOX,
            start + record.APART, box.swizzle,
        )  # fmt: skip

    def at(self, address: int) -> bytes:
        """The map of the tensor at an address."""
        memory = ctypes.create_string_buffer(record.MAP_BYTES + record.MAP_ALIGNMENT)
        start = -(-ctypes.addressof(memory) // record.MAP_ALIGNMENT) * record.MAP_ALIGNMENT
        format_, rank, dims, strides, box, apart, swizzle = self._values
        self.driver.cuTensorMapEncodeTiled(
            start, format_, rank, address, dims, strides, box, apart, 0, swizzle, record.PROMOTED, 0
        )
        return ctypes.string_at(start, record.MAP_BYTES)
