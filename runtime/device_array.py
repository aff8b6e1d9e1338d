"""Arrays over the memory of a device: layouts and views are NumPy's, and nothing reads or writes the elements.

Code that computes on the host takes arrays of exactly NumPy's class, which this is not: native code and the host's
Programs decline it. What of NumPy would reach for the elements raises TypeError.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, ClassVar

import numpy as np

_LAYOUT = {
    np.reshape, np.broadcast_to, np.may_share_memory, np.shares_memory, np.moveaxis, np.swapaxes, np.transpose,
    np.squeeze, np.expand_dims, np.flip, np.shape, np.ndim, np.size,
}  # fmt: skip
"""Functions that look at layouts alone."""
_Bytes = ctypes.c_char * (1 << 62)  # ctypes keeps every type that it makes: this one serves arrays of all sizes


class DeviceArray(np.ndarray[Any, Any]):
    """An array over memory of a device. `memory` keeps it alive and says of which; views share it."""

    __slots__ = ("_address", "memory")
    exist: ClassVar[bool] = False
    """Whether the process has made one."""
    memory: Any
    _address: int

    def __new__(
        cls, memory: Any, shape: tuple[int, ...], dtype: np.dtype[Any], address: int | None = None
    ) -> DeviceArray:
        """Contiguous, from the memory's first byte on unless there is an address."""
        DeviceArray.exist = True
        size = math.prod(shape) * dtype.itemsize
        start = memory.address if address is None else address
        buffer: Any = _Bytes.from_address(start) if size else None
        made = np.ndarray.__new__(cls, shape, dtype, buffer)
        made.memory, made._address = memory, start if size else 0
        return made

    def __array_finalize__(self, other: Any) -> None:
        self.memory, self._address = getattr(other, "memory", None), -1

    @property
    def address(self) -> int:
        """Where the first element lies, 0 where there is none; NumPy takes a microsecond to say it."""
        if self._address < 0:
            self._address = self.ctypes.data if self.size else 0
        return self._address

    @property
    def is_view(self) -> bool:
        """Whether it was made from another array."""
        return isinstance(self.base, np.ndarray)

    def laid_out(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...]) -> Any:
        """A view of the memory from an address on, with strides in bytes."""
        if not math.prod(shape):
            return type(self)(self.memory, shape, dtype)
        low = address + sum(min((d - 1) * s, 0) for d, s in zip(shape, strides, strict=True))
        made = np.ndarray.__new__(type(self), shape, dtype, _Bytes.from_address(low), address - low, strides)  # type: ignore[arg-type]
        made.memory, made._address = self.memory, address
        return made

    __array_ufunc__ = None  # type: ignore[assignment]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in _LAYOUT:
            self._refuse()
        found = function(*[a.view(np.ndarray) if isinstance(a, DeviceArray) else a for a in args], **kwargs)
        if not isinstance(found, np.ndarray):
            return found
        made = found.view(type(self))
        made.memory = self.memory
        return made

    def diagonal(self, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
        """A view of the elements on a diagonal, as writable as the array."""
        found = self.view(np.ndarray).diagonal(offset, axis1, axis2)
        return self.laid_out(found.ctypes.data, found.shape, found.dtype, found.strides)

    def __getitem__(self, key: Any) -> Any:
        parts = key if type(key) is tuple else (key,)
        if not all(part is None or part is Ellipsis or isinstance(part, (int, slice)) for part in parts):
            self._refuse()
        return super().__getitem__(parts if Ellipsis in parts else (*parts, Ellipsis))

    def __array__(self, *args: Any, **options: Any) -> Any:
        self._refuse()

    def _refuse(self, *args: Any, **options: Any) -> Any:
        raise TypeError("the elements of an array lie on a device, where NumPy cannot reach them")

    for _name in """__setitem__ __iter__ __bool__ __int__ __float__ __complex__ __index__ __contains__ __reduce__
    __reduce_ex__ __copy__ __deepcopy__ __format__ all any argmax argmin argsort astype byteswap choose clip compress
    copy cumprod cumsum dot dump dumps fill flatten item max mean min nonzero partition prod ptp put ravel
    repeat resize round searchsorted sort std sum take tobytes tofile tolist trace var""".split():
        locals()[_name] = _refuse
    del _name

    def __repr__(self) -> str:
        return f"<array of {self.dtype} {list(self.shape)} on a device>"

    __str__ = __repr__


def as_strided(array: np.ndarray[Any, Any], shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The memory from an array's first element on with another shape and strides in bytes; as writable as it is."""
    if isinstance(array, DeviceArray):
        return array.laid_out(array.ctypes.data, shape, array.dtype, strides)
    return np.lib.stride_tricks.as_strided(array, shape, strides)
