"""Files of `save`: a zip archive of uncompressed records, each aligned to 64 bytes.

archive/data.pkl       the object, a pickle that refers to memory by number
archive/data/0 ...     the bytes of each memory
archive/byteorder      little
archive/version        3
"""

from __future__ import annotations

import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from eagerjit.serialization.unpickle import LoadError

_ALIGNMENT = 64
_HEADER = struct.Struct("<4s22xHH")
_ROOT = "archive"


def write(file: BinaryIO, pickled: bytes, memories: Mapping[str, np.ndarray]) -> None:
    """Write an archive; memories are arrays of bytes by number."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _record(archive, "data.pkl", memoryview(pickled))
        _record(archive, "byteorder", memoryview(b"little"))
        for key, data in memories.items():
            _record(archive, f"data/{key}", data.data)
        _record(archive, "version", memoryview(b"3\n"))


def _record(archive: zipfile.ZipFile, name: str, data: memoryview) -> None:
    """Add a record whose bytes begin at a multiple of 64."""
    info = zipfile.ZipInfo(f"{_ROOT}/{name}")
    info.file_size = data.nbytes
    large = 20 if data.nbytes * 1.05 > zipfile.ZIP64_LIMIT else 0  # what zipfile adds for sizes beyond 32 bits
    begin = archive.start_dir + _HEADER.size + len(info.filename) + 4 + large
    padding = -begin % _ALIGNMENT
    info.extra = b"FB" + struct.pack("<H", padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=bool(large)) as record:
        record.write(data)


class Archive:
    """An archive to read. `memory` maps the file instead of reading it, so that pages come when they are used."""

    def __init__(self, file: Any, memory: bool = False):
        self.file = file
        self.size = file.seek(0, os.SEEK_END)
        try:
            self.records = {i.filename: i for i in zipfile.ZipFile(file).infolist()}
        except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, struct.error) as error:
            raise LoadError(f"it is no complete zip archive: {error}") from None
        roots = [name.removesuffix("data.pkl") for name in self.records if name.endswith("data.pkl")]
        self.root = min(roots, key=len, default="")
        if not roots:
            raise LoadError("it is a zip archive without a record data.pkl")
        if f"{self.root}constants.pkl" in self.records:
            raise LoadError("it holds a TorchScript program; only data that torch.save wrote can be loaded")
        if self.has("byteorder") and self.read("byteorder").tobytes() != b"little":
            raise LoadError("it was written on a machine with another byte order")
        self.mapped = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8) if memory else None
        self.left = self.size

    def has(self, name: str) -> bool:
        """Whether there is a record."""
        return self.root + name in self.records

    def read(self, name: str) -> np.ndarray:
        """The bytes of a record, after a check of their sum."""
        info = self.records.get(self.root + name)
        if info is None:
            raise LoadError(f"its record {name} is missing")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 or info.file_size != info.compress_size:
            raise LoadError(f"its record {name} is compressed or encrypted, which torch.save never does")
        begin = self._begin(info)
        if begin + info.file_size > self.size:
            raise LoadError(f"it is truncated: its record {name} ends at byte {begin + info.file_size} of {self.size}")
        data = np.empty(info.file_size, np.uint8)
        self.file.seek(begin)
        if info.file_size and self.file.readinto(data.data) != info.file_size:
            raise LoadError(f"it is truncated in its record {name}")
        if zlib.crc32(data.data) != info.CRC:
            raise LoadError(f"it is damaged: the checksum of its record {name} does not match")
        return data

    def memory(self, name: str) -> np.ndarray:
        """The bytes of a record with elements. All together are no more than the file has."""
        info = self.records.get(self.root + name)
        self.left -= 0 if info is None else info.file_size
        if self.left < 0:
            raise LoadError("its records overlap")
        if self.mapped is None or info is None or info.compress_type != zipfile.ZIP_STORED:
            return self.read(name)
        begin = self._begin(info)
        if begin % 16 or begin + info.file_size > self.size:
            return self.read(name)
        return self.mapped[begin : begin + info.file_size]

    def _begin(self, info: zipfile.ZipInfo) -> int:
        """Where a record's bytes begin, behind its name and padding."""
        self.file.seek(max(0, info.header_offset))
        header = self.file.read(_HEADER.size)
        if info.header_offset < 0 or len(header) < _HEADER.size or header[:4] != b"PK\x03\x04":
            raise LoadError(f"it is damaged: its record {info.filename} has no header")
        _, name, extra = _HEADER.unpack(header)
        return info.header_offset + _HEADER.size + name + extra
