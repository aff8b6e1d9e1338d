"""What dtypes can hold, and the names of memory formats and layouts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from eagerjit.runtime.dtypes import REAL_OF, DType
from eagerjit.runtime.keys import SINGLETONS
from eagerjit.state import Defaults


class _Kept(type):
    """A class with one instance for each dtype."""

    def __init__(cls, *args: Any):
        super().__init__(*args)
        cls.known: dict[DType, Any] = {}

    def __call__(cls, type: Any = None) -> Any:
        found = cls.known.get(type) if isinstance(type, DType) else None
        if found is None:
            found = super().__call__(type)
            if isinstance(type, DType):
                cls.known[type] = found
        return found


class finfo(metaclass=_Kept):
    """The limits of a floating point dtype; of a complex one those of its parts."""

    def __init__(self, type: DType | None = None):
        dtype = Defaults.dtype if type is None else type
        if not isinstance(dtype, DType):
            raise TypeError(f"torch.finfo() requires a floating point input type, not {dtype}")
        dtype = REAL_OF.get(dtype, dtype)
        if not dtype.is_floating_point:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{dtype}'")
        limits: Any = ml_dtypes.finfo(dtype.numpy)
        self.bits, self.dtype = dtype.bits, dtype.name
        self.eps, self.max, self.min = float(limits.eps), float(limits.max), float(limits.min)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        self.resolution = 10.0**-limits.precision

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo(metaclass=_Kept):
    """The limits of an integer dtype."""

    def __init__(self, type: DType | None):
        if not isinstance(type, DType) or type.kind not in ("int", "uint"):
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type}'")
        limits = np.iinfo(type.numpy)  # type: ignore[type-var]
        self.bits, self.dtype = type.bits, type.name
        self.max, self.min = int(limits.max), int(limits.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


class memory_format:
    """How dimensions are ordered in memory."""

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return (format_named, (self.name,))


def format_named(name: str) -> memory_format:
    """A memory format by its name."""
    return globals()[name]


SINGLETONS.add(memory_format)
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
legacy_contiguous_format = contiguous_format
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")


def check_format(name: str, given: Any, rank: int) -> None:
    """Refuse what is no memory format, or not one of tensors of this rank."""
    if given is None:
        return
    if type(given) is not memory_format:
        kind = type(given).__name__
        raise TypeError(f"{name}(): argument 'memory_format' must be torch.memory_format, not {kind}")
    wanted = {channels_last: 4, channels_last_3d: 5}.get(given, rank)
    if rank != wanted:
        raise RuntimeError(f"required rank {wanted} tensor to use {given.name} format")


def keeps_order(given: Any) -> bool:
    """Whether a memory format is that of the tensor that is copied."""
    return given is None or given is preserve_format
