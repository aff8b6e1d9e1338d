"""What a cubin says of its kernel: an ELF file whose sections `.nv.info` list numbers under codes."""

from __future__ import annotations

import struct
from collections.abc import Iterator

REGISTERS, FRAME, PARAMETER = 0x2F, 0x11, 0x17
"""Codes: registers of a thread; bytes of its own memory, where values lie that found no register; a parameter."""
VALUE = 4
"""The format of an entry that has a number of bytes and as many bytes; others are four bytes in all."""
INFO = b".nv.info"


def resources(cubin: bytes) -> tuple[int, int]:
    """(registers of a thread, bytes of its own memory)."""
    found = {REGISTERS: 0, FRAME: 0}
    for code, payload in _entries(cubin, INFO):
        if code in found and len(payload) == 8:
            found[code] = max(found[code], struct.unpack("<II", payload)[1])
    return found[REGISTERS], found[FRAME]


def parameters(cubin: bytes, kernel: str) -> tuple[int, ...]:
    """Bytes of each of a kernel's parameters in order, those that a compiler adds too; RuntimeError without the kernel.

    An entry is a word, the parameter's number and its offset in 16 bits each, and a word whose upper 14 bits are its
    size.
    """
    section = INFO + b"." + kernel.encode()
    entries = [payload for code, payload in _entries(cubin, section) if code == PARAMETER]
    sizes = {number: word >> 18 for _, number, _, word in (struct.unpack("<IHHI", entry) for entry in entries)}
    if not sizes or sorted(sizes) != list(range(len(sizes))):
        raise RuntimeError(f"the machine code does not say which parameters {kernel} has")
    return tuple(sizes[number] for number in range(len(sizes)))


def _sections(cubin: bytes, name: bytes) -> Iterator[bytes]:
    """The contents of the sections of a name."""
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + size * i) for i in range(count)]
    texts = headers[names][4]
    for title, _, _, _, offset, length in headers:
        start = texts + title
        if cubin[start : cubin.index(b"\0", start)] == name:
            yield cubin[offset : offset + length]


def _entries(cubin: bytes, section: bytes) -> Iterator[tuple[int, bytes]]:
    """(code, payload) of every entry."""
    for data in _sections(cubin, section):
        at = 0
        while at + 4 <= len(data):
            kind, code, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if kind == VALUE:
                yield code, data[at : at + size]
                at += size
