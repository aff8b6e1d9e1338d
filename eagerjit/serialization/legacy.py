"""Files of `torch.save` before version 1.6: pickles in a row, then the bytes of each memory with its length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.runtime.dtypes import DType
from eagerjit.serialization.known import Known
from eagerjit.serialization.storages import FileStorage, StorageType
from eagerjit.serialization.unpickle import LoadError, Unpickler
from eagerjit.tensors.placement import array_at, store

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


class _Reader:
    """One file, from its beginning to its end."""

    def __init__(self, data: memoryview, known: Known, locate: Callable[[Any], None]):
        self.data, self.known, self.locate = data, known, locate
        self.position = 0
        self.left = len(data)
        self.storages: dict[str, FileStorage] = {}

    def pickle(self, persistent: Callable[[Any], Any]) -> Any:
        """The next pickle."""
        reader = Unpickler(self.data, self.known, persistent, self.position)
        value = reader.load()
        self.position = reader.position
        return value

    def storage(self, identity: Any) -> Any:
        """Memory by its description; its bytes come later in the file."""
        if not isinstance(identity, tuple) or len(identity) < 5:
            raise LoadError("it refers to something of an unknown kind")
        if identity[0] == "module":
            return identity[1]
        kind, key, location, count = identity[1:5]
        if not isinstance(kind, StorageType) or type(count) is not int or not isinstance(key, str):
            raise LoadError("it describes memory in a form that makes no sense")
        place = self.locate(location)
        if key not in self.storages:
            size = count * kind.itemsize
            self.left -= size
            if count < 0 or self.left < 0:
                raise LoadError(f"it is truncated: {size} bytes of memory are missing")
            data = np.empty(size, np.uint8)
            self.storages[key] = FileStorage(data, kind.dtype, None, array_at(data, place))
        view = identity[5] if len(identity) > 5 else None
        return self.storages[key] if view is None else self.storages[key].part(int(view[1]), int(view[2]))

    def fill(self, storage: FileStorage) -> None:
        """Read the bytes of a memory."""
        head = self.data[self.position : self.position + 8]
        begin, end = self.position + 8, self.position + 8 + len(storage.data)
        if len(head) < 8 or end > len(self.data):
            raise LoadError("it is truncated")
        if int.from_bytes(head, "little") * _itemsize(storage.dtype) != len(storage.data):
            raise LoadError("it is damaged: the lengths of a memory differ")
        storage.data[:] = np.frombuffer(self.data[begin:end], np.uint8)
        if storage.memory is not storage.data:
            store(storage.memory, storage.data)
        self.position = end


def _itemsize(dtype: DType | None) -> int:
    return 1 if dtype is None else dtype.itemsize


def _nothing(identity: Any) -> Any:
    raise LoadError("it refers to memory where none is described")


def load(data: memoryview, known: Known, locate: Callable[[Any], None]) -> Any:
    """The object in a file. Raises LoadError for anything that is none."""
    reader = _Reader(data, known, locate)
    try:
        magic = reader.pickle(_nothing)
    except LoadError:
        magic = None
    if magic != _MAGIC:
        raise LoadError("it is no file of torch.save or eagerjit.save")
    if reader.pickle(_nothing) != _PROTOCOL:
        raise LoadError("it has an unknown version")
    machine = reader.pickle(_nothing)
    if not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise LoadError("it was written on a machine with another byte order")
    value = reader.pickle(reader.storage)
    keys = reader.pickle(_nothing)
    if not isinstance(keys, list) or not set(map(str, keys)) >= reader.storages.keys():
        raise LoadError("it is damaged: the list of its memories is incomplete")
    for key in keys:
        if key not in reader.storages:
            raise LoadError("it is damaged: it has memory that nothing refers to")
        reader.fill(reader.storages[key])
    return value
