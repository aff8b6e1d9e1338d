"""Arrays of the meta device: shapes, strides and dtypes over addresses at which there is no memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.runtime.device_array import DeviceArray

NO_DATA = "Cannot copy out of meta tensor; no data!"
META = -2
"""The meta device's place among those of devices."""

_FIRST, _BEYOND, _APART = 1 << 60, 1 << 61, 64


class MetaDevice:
    """What arrays of the meta device say that they lie on."""

    index = META


DEVICE = MetaDevice()


class MetaMemory:
    """Addresses that belong to one array and its views, so that those of others differ. No processor maps them."""

    __slots__ = ("address",)
    device = DEVICE
    _next = _FIRST

    def __init__(self, size: int):
        begin = MetaMemory._next if MetaMemory._next + size < _BEYOND else _FIRST
        self.address = begin
        MetaMemory._next = begin + size + -size % _APART + _APART


class MetaArray(DeviceArray):
    """An array without memory; views of one share its addresses."""

    __slots__ = ()


def meta_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> MetaArray:
    """A contiguous array without memory."""
    return MetaArray(MetaMemory(math.prod(shape) * dtype.itemsize), shape, dtype)
