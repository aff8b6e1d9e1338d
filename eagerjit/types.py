"""Names for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import Any, TypeAlias, Union

from eagerjit.devices import Device as _device
from eagerjit.recording.numbers import SymbolicInt as SymInt
from eagerjit.recording.numbers import TracedFloat as SymFloat
from eagerjit.runtime.dtypes import DType as _dtype
from eagerjit.tensors.tensor import Shape, Tensor

__all__ = ["Device", "FileLike", "IntLikeType", "Number", "Size", "Storage", "SymBool", "SymFloat", "SymInt", "Tensor"]


class SymBool:
    """What PyTorch calls a condition on traced numbers; nothing is an instance, as conditions here are Python's."""



_TensorOrTensors: TypeAlias = Union[Tensor, Sequence[Tensor]]  # noqa: UP007
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_size: TypeAlias = Union[Shape, list[int], tuple[int, ...]]  # noqa: UP007
Size = Shape
Number: TypeAlias = Union[int, float, bool]  # noqa: UP007
Device: TypeAlias = Union[_device, str, int, None]  # noqa: UP007
FileLike: TypeAlias = Union[str, os.PathLike[str], Any]  # noqa: UP007
IntLikeType: TypeAlias = int
Storage: TypeAlias = Any
dtype, device = _dtype, _device
