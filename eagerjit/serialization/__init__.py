"""Saving and loading in PyTorch's file formats. Nothing that a file says is ever run."""

from __future__ import annotations

import importlib
import io
import os
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from eagerjit.devices import Device
from eagerjit.runtime.meta_array import meta_array
from eagerjit.serialization import archive, legacy
from eagerjit.serialization.known import (
    Known,
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from eagerjit.serialization.reader import get_unsafe_globals_in_checkpoint
from eagerjit.serialization.saving import Writer
from eagerjit.serialization.storages import FileStorage, StorageType
from eagerjit.serialization.unpickle import LoadError, Unpickler
from eagerjit.tensors.placement import NOWHERE, array_at, wanted

MAP_LOCATION: TypeAlias = Any
DEFAULT_PROTOCOL = 2

__all__ = [
    "DEFAULT_PROTOCOL", "MAP_LOCATION", "LoadError", "add_safe_globals", "clear_safe_globals", "get_safe_globals",
    "get_unsafe_globals_in_checkpoint", "load", "safe_globals", "save",
]  # fmt: skip


def save(
    obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False,
) -> None:  # fmt: skip
    """Write an object to a path or an open binary file, for `load` here and in PyTorch.

    Tensors, numbers, text and containers of these can be read anywhere, objects of classes where these are known. Views
    of one memory share it when they are read. A path is written beside itself and then replaced, so that it never holds
    half a file. Raises RuntimeError if its folder does not exist.
    It is an archive in any case, as PyTorch reads since 1.6.
    """
    writer = Writer()
    writer.dump(obj)
    pickled = writer.out.getvalue()
    if hasattr(f, "write"):
        archive.write(f, pickled, writer.memories)
        return
    if not isinstance(f, (str, os.PathLike)):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    path = Path(f)
    if path.exists() and not path.is_file():
        with open(path, "wb") as file:
            archive.write(file, pickled, writer.memories)
        return
    if not path.parent.is_dir():
        raise RuntimeError(f"Parent directory {path.parent} does not exist.")
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            archive.write(file, pickled, writer.memories)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def normalize_storage_type(storage_type: type) -> Any:
    """The kind of memory that `torch` has under a class's name."""
    return getattr(importlib.import_module("eagerjit"), storage_type.__name__)


_UNPICKLING = frozenset(("encoding", "errors", "fix_imports", "buffers"))
"""Options of Python's unpickler."""


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what `save`, or `torch.save` of any version since 0.4, wrote.

    Data, tensors and arrays are read, and instances of classes that `add_safe_globals` names. `weights_only=False` is
    for files that you trust: as Python's own pickles they import what they name, and call it. `map_location` is needed
    for tensors of other devices; `mmap` reads a path's tensors when they are used. Raises LoadError, saying what is
    wrong, for files that are damaged or something else, EOFError for empty ones, TypeError for options that unpicklers
    do not have; texts of Python 2 are read as UTF-8 whatever they say.
    """
    known, locate = Known(trusted=weights_only is False), _Locations(map_location)
    if hasattr(f, "read"):
        if mmap:
            raise ValueError("f must be a string or os.PathLike object in order to use mmap argument")
        return _read(f, "the file", known, locate, options=pickle_load_args)
    if not isinstance(f, (str, os.PathLike)):
        raise AttributeError(f"'{type(f).__name__}' object has no attribute 'seek': no path and no file to be read")
    with open(f, "rb") as file:
        return _read(file, str(f), known, locate, bool(mmap), pickle_load_args)


def _read(
    file: Any, name: str, known: Known, locate: _Locations, memory: bool = False, options: Collection[str] = ()
) -> Any:
    if unknown := set(options) - _UNPICKLING:
        raise TypeError(f"load() got an unexpected keyword argument '{min(unknown)}'")
    if not (hasattr(file, "readinto") and hasattr(file, "seek") and file.seekable()):
        file = io.BytesIO(file.read())
    begin = file.tell()
    first = file.read(4)
    if not first and not memory:
        raise EOFError(f"{name} cannot be loaded: it is empty")
    is_archive = first == b"PK\x03\x04"
    file.seek(begin)
    try:
        if is_archive:
            return _read_archive(archive.Archive(file, memory), known, locate)
        if memory:
            raise LoadError("mmap can only be used with files saved with torch.save of version 1.6 or newer")
        return legacy.load(memoryview(file.read()), known, locate)  # type: ignore[arg-type]
    except LoadError as error:
        raise LoadError(f"{name} cannot be loaded: {error}") from None


def _read_archive(source: archive.Archive, known: Known, locate: _Locations) -> Any:
    storages: dict[str, FileStorage] = {}

    def storage(identity: Any) -> FileStorage:
        if not isinstance(identity, tuple) or len(identity) != 5 or identity[0] != "storage":
            raise LoadError("it refers to something of an unknown kind")
        _, kind, key, location, count = identity
        if not isinstance(kind, StorageType) or not isinstance(key, str) or type(count) is not int:
            raise LoadError("it describes memory in a form that makes no sense")
        place = locate(location)
        if key not in storages:
            nowhere = place is NOWHERE  # such memory is not read
            data = meta_array((count * kind.itemsize,), np.dtype(np.uint8)) if nowhere else source.memory(f"data/{key}")
            if len(data) < count * kind.itemsize:
                raise LoadError(f"it is damaged: memory {key} has {len(data)} bytes instead of {count * kind.itemsize}")
            storages[key] = FileStorage(data, kind.dtype, None, array_at(data, place))
        found = storages[key]
        return found if found.dtype is kind.dtype else FileStorage(found.data, kind.dtype, found.shared, found.memory)

    pickled = source.read("data.pkl").data
    return Unpickler(pickled, known, storage).load()


class _Shown:
    """What a function given as `map_location` sees of memory: it says where the memory is to lie."""

    def __init__(self, device: Any = "cpu"):
        self.device = device

    def cuda(self, device: Any = "cuda", *options: Any) -> _Shown:
        """Memory on a device."""
        return _Shown(f"cuda:{device}" if isinstance(device, int) else device)

    def cpu(self) -> _Shown:
        """Memory of the host."""
        return _Shown()


class _Locations:
    """Where tensors that a file says to lie somewhere are put, as `map_location` has it."""

    def __init__(self, asked: Any):
        self.asked, self.is_fixed = asked, asked is not None and not callable(asked) and not isinstance(asked, dict)
        if isinstance(asked, Device):
            self.is_fixed = True
        self.place = wanted(asked) if self.is_fixed else None

    def __call__(self, location: Any) -> Device | None:
        """The device, None for the host; LoadError for a location whose tensors cannot be had."""
        location = str(location)
        if self.is_fixed:
            return self.place
        if isinstance(self.asked, dict):
            location = str(self.asked.get(location, location))
        elif self.asked is not None:
            found = self.asked(_Shown(), location)
            location = location if found is None else str(found.device)
        if location.partition(":")[0] in ("cpu", ""):
            return None
        try:
            return wanted(location)
        except (AssertionError, RuntimeError) as error:
            raise LoadError(
                f"it holds tensors of the device {location}, which is not here ({error}). Use "
                "eagerjit.load with map_location=eagerjit.device('cpu') to map them to the CPU."
            ) from None
