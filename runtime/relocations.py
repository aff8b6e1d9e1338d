"""What object code asks of its linker, by processor: relocations of ELF, and code that jumps to what is elsewhere.

Sources of the formulas: System V ABI, AMD64 Architecture Processor Supplement, 4.4 (Relocation); ELF for the Arm 64-bit
Architecture, 5.7 (Relocation).
"""

from __future__ import annotations

from struct import pack_into, unpack_from
from typing import Protocol


class Relocations(Protocol):
    """Kinds of relocations of one processor, and what is written for each."""

    DISTANCE: tuple[int, ...]
    """Where what is inside lies."""
    CALL: tuple[int, ...]
    """The same of code, which may be elsewhere."""
    BY_TABLE: tuple[int, ...]
    """Where the word lies that holds an address."""
    ADDRESS: tuple[int, ...]
    """An address in a word of eight bytes."""
    STUB: bytes
    """Code that jumps where a word says."""

    def put(self, memory: bytearray, kind: int, at: int, target: int) -> None:
        """Write of a place in the same memory what a relocation of this kind at `at` asks for."""

    def put_stub(self, memory: bytearray, at: int, word: int) -> None:
        """Write the code that jumps where the word at a place says."""

    def takes_address(self, memory: bytearray, kind: int, at: int) -> bool:
        """Whether what loads an address from the table could be made to compute it, and is by now."""
        return False


class _X86(Relocations):
    DISTANCE, CALL, BY_TABLE, ADDRESS = (2,), (4,), (9, 41, 42), (1,)
    # PC32; PLT32; GOTPCREL, GOTPCRELX, REX_GOTPCRELX; 64
    STUB = b"\xff\x25\0\0\0\0\xcc\xcc"  # jmp *distance(%rip)

    _MAY_BE_TAKEN, _LOAD, _TAKE_ADDRESS = (41, 42), 0x8B, 0x8D  # mov, lea

    def put(self, memory: bytearray, kind: int, at: int, target: int) -> None:
        pack_into("<i", memory, at, target - at)

    def put_stub(self, memory: bytearray, at: int, word: int) -> None:
        memory[at : at + len(self.STUB)] = self.STUB
        pack_into("<i", memory, at + 2, word - (at + 6))

    def takes_address(self, memory: bytearray, kind: int, at: int) -> bool:
        if kind not in self._MAY_BE_TAKEN or memory[at - 2] != self._LOAD:
            return False
        memory[at - 2] = self._TAKE_ADDRESS
        return True


_UNITS = {277: 1, 278: 1, 284: 2, 285: 4, 286: 8, 299: 16, 312: 8}
"""In which AArch64's instructions tell a place in a page, by the kind of relocation."""


class _Arm(Relocations):
    DISTANCE, CALL, BY_TABLE, ADDRESS = (261, 275, 277, 278, 284, 285, 286, 299), (282, 283), (311, 312), (257,)
    # PREL32, ADR_PREL_PG_HI21, ADD_ABS_LO12_NC, LDST{8,16,32,64,128}_ABS_LO12_NC; JUMP26, CALL26; ADR_GOT_PAGE,
    # LD64_GOT_LO12_NC; ABS64
    STUB = b"\x10\0\0\x90\x11\x02\x40\xf9\x20\x02\x1f\xd6"
    # adrp x16, page; ldr x17, [x16, place]; br x17

    _PLAIN, _PAGES, _JUMPS = 261, (275, 311), (282, 283)
    _PAGE_OF_WORD, _PLACE_OF_WORD = BY_TABLE

    def put(self, memory: bytearray, kind: int, at: int, target: int) -> None:
        if kind == self._PLAIN:
            pack_into("<i", memory, at, target - at)
        elif kind in self._PAGES:
            pages = (target >> 12) - (at >> 12)
            self._put_field(memory, at, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)
        elif kind in self._JUMPS:
            if not -(1 << 27) <= target - at < 1 << 27:
                raise RuntimeError(f"a jump over {target - at} bytes")
            self._put_field(memory, at, target - at >> 2 & 0x3FFFFFF)
        else:
            self._put_field(memory, at, (target & 0xFFF) // _UNITS[kind] << 10)

    def put_stub(self, memory: bytearray, at: int, word: int) -> None:
        memory[at : at + len(self.STUB)] = self.STUB
        self.put(memory, self._PAGE_OF_WORD, at, word)
        self.put(memory, self._PLACE_OF_WORD, at + 4, word)

    def _put_field(self, memory: bytearray, at: int, field: int) -> None:
        """Add what an instruction leaves open."""
        pack_into("<I", memory, at, unpack_from("<I", memory, at)[0] | field)


RELOCATIONS: dict[int, Relocations] = {62: _X86(), 183: _Arm()}
"""By ELF's number of the processor."""
