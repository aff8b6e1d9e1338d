"""Object code linked into images, which load by being copied and told some addresses: without LLVM.

Loading LLVM takes half of the time of a process's first call; one whose code lies on the disk has no other use of it.
An image is a head (JSON behind its length) and memory: code and constants, then from a page's start what is written.
All distances inside are settled. Addresses, of what is inside or elsewhere, lie in 8-byte words only, most of them in a
table, which are filled in when the image is loaded; code that calls what is elsewhere jumps there by a stub.

Only objects of ELF for x86-64 and AArch64 are linked, as LLVM makes them of position-independent code; what they ask
for is in `relocations.py`.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from struct import error as StructError
from struct import iter_unpack, pack_into, unpack_from
from typing import Any, NamedTuple

from eagerjit.runtime.once import innermost, once
from eagerjit.runtime.relocations import RELOCATIONS, Relocations

SUPPORTED = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
"""Whether objects for this machine can be linked."""

MARK = b"EJIMAGE2"
_LENGTH = 8
_PAGE = mmap.PAGESIZE
_FAILED = ctypes.c_size_t(-1).value

_ALLOCATED, _EXECUTABLE, _WRITTEN = 2, 4, 1  # flags of sections
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8  # kinds of sections
_UNDEFINED, _RESERVED = 0, 0xFF00  # indices of sections


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _Object:
    """An object file: its sections, where they lie in the image, and its symbols."""

    def __init__(self, data: bytes):
        if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
            raise RuntimeError("not an object file of 64-bit ELF")
        self.data = data
        self.processor: int = unpack_from("<H", data, 18)[0]
        (start,), (entry, count, names) = unpack_from("<Q", data, 40), unpack_from("<HHH", data, 58)
        if entry != 64 or start + 64 * count > len(data):
            raise RuntimeError("an object file that ends early")
        self.sections = [_Section(*unpack_from("<IIQQQQIIQQ", data, start + 64 * i)) for i in range(count)]
        self.places: dict[int, int] = {}
        self._names = self.sections[names].offset
        self.symbols = [
            (self._text(section.link, name), info, index, value)
            for section in self.sections
            if section.kind == _SYMBOLS
            for name, info, _, index, value, _ in iter_unpack(
                "<IBBHQQ", data[section.offset : section.offset + section.size]
            )
        ]

    def _text(self, table: int, at: int) -> str:
        start = self.sections[table].offset + at
        return self.data[start : self.data.index(b"\0", start)].decode()

    def name(self, section: _Section) -> str:
        """What a section is called."""
        start = self._names + section.name
        return self.data[start : self.data.index(b"\0", start)].decode()

    def allocated(self) -> list[tuple[int, _Section]]:
        """The sections that belong in memory, by their indices; what unwinds the stack does not: nothing throws."""
        return [
            (index, s)
            for index, s in enumerate(self.sections)
            if s.flags & _ALLOCATED and s.size and self.name(s) != ".eh_frame"
        ]


def _aligned(at: int, alignment: int) -> int:
    return -(-at // alignment) * alignment


class _Linker:
    """Lays out objects and settles what they say of each other."""

    def __init__(self, objects: Sequence[_Object]):
        self._objects = objects
        self._asked = _relocations_of(objects)
        self._table: dict[str | int, int] = {}  # by the name of what is elsewhere, or the place of what is inside
        self._stubs: dict[str, int] = {}
        self._words: list[tuple[int, str | int]] = []  # beside the table
        self._defined: dict[str, int] = {}
        end = self._place(0, lambda s: s.flags & _EXECUTABLE)
        self._first_stub = end = _aligned(end, 16)
        end += len(self._asked.STUB) * self._count(self._asked.CALL)
        end = self._place(end, lambda s: not s.flags & (_EXECUTABLE | _WRITTEN))
        self._first_word = end = _aligned(end, 8)
        self.fixed = _aligned(end + 8 * self._count(self._asked.CALL + self._asked.BY_TABLE), _PAGE)
        self.size = _aligned(self._place(self.fixed, lambda s: s.flags & _WRITTEN), _PAGE)
        self.memory = bytearray(self.size)

    def _place(self, at: int, belongs: Callable[[_Section], int | bool]) -> int:
        """Give the sections that belong here their places; where they end."""
        for one in self._objects:
            for index, section in one.allocated():
                if belongs(section):
                    at = _aligned(at, max(section.alignment, 1))
                    one.places[index] = at
                    at += section.size
        return at

    def _count(self, kinds: Sequence[int]) -> int:
        """The most stubs or words that relocations of these kinds may need."""
        return len({(i, s) for i, one in enumerate(self._objects) for k, s, *_ in self._relocations(one) if k in kinds})

    def linked(self) -> bytes:
        """The image."""
        for one in self._objects:
            for index, place in one.places.items():
                section = one.sections[index]
                if section.kind != _NO_BITS:
                    end = section.offset + section.size
                    self.memory[place : place + section.size] = one.data[section.offset : end]
            for name, info, index, value in one.symbols:
                if info >> 4 and _UNDEFINED < index < _RESERVED and index in one.places:
                    if name in self._defined:
                        raise RuntimeError(f"two objects define {name}")
                    self._defined[name] = one.places[index] + value
        for one in self._objects:
            for kind, symbol, at, addend in self._relocations(one):
                self._settle(one, kind, symbol, at, addend)
        words = [*((word, target) for target, word in self._table.items()), *self._words]
        head = {"size": self.size, "fixed": self.fixed, "symbols": self._defined, "words": words}
        text = json.dumps(head, separators=(",", ":")).encode()
        return MARK + len(text).to_bytes(_LENGTH, "little") + text + bytes(self.memory).rstrip(b"\0")

    def _settle(self, one: _Object, kind: int, symbol: int, at: int, addend: int) -> None:
        """Write the distance that a relocation asks for."""
        name, _, index, value = one.symbols[symbol]
        target: str | int
        if index == _UNDEFINED:
            target = self._defined.get(name, name)
        elif index in one.places:
            target = one.places[index] + value
        else:
            raise RuntimeError(f"{name or 'a symbol'} lies in no section that is in memory")
        asked = self._asked
        if kind in asked.ADDRESS:
            if addend and isinstance(target, str):
                raise RuntimeError(f"a place within {target}, which lies elsewhere")
            self._words.append((at, target + addend if isinstance(target, int) else target))
            return
        if isinstance(target, int) and (kind not in asked.BY_TABLE or asked.takes_address(self.memory, kind, at)):
            place = target
        elif kind in asked.BY_TABLE:
            place = self._word(target)
        elif kind in asked.CALL and isinstance(target, str):
            place = self._stub(target)
        else:
            raise RuntimeError(f"{target} lies elsewhere and is read by its distance")
        asked.put(self.memory, kind, at, place + addend)

    def _word(self, target: str | int) -> int:
        """The place of the word that will hold an address."""
        return self._table.setdefault(target, self._first_word + 8 * len(self._table))

    def _stub(self, name: str) -> int:
        """The place of the code that jumps to what is elsewhere."""
        if name not in self._stubs:
            place = self._stubs[name] = self._first_stub + len(self._asked.STUB) * len(self._stubs)
            self._asked.put_stub(self.memory, place, self._word(name))
        return self._stubs[name]

    def _relocations(self, one: _Object) -> list[tuple[int, int, int, int]]:
        """(kind, symbol, place, addend) of each; RuntimeError for kinds that position-independent code has not."""
        asked, found = self._asked, []
        known = asked.DISTANCE + asked.CALL + asked.BY_TABLE + asked.ADDRESS
        for section in one.sections:
            if section.kind == _RELOCATIONS and section.info in one.places:
                start, end = one.places[section.info], section.offset + section.size
                for offset, info, addend in iter_unpack("<QQq", one.data[section.offset : end]):
                    kind = info & 0xFFFFFFFF
                    if kind not in known:
                        raise RuntimeError(f"a relocation of kind {kind}, which is not linked")
                    found.append((kind, info >> 32, start + offset, addend))
        return found


def _relocations_of(objects: Sequence[_Object]) -> Relocations:
    """Those of the processor that all of the objects are for."""
    processors = {one.processor for one in objects}
    if len(processors) != 1 or not processors <= RELOCATIONS.keys():
        raise RuntimeError(f"objects for processors that are not linked: {sorted(processors)}")
    return RELOCATIONS[processors.pop()]


def link(*objects: bytes) -> bytes:
    """The image of objects; RuntimeError for what is no object, or has what is not linked."""
    try:
        return _Linker([_Object(one) for one in objects]).linked()
    except (ValueError, IndexError, StructError) as error:
        raise RuntimeError(f"an object file that makes no sense: {error}") from error


# -- loading ----------------------------------------------------------------------------------------------------------


class Image:
    """An image in memory, which stays until `unload`: threads may run its code when the interpreter has gone."""

    __slots__ = ("_head", "base", "memory", "symbols")

    def __init__(self, data: bytes):
        start = len(MARK) + _LENGTH
        end = start + int.from_bytes(data[len(MARK) : start], "little")
        self._head = json.loads(data[start:end])
        self.symbols: dict[str, int] = self._head["symbols"]
        size = self._head["size"]
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # a fork has what is written for itself
        self.base = _process().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if self.base == _FAILED:
            raise MemoryError(f"no {size} bytes for machine code")
        self.memory = (ctypes.c_char * size).from_address(self.base)
        self.memory[: len(data) - end] = data[end:]

    def settle(self, addresses: Mapping[str, int]) -> None:
        """Fill in the table, of what is elsewhere by `addresses` or from this process, and make the code executable."""
        for word, target in self._head["words"]:
            place = self.base + target if isinstance(target, int) else addresses.get(target) or _of_process(target)
            if not place:
                raise RuntimeError(f"machine code uses {target}, which is nowhere to be found")
            pack_into("<Q", self.memory, word, place)
        if _process().mprotect(self.base, self._head["fixed"], mmap.PROT_READ | mmap.PROT_EXEC):
            raise RuntimeError("the operating system does not let memory be executed")
        _show_code(self.base, self._head["fixed"])


@partial(once, lock=innermost)
def _process() -> Any:
    process = ctypes.CDLL(None)
    where = ctypes.c_void_p, ctypes.c_size_t
    process.mmap.argtypes = *where, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
    process.mmap.restype = ctypes.c_size_t
    process.munmap.argtypes, process.mprotect.argtypes = where, (*where, ctypes.c_int)
    process.dlsym.argtypes, process.dlsym.restype = (ctypes.c_void_p, ctypes.c_char_p), ctypes.c_void_p
    return process


def _show_code(begin: int, size: int) -> None:
    """Let the processor see new code, which on x86-64 it does by itself."""
    if platform.machine() == "aarch64":
        _compiler_support().__clear_cache(ctypes.c_void_p(begin), ctypes.c_void_p(begin + size))


@partial(once, lock=innermost)
def _compiler_support() -> Any:
    return ctypes.CDLL("libgcc_s.so.1")


def _of_process(name: str) -> int | None:
    return _process().dlsym(None, name.encode())


def load(images: Sequence[bytes], symbols: Mapping[str, int]) -> list[Image]:
    """Images that use each other, in memory. What they lack comes from `symbols`, then from this process (libc, libm,
    CPython); RuntimeError where it is in neither."""
    loaded = [Image(data) for data in images]
    addresses = dict(symbols)
    for image in loaded:
        addresses |= {name: image.base + place for name, place in image.symbols.items()}
    try:
        for image in loaded:
            image.settle(addresses)
    except RuntimeError:
        unload(loaded)
        raise
    return loaded


def unload(loaded: Sequence[Image]) -> None:
    """Unmap images; nothing may run there any more."""
    for image in loaded:
        _process().munmap(image.base, ctypes.sizeof(image.memory))
