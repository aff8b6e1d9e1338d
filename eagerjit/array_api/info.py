"""What the implementation can do, as data."""

from __future__ import annotations

from typing import Any

from eagerjit.array_api import types
from eagerjit.devices import CPU, Device, check_device
from eagerjit.runtime.dtypes import COMPLEX_OF, DType
from eagerjit.state import Defaults

__all__ = ["__array_namespace_info__"]


class _Info:
    """Capabilities, devices and dtypes."""

    def capabilities(self) -> dict[str, Any]:
        """What results may depend on, and the largest number of dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Where tensors are made if nothing else is asked for."""
        return CPU

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of tensors made of Python numbers."""
        check_device(device)
        return {
            "real floating": Defaults.dtype,
            "complex floating": COMPLEX_OF.get(Defaults.dtype, types.complex64),
            "integral": types.int64,
            "indexing": types.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes by name; all, or those of a kind or a tuple of kinds; ValueError for an unknown kind."""
        check_device(device)
        return {d.name: d for d in types.DTYPES if kind is None or types.isdtype(d, kind)}

    def devices(self) -> list[Device]:
        """Where tensors can be made."""
        return [CPU]


def __array_namespace_info__() -> _Info:
    """What the implementation can do: capabilities, devices and dtypes."""
    return _Info()
