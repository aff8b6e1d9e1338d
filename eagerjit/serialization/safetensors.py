"""Files of safetensors: the length of a header, the header as JSON, the bytes of all tensors.

https://github.com/huggingface/safetensors describes the format; its checks on names, sizes and gaps are all made here.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from eagerjit.ops.index import concrete
from eagerjit.runtime import dtypes
from eagerjit.serialization.unpickle import LoadError
from eagerjit.tensors.placement import moved, wanted
from eagerjit.tensors.tensor import Tensor, new_tensor

_LONGEST_HEADER = 100_000_000
_CODES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
    "uint16": "U16", "uint32": "U32", "uint64": "U64", "float16": "F16", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
    "float32": "F32", "float64": "F64", "complex64": "C64",
}  # fmt: skip
_NAMES = {code: name for name, code in _CODES.items()}


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file with named tensors. Raises TypeError for other values, ValueError for unknown dtypes."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    parts, end = [], 0
    # The largest items come first, so that each begins at a multiple of its size.
    for name, tensor in sorted(tensors.items(), key=lambda item: _order(*item)):
        data = np.ascontiguousarray(concrete(tensor, "a tensor was saved")).reshape(-1).view(np.uint8)
        begin, end = end, end + data.nbytes
        header[name] = {
            "dtype": _CODES[tensor.dtype.name],
            "shape": list(map(int, tensor.shape)),
            "data_offsets": [begin, end],
        }
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *(part.tobytes() for part in parts)])


def _order(name: str, tensor: Any) -> tuple[int, str]:
    if not isinstance(name, str) or not isinstance(tensor, Tensor):
        raise TypeError(f"safetensors hold tensors by name, not a {type(tensor).__name__} under {name!r}")
    if tensor.dtype.name not in _CODES:
        raise ValueError(f"safetensors have no dtype {tensor.dtype}")
    return -tensor.dtype.itemsize, name


def save_file(
    tensors: Mapping[str, Tensor], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a file with named tensors."""
    Path(filename).write_bytes(save(tensors, metadata))


def load(data: bytes) -> dict[str, Tensor]:
    """The named tensors in the bytes of a file. Raises LoadError for anything that is none."""
    return _File(np.frombuffer(bytearray(data), np.uint8)).all()


def load_file(filename: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Tensor]:
    """The named tensors in a file. Raises LoadError for anything that is none."""
    place = wanted(device)
    try:
        return {name: moved(x, place) for name, x in _File(np.fromfile(filename, np.uint8)).all().items()}
    except LoadError as error:
        raise LoadError(f"{filename} cannot be loaded: {error}") from None


def save_model(model: Any, filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Write the parameters and buffers of a Module."""
    save_file(model.state_dict(), filename, metadata)


def load_model(model: Any, filename: str | os.PathLike[str], strict: bool = True, device: Any = "cpu") -> Any:
    """Give a Module the parameters and buffers in a file; returns the names that are missing and unexpected."""
    return model.load_state_dict(load_file(filename, device), strict)


def storage_ptr(tensor: Tensor) -> int:
    """The address of the memory that a tensor shares with its views; 0 for none."""
    return tensor.untyped_storage().data_ptr()


def storage_size(tensor: Tensor) -> int:
    """The bytes of that memory."""
    return tensor.untyped_storage().nbytes()


class safe_open:
    """A file of which single tensors are read: `with safe_open(path, "pt") as f: f.get_tensor(name)`."""

    def __init__(self, filename: str | os.PathLike[str], framework: str = "pt", device: Any = "cpu"):
        self._place = wanted(device)
        self._file = _File(np.memmap(filename, np.uint8, "c") if os.path.getsize(filename) else np.empty(0, np.uint8))

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *exc: object) -> None:
        """The file stays mapped as long as a tensor of it is alive."""

    def keys(self) -> list[str]:
        """The names of all tensors."""
        return list(self._file.entries)

    def metadata(self) -> dict[str, str] | None:
        """What the file says about itself."""
        return self._file.metadata

    def get_tensor(self, name: str) -> Tensor:
        """One tensor."""
        return moved(self._file.tensor(name), self._place)

    def get_slice(self, name: str) -> Tensor:
        """One tensor to take a part of: the rest is not read where it lies on the host."""
        return self.get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise LoadError("its header has a name twice")
    return dict(pairs)


class _File:
    """The bytes of a file, taken apart."""

    def __init__(self, data: np.ndarray):
        if len(data) < 8:
            raise LoadError("it is too short for a file of safetensors")
        (length,) = struct.unpack("<Q", data[:8].tobytes())
        if length > min(_LONGEST_HEADER, len(data) - 8):
            raise LoadError(f"it is no file of safetensors, or truncated: its header should have {length} bytes")
        try:
            header = json.loads(data[8 : 8 + length].tobytes(), object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise LoadError(f"its header is no JSON: {error}") from None
        if not isinstance(header, dict):
            raise LoadError("its header is no JSON object")
        self.metadata: dict[str, str] | None = header.pop("__metadata__", None)
        self.data = data[8 + length :]
        self.entries = {name: self._checked(name, entry) for name, entry in header.items()}
        end = 0
        for _, _, begin, stop in sorted(self.entries.values(), key=lambda e: (e[2], e[3])):
            if begin != end:
                raise LoadError("its tensors overlap or leave gaps")
            end = stop
        if end != len(self.data):
            raise LoadError(f"it is truncated or too long: {len(self.data)} bytes of tensors instead of {end}")

    @staticmethod
    def _checked(name: str, entry: Any) -> tuple[dtypes.DType, tuple[int, ...], int, int]:
        try:
            code, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        except (TypeError, KeyError, ValueError):
            raise LoadError(f"its header describes {name} in a form that makes no sense") from None
        if not isinstance(code, str) or _NAMES.get(code) not in dtypes.BY_NAME:
            raise LoadError(f"{name} has the dtype {code}, which eagerjit does not have")
        dtype = dtypes.BY_NAME[_NAMES[code]]
        numbers = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
        if not numbers or math.prod(shape) * dtype.itemsize != end - begin:
            raise LoadError(
                f"{name} of shape {list(shape)} and dtype {dtype.name} cannot lie at bytes {begin} to {end}"
            )
        return dtype, shape, begin, end

    def tensor(self, name: str) -> Tensor:
        """One tensor over the file's bytes."""
        if name not in self.entries:
            raise LoadError(f"File does not contain tensor {name}")
        dtype, shape, begin, end = self.entries[name]
        part = self.data[begin:end].view(np.ndarray)
        if part.ctypes.data % dtype.itemsize:
            part = part.copy()
        try:
            return new_tensor(part.view(dtype.numpy).reshape(shape))
        except ValueError as error:
            raise LoadError(f"{name} has a shape that cannot be: {error}") from None

    def all(self) -> dict[str, Tensor]:
        """Every tensor."""
        return {name: self.tensor(name) for name in self.entries}
