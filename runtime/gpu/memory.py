"""Memory of a device and pinned memory of the host, as objects that give it back; copies between them.

A copy is queued in a stream and the host goes on. Memory of the host that is not pinned cannot be written behind its
back: a copy to such memory waits, and a copy from it has taken what it needs when the call returns.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.runtime import heap_types
from eagerjit.runtime.gpu.functions import POINTER_MEMORY_TYPE
from eagerjit.runtime.gpu.observation import observed
from eagerjit.runtime.host import Memory, memory_at

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.devices import Device
    from eagerjit.runtime.gpu.pinned import PinnedBlock
    from eagerjit.runtime.gpu.segments import Block
    from eagerjit.runtime.gpu.stream import Stream


_WORDS, _OBJECTS = ("address", "nbytes", "place"), ("__weakref__", "block", "device")


class DeviceMemory(heap_types.raw_base("DeviceMemoryBase", _WORDS)):  # type: ignore[misc]
    """Bytes of a device for work in a stream; they go back to the allocator when nobody holds this object.

    `place` is one more than the device's number. Native code makes these objects too.
    """

    address: int
    nbytes: int
    place: int
    __slots__ = _OBJECTS

    def __init__(self, nbytes: int, stream: Stream):
        self.block: Block | None = None
        if nbytes < 0:
            raise ValueError(f"a number of bytes must not be negative, got {nbytes}")
        self.device, self.nbytes, self.address, self.place = stream.device, nbytes, 0, stream.device.index + 1
        if nbytes:
            self.block = stream.device.allocator.allocate(nbytes, stream.handle)
            self.address = self.block.address

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.block is not None and not finalizing():  # at the end of the process the driver frees everything
            self.device.allocator.free(self.block)

    def record_stream(self, stream: Stream) -> None:
        """Work in another stream uses the memory too: what reuses it waits for what that stream has until then."""
        if self.block is not None:
            self.device.allocator.record_stream(self.block, stream.handle)


class BorrowedMemory(DeviceMemory):
    """Bytes of a device that somebody else made; `owner` keeps them."""

    __slots__ = ("owner",)

    def __init__(self, address: int, nbytes: int, device: Device, owner: object):
        self.block, self.owner = None, owner
        self.device, self.nbytes, self.address, self.place = device, nbytes, address, device.index + 1


class PinnedMemory:
    """Page-locked bytes of the host, which a device reads and writes while the host goes on."""

    __slots__ = ("__weakref__", "address", "block", "device", "nbytes")

    def __init__(self, nbytes: int, device: Device):
        self.block: PinnedBlock | None = None
        if nbytes < 0:
            raise ValueError(f"a number of bytes must not be negative, got {nbytes}")
        self.device, self.nbytes, self.address = device, nbytes, 0
        if nbytes:
            self.block = device.platform.pinned.allocate(nbytes, device)
            self.address = self.block.address

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.block is not None and not finalizing():
            self.device.platform.pinned.free(self.block)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An array over the bytes; it keeps them alive."""
        if int(np.prod(shape)) * dtype.itemsize > self.nbytes:
            raise ValueError(f"an array of shape {shape} and dtype {dtype} does not fit into {self.nbytes} bytes")
        return memory_at(self.address, shape, dtype, owner=self) if self.nbytes else np.empty(shape, dtype)

    def record_stream(self, stream: Stream) -> None:
        """Work in the stream uses the memory: what reuses it waits for what the stream has until it is freed."""
        if self.block is not None:
            self.block.streams.add(stream)


def pinned_memory_of(array: np.ndarray[Any, Any]) -> PinnedMemory | None:
    """The pinned memory that an array of the host, maybe a view, lies in."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    owner = base.owner if isinstance(base, Memory) else None
    return owner if isinstance(owner, PinnedMemory) else None


def _is_pinned(address: int, device: Device) -> bool:
    """Whether memory of the host is known to the driver."""
    kind = ctypes.c_uint()
    return not device.driver.status.cuPointerGetAttribute(ctypes.addressof(kind), POINTER_MEMORY_TYPE, address)


@observed("copy to the device")
def copy_to_device(target: int, source: int, nbytes: int, stream: Stream) -> None:
    """Queues a copy from host memory; the owner of pinned memory says `record_stream`.

    RuntimeError while this thread captures a graph and the memory is not pinned: replays would read it again.
    """
    if nbytes:
        stream.device.activate()
        if stream.device.platform.here.captures and not _is_pinned(source, stream.device):
            raise RuntimeError(
                "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. "
                "Please use tensor.pin_memory() or allocate the tensor with pin_memory=True."
            )
        stream.device.driver.cuMemcpyHtoDAsync_v2(target, source, nbytes, stream.handle)


@observed("copy to the host")
def copy_to_host(target: int, source: int, nbytes: int, stream: Stream) -> None:
    """Queues a copy to pinned host memory; a copy to other memory is done when this returns."""
    if nbytes:
        stream.device.activate()
        stream.device.driver.cuMemcpyDtoHAsync_v2(target, source, nbytes, stream.handle)


@observed("copy on the device")
def copy_on_device(target: int, source: int, nbytes: int, stream: Stream) -> None:
    """Queues a copy within a device."""
    if nbytes:
        stream.device.activate()
        stream.device.driver.cuMemcpyDtoDAsync_v2(target, source, nbytes, stream.handle)


@observed("copy to another device")
def copy_between_devices(target: int, to: Device, source: int, nbytes: int, stream: Stream) -> None:
    """Queues a copy to another device in a stream of the one that it comes from."""
    if nbytes:
        device = stream.device
        device.activate()
        device.driver.cuMemcpyPeerAsync(target, to.context, source, device.context, nbytes, stream.handle)


@observed("fill")
def fill_bytes(target: int, value: int, nbytes: int, stream: Stream) -> None:
    """Queues setting every byte to a value."""
    if nbytes:
        stream.device.activate()
        stream.device.driver.cuMemsetD8Async(target, value, nbytes, stream.handle)


@observed("fill")
def fill_halves(target: int, value: int, count: int, stream: Stream) -> None:
    """Queues setting 16-bit words to a value."""
    if count:
        stream.device.activate()
        stream.device.driver.cuMemsetD16Async(target, value, count, stream.handle)


@observed("fill")
def fill_words_apart(target: int, value: int, count: int, apart: int, stream: Stream) -> None:
    """Queues setting 32-bit words that lie so many bytes apart to a value."""
    if count:
        stream.device.activate()
        stream.device.driver.cuMemsetD2D32Async(target, apart, value, 1, count, stream.handle)


@observed("fill")
def fill_words(target: int, value: int, count: int, stream: Stream) -> None:
    """Queues setting 32-bit words to a value."""
    if count:
        stream.device.activate()
        stream.device.driver.cuMemsetD32Async(target, value, count, stream.handle)
