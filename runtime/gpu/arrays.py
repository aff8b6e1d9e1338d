"""Arrays over a device's memory made, and copied to the host and back."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.gpu.functions import POINTER_DEVICE
from eagerjit.runtime.gpu.memory import (
    BorrowedMemory,
    DeviceMemory,
    PinnedMemory,
    copy_between_devices,
    copy_to_device,
    copy_to_host,
    fill_bytes,
    fill_halves,
    fill_words,
    fill_words_apart,
    pinned_memory_of,
)
from eagerjit.runtime.gpu.replay import Result
from eagerjit.runtime.gpu.stream import Stream, current_stream
from eagerjit.runtime.host import memory_at

if TYPE_CHECKING:
    from eagerjit.runtime.gpu.devices import Device

Array = np.ndarray[Any, Any]
WORD = 4


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], stream: Stream) -> DeviceArray:
    """A contiguous array over fresh memory, for work in a stream."""
    return DeviceArray(DeviceMemory(math.prod(shape) * dtype.itemsize, stream), shape, dtype)


def borrowed(
    address: int, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None, device: Device,
    owner: object,
) -> DeviceArray:  # fmt: skip
    """An array over memory that somebody else made; it keeps the owner. Without strides, in bytes, it is contiguous."""
    count = math.prod(shape)
    if count and strides is not None:
        count = 1 + sum((d - 1) * s // dtype.itemsize for d, s in zip(shape, strides, strict=True))
    memory = BorrowedMemory(address, count * dtype.itemsize, device, owner)
    made = DeviceArray(memory, shape, dtype)
    return made if strides is None else made.laid_out(address, shape, dtype, strides)


def place_of(address: int, device: Device) -> Device:
    """The device that memory lies on; a device's driver knows. ValueError for memory that is of no device."""
    index = ctypes.c_int()
    device.activate()
    if device.driver.status.cuPointerGetAttribute(ctypes.addressof(index), POINTER_DEVICE, address):
        raise ValueError(f"The pointer {address:#x} is not memory of a CUDA device")
    return device.platform.device(index.value)


def memory_of(array: Array) -> DeviceMemory | Result | None:
    """The device's memory that an array, maybe a view, lies in; None for memory of the host."""
    return array.memory if isinstance(array, DeviceArray) else None


def upload(array: Array, stream: Stream) -> Array:
    """A copy on the device of an array of the host, contiguous; later work in the stream sees it."""
    source = np.ascontiguousarray(array)
    made = empty(array.shape, array.dtype, stream)
    copy_to_device(made.ctypes.data, source.ctypes.data, source.nbytes, stream)
    pinned = pinned_memory_of(source)
    if pinned is not None:
        pinned.record_stream(stream)
    return made


def fill(array: DeviceArray, value: Array, stream: Stream) -> None:
    """Set all elements of a contiguous array to one value, a 0-d array."""
    address, data = array.ctypes.data, value.tobytes()
    if not array.size:
        return
    if data == data[:1] * len(data):
        fill_bytes(address, data[0], array.nbytes, stream)
    elif len(data) == WORD:
        fill_words(address, int.from_bytes(data, "little"), array.size, stream)
    elif len(data) < WORD:
        fill_halves(address, int.from_bytes(data, "little"), array.size, stream)
    else:
        for at in range(0, len(data), WORD):
            word = int.from_bytes(data[at : at + WORD], "little")
            fill_words_apart(address + at, word, array.size, len(data), stream)


def store(target: DeviceArray, values: Array, stream: Stream) -> None:
    """Write values of the host's into an array of the device; what lies between its elements stays."""
    if not target.size:
        return
    if target.flags.c_contiguous:
        source = np.ascontiguousarray(np.broadcast_to(values, target.shape), target.dtype)
        copy_to_device(target.ctypes.data, source.ctypes.data, source.nbytes, stream)
        return
    low, high = extent(target)
    around = download(target, stream)
    around[...] = values
    start = around.ctypes.data + low - target.ctypes.data
    copy_to_device(low, start, high - low, stream)


def moved(array: DeviceArray, device: Device) -> DeviceArray:
    """A copy on another device, with the same strides."""
    here, there = current_stream(array.memory.device), current_stream(device)
    low, high = extent(array)
    memory = DeviceMemory(high - low, there)
    here.wait_stream(there)
    copy_between_devices(memory.address, device, low, high - low, here)
    there.wait_stream(here)
    made = DeviceArray(memory, (high - low,), np.dtype(np.uint8))
    return made.laid_out(memory.address + array.ctypes.data - low, array.shape, array.dtype, array.strides)


def download(array: Array, stream: Stream) -> Array:
    """A copy on the host of an array of the device, after what the stream has been given; waits."""
    low, high = extent(array)
    host = np.empty(high - low, np.uint8)
    copy_to_host(host.ctypes.data, low, high - low, stream)
    stream.synchronize()
    start = host.ctypes.data + array.ctypes.data - low
    return memory_at(start, array.shape, array.dtype, strides=array.strides, owner=host)


def download_later(array: Array, stream: Stream) -> Array:
    """What `download` gives, in pinned memory and before it is there: when the stream has done what it was given."""
    low, high = extent(array)
    pinned = PinnedMemory(high - low, stream.device)
    copy_to_host(pinned.address, low, high - low, stream)
    pinned.record_stream(stream)
    start = pinned.address + array.ctypes.data - low
    return memory_at(start, array.shape, array.dtype, strides=array.strides, owner=pinned)


def on_host(array: Array) -> Array:
    """The array itself, or a copy of one that lies on a device, after the work of this thread's stream there."""
    memory = memory_of(array)
    return array if memory is None else download(array, current_stream(memory.device))


def extent(array: Array) -> tuple[int, int]:
    """First and one-past-last address of the array's elements; equal where it has none."""
    return np.lib.array_utils.byte_bounds(array) if array.size else (array.ctypes.data,) * 2
