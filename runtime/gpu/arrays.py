"""Arrays over a device's memory made, and copied to the host and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.gpu.memory import DeviceMemory, copy_to_device, copy_to_host
from eagerjit.runtime.gpu.replay import Result
from eagerjit.runtime.gpu.stream import Stream, current_stream
from eagerjit.runtime.host import memory_at

Array = np.ndarray[Any, Any]


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], stream: Stream) -> DeviceArray:
    """A contiguous array over fresh memory, for work in a stream."""
    return DeviceArray(DeviceMemory(math.prod(shape) * dtype.itemsize, stream), shape, dtype)


def memory_of(array: Array) -> DeviceMemory | Result | None:
    """The device's memory that an array, maybe a view, lies in; None for memory of the host."""
    return array.memory if isinstance(array, DeviceArray) else None


def upload(array: Array, stream: Stream) -> Array:
    """A copy on the device of an array of the host, contiguous; later work in the stream sees it."""
    source = np.ascontiguousarray(array)
    made = empty(array.shape, array.dtype, stream)
    copy_to_device(made.ctypes.data, source.ctypes.data, source.nbytes, stream)
    return made


def download(array: Array, stream: Stream) -> Array:
    """A copy on the host of an array of the device, after what the stream has been given; waits."""
    low, high = extent(array)
    host = np.empty(high - low, np.uint8)
    copy_to_host(host.ctypes.data, low, high - low, stream)
    stream.synchronize()
    start = host.ctypes.data + array.ctypes.data - low
    return memory_at(start, array.shape, array.dtype, strides=array.strides, owner=host)


def on_host(array: Array) -> Array:
    """The array itself, or a copy of one that lies on a device, after the work of this thread's stream there."""
    memory = memory_of(array)
    return array if memory is None else download(array, current_stream(memory.device))


def extent(array: Array) -> tuple[int, int]:
    """First and one-past-last address of the array's elements; equal where it has none."""
    return np.lib.array_utils.byte_bounds(array) if array.size else (array.ctypes.data,) * 2
