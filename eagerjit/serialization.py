"""Saving and loading: a JSON header that says what there is, followed by the tensors' bytes. Nothing in a file is run.

8 bytes  b"eagerjit"
4 bytes  format version, then 4 bytes CRC-32 of the header (little endian, as all numbers)
8 bytes  length of the header
header   UTF-8 JSON: {"root": value, "tensors": [{"dtype", "shape", "offset", "bytes", "crc"}]}
data     every tensor in row-major order at its offset from the start of the data, aligned to 64 bytes
"""

from __future__ import annotations

import json
import math
import os
import struct
import tempfile
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from eagerjit.conversion import rebuild
from eagerjit.devices import Device
from eagerjit.ops.index import concrete
from eagerjit.runtime import dtypes
from eagerjit.tensor import Parameter, Shape, Tensor

_MAGIC, _VERSION, _ALIGNMENT = b"eagerjit", 1, 64
_PREFIX = struct.Struct("<8sIIQ")


class LoadError(RuntimeError):
    """A file is not what `save` writes, or was damaged."""


# -- values as JSON ---------------------------------------------------------------------------------------------------


class _Writer:
    """Turns values into JSON and collects their tensors, each memory once."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.entries: list[dict[str, Any]] = []
        self.size = 0
        self._known: dict[Any, int] = {}

    def encode(self, value: Any) -> Any:
        """JSON for a value. Objects are single-entry dictionaries whose key says what they are."""
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if isinstance(value, np.generic):
            return self.encode(value.item())
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"float": str(float(value))}
        if isinstance(value, Tensor):
            kind = "parameter" if isinstance(value, Parameter) else "tensor"
            return {kind: [self._tensor(value), value._requires_grad and value._node is None]}
        if isinstance(value, dict):
            kind = "ordered" if isinstance(value, OrderedDict) else "dict"
            return {kind: [[self.encode(k), self.encode(v)] for k, v in value.items()]}
        for kind, type_ in (("size", Shape), ("tuple", tuple), ("list", list), ("set", set)):
            if isinstance(value, type_):
                return {kind: [self.encode(v) for v in value]}
        if isinstance(value, dtypes.DType):
            return {"dtype": value.name}
        if isinstance(value, Device):
            return {"device": str(value)}
        raise TypeError(
            f"cannot save a {type(value).__name__}: files hold tensors, numbers, strings, None, dtypes, and dicts, "
            "lists, tuples and sets of these. Save a module's or optimizer's state_dict()."
        )

    def _tensor(self, tensor: Tensor) -> int:
        array = concrete(tensor, "a tensor was saved")
        key = (array.ctypes.data, array.shape, array.strides, array.dtype)
        if key in self._known:
            return self._known[key]
        data = np.ascontiguousarray(array)
        entry = {
            "dtype": tensor.dtype.name,
            "shape": list(array.shape),
            "offset": self.size,
            "bytes": data.nbytes,
            "crc": zlib.crc32(_bytes(data)),
        }
        self.size += -(-data.nbytes // _ALIGNMENT) * _ALIGNMENT
        self.arrays.append(data)
        self.entries.append(entry)
        self._known[key] = len(self.entries) - 1
        return self._known[key]


def _bytes(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _decode(value: Any, tensors: list[np.ndarray]) -> Any:
    """The inverse of `encode`."""
    if not isinstance(value, (dict, list)):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise LoadError("the header holds a value of an unknown form")
    ((kind, content),) = value.items()
    if kind == "float":
        return float(content)
    if kind == "dtype":
        return dtypes.by_name(content)
    if kind == "device":
        return Device(content)
    if not isinstance(content, list):
        raise LoadError(f"the header holds a {kind} of an unknown form")
    if kind in ("tensor", "parameter"):
        index, requires_grad = content
        if not isinstance(index, int) or not 0 <= index < len(tensors):
            raise LoadError(f"the header refers to tensor {index} of {len(tensors)}")
        return rebuild(Parameter if kind == "parameter" else Tensor, tensors[index], bool(requires_grad))
    if kind in ("dict", "ordered"):
        items = [(_decode(k, tensors), _decode(v, tensors)) for k, v in content]
        return dict(items) if kind == "dict" else OrderedDict(items)
    types = {"list": list, "tuple": tuple, "set": set, "size": Shape}
    if kind not in types:
        raise LoadError(f"the header holds an unknown kind of value: {kind!r}")
    return types[kind](_decode(v, tensors) for v in content)


# -- files ------------------------------------------------------------------------------------------------------------


def save(obj: Any, f: Any) -> None:
    """Write tensors and plain Python data to a path or an open binary file.

    A path is written beside itself and then replaced, so that it never holds half a file. Raises TypeError for objects
    that are neither tensors nor plain data.
    """
    writer = _Writer()
    root = writer.encode(obj)
    header = json.dumps({"root": root, "tensors": writer.entries}, separators=(",", ":"), allow_nan=False).encode()
    if hasattr(f, "write"):
        _write(f, header, writer)
        return
    path = Path(f)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _write(file, header, writer)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _write(file: BinaryIO, header: bytes, writer: _Writer) -> None:
    file.write(_PREFIX.pack(_MAGIC, _VERSION, zlib.crc32(header), len(header)))
    file.write(header)
    for array in writer.arrays:
        file.write(_bytes(array))
        file.write(bytes(-array.nbytes % _ALIGNMENT))


def load(f: Any, map_location: Any = None, weights_only: bool = True) -> Any:
    """Read what `save` wrote. Raises LoadError, saying what is wrong, for files that are damaged or something else."""
    if map_location is not None and not callable(map_location) and not isinstance(map_location, dict):
        Device(map_location)
    if hasattr(f, "read"):
        return _read(f, "the file")
    with open(f, "rb") as file:
        return _read(file, str(f))


def _read(file: BinaryIO, name: str) -> Any:
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size or prefix[:8] != _MAGIC:
        raise LoadError(f"{name} is not a file that eagerjit.save wrote")
    _, version, crc, length = _PREFIX.unpack(prefix)
    if version != _VERSION:
        raise LoadError(f"{name} has format version {version}; this eagerjit reads version {_VERSION}")
    data = file.read()
    if length > len(data):
        raise LoadError(f"{name} is truncated: its header should have {length} bytes")
    header = data[:length]
    if zlib.crc32(header) != crc:
        raise LoadError(f"{name} is damaged: its header's checksum does not match")
    try:
        content = json.loads(header)
        tensors = [_array(entry, memoryview(data)[length:]) for entry in content["tensors"]]
        return _decode(content["root"], tensors)
    except LoadError as error:
        raise LoadError(f"{name}: {error}") from None
    except (ValueError, TypeError, LookupError, RuntimeError, AttributeError) as error:
        raise LoadError(f"{name} has a header that makes no sense: {type(error).__name__}: {error}") from None


def _array(entry: dict[str, Any], data: memoryview) -> np.ndarray:
    """One tensor's array, in memory of its own."""
    dtype, shape = dtypes.by_name(entry["dtype"]), tuple(entry["shape"])
    offset, size = entry["offset"], entry["bytes"]
    if not all(isinstance(d, int) and d >= 0 for d in (*shape, offset, size)):
        raise LoadError("a tensor's place in the file is not a number")
    if math.prod(shape) * dtype.itemsize != size:
        raise LoadError(f"a tensor of shape {list(shape)} and dtype {dtype.name} cannot have {size} bytes")
    if offset + size > len(data):
        raise LoadError(f"the file is truncated: a tensor ends at byte {offset + size} of {len(data)}")
    part = data[offset : offset + size]
    if zlib.crc32(part) != entry["crc"]:
        raise LoadError("the file is damaged: a tensor's checksum does not match")
    return np.frombuffer(bytearray(part), np.uint8).view(dtype.numpy).reshape(shape)
