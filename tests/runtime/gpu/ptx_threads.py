"""Threads of a kernel in PTX, all of some blocks at a time: each instruction is done for all that have come to it.

Threads that branch apart are groups with places of their own; the group that is furthest behind goes on, so that they
meet again where their ways do. A barrier is an error where a thread of the same block is elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from ptx_arithmetic import DTYPES, Unknown
from ptx_memory import Global, Shared
from ptx_text import Instruction, PtxKernel

WARP = 32
REGISTERS = {"pred": np.bool_, **{f"{t}{n}": np.dtype(f"u{n // 8}").type for n in (16, 32, 64) for t in "busf"}}
"""What a register of each type holds: bits."""
Array = np.ndarray
Handler = Callable[["Threads", list[str], tuple[str, ...]], None]


def _laid_out(kernel: PtxKernel, values: list[Any]) -> tuple[Array, dict[int, Any]]:
    """The bytes of all parameters, and the tensors' maps by their places among these."""
    data, maps = np.zeros(kernel.parameter_bytes, np.uint8), dict[int, Any]()
    for (size, place), value in zip(kernel.parameters.values(), values, strict=True):
        if isinstance(value, bytes):
            data[place : place + size] = np.frombuffer(value[:size], np.uint8)
        else:
            maps[place] = value
    return data, maps


class Threads:
    """Some blocks' threads: their registers and where they are. `at` are those that an instruction is done for."""

    def __init__(
        self, kernel: PtxKernel, memory: Global, name: str, grid: tuple[int, int, int], blocks: range,
        threads: int, shared: int, values: list[Any], handler: Callable[[str], Handler],
    ):  # fmt: skip
        self.kernel, self.memory, self.name, self.per_block, self.grid = kernel, memory, name, threads, grid
        self.handler = handler
        self.total = len(blocks) * threads
        self.parameters, self.maps = _laid_out(kernel, values)
        self.kinds = {register: REGISTERS[kind] for register, kind in kernel.registers.items()}
        self.state: dict[str, Array] = {}
        self.blocks = np.repeat(np.arange(len(blocks)), threads)
        self.number = np.tile(np.arange(threads, dtype=np.uint32), len(blocks))
        self.grid_number = self.blocks + blocks.start
        self.shared = Shared(len(blocks), kernel.shared_bytes + shared, name)
        self.barriers: dict[tuple[int, int], Any] = {}
        self.phase = np.zeros(len(blocks), np.int32)
        """How many barriers each block has passed."""
        self.at: Array = np.arange(self.total)
        self.whole = True
        self._constants: dict[tuple[str, str, int], Array] = {}

    # -- where threads are ----------------------------------------------------------------------------------------

    def run(self) -> None:
        """From the first instruction until all threads are done."""
        groups = {0: self.at}
        while groups:
            place = min(groups)
            self.go(groups.pop(place))
            place, apart = self._until(place, min(groups, default=1 << 60))
            for where, who in ((place, self.at), *apart):
                if len(who):
                    groups[where] = np.sort(np.concatenate([groups[where], who])) if where in groups else who
            groups.pop(-1, None)

    def go(self, at: Array) -> None:
        """Let instructions be done for these."""
        self.at, self.whole = at, len(at) == self.total

    def _until(self, place: int, limit: int) -> tuple[int, list[tuple[int, Array]]]:
        """Do instructions up to another group's place, or a branch that parts threads."""
        instructions, labels = self.kernel.instructions, self.kernel.labels
        while place < limit:
            if place >= len(instructions):
                return -1, []
            instruction = instructions[place]
            chosen = self._chosen(instruction.predicate)
            opcode = instruction.opcode
            if opcode.startswith("bra") or opcode in ("ret", "exit"):
                target = labels[instruction.operands[0]] if instruction.operands else -1
                if chosen is None or len(chosen) == len(self.at):
                    place = target
                    if place < 0:
                        return place, []
                    if place >= limit:
                        return place, []
                    continue
                if len(chosen):
                    rest = np.setdiff1d(self.at, chosen, assume_unique=True)
                    self.at = rest
                    return place + 1, [(target, chosen)]
                place += 1
                continue
            if chosen is None or len(chosen) == len(self.at):
                self._do(instruction)
            elif len(chosen):
                before = self.at
                self.go(chosen)
                self._do(instruction)
                self.go(before)
            place += 1
        return place, []

    def _chosen(self, predicate: str) -> Array | None:
        """Those of the group whose predicate is as the instruction asks; None for all."""
        if not predicate:
            return None
        holds = self.bits(predicate.lstrip("!"))
        return self.at[~holds if predicate.startswith("!") else holds]

    def _do(self, instruction: Instruction) -> None:
        try:
            self.handler(instruction.opcode)(self, instruction.opcode.split("."), instruction.operands)
        except Unknown as error:
            raise Unknown(f"{self.name}: {instruction.opcode} {instruction.operands}: {error}") from error

    # -- operands -------------------------------------------------------------------------------------------------

    def bits(self, register: str) -> Array:
        """A register's bits in each thread."""
        if register not in self.state:
            self.state[register] = np.zeros(self.total, self.kinds[register])
        found = self.state[register]
        return found if self.whole else found[self.at]

    def value(self, operand: str, kind: str) -> Array:
        """An operand as numbers of a type: from a register, whose lower bits count, or one for all threads."""
        dtype = np.dtype(DTYPES[kind])
        if operand.startswith("-%"):
            return -self.value(operand[1:], kind)
        if operand in self.kinds:
            found = self.bits(operand)
            if found.dtype.itemsize != dtype.itemsize:
                found = found.astype(f"u{dtype.itemsize}")
            return found.view(dtype)
        if operand.startswith("%"):
            return self._special(operand).astype(dtype)
        key = operand, kind, len(self.at)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = np.full(len(self.at), self._constant(operand, dtype))
        return found

    def _constant(self, operand: str, dtype: Any) -> Any:
        if operand[:2] in ("0f", "0d") and dtype.kind not in "iub":
            kinds = (np.uint32, np.float32) if operand[1] == "f" else (np.uint64, np.float64)
            return np.array(int(operand[2:], 16), kinds[0]).view(kinds[1]).astype(dtype)[()]
        if operand[:2] in ("0f", "0d"):
            return dtype.type(int(operand[2:], 16))
        if operand in self.kernel.shared:
            return dtype.type(self.kernel.shared[operand])
        if operand in self.kernel.parameters:
            return dtype.type(self.kernel.parameters[operand][1])
        number = int(operand.rstrip("U"), 0)
        if dtype.kind == "b":
            return np.bool_(number)
        return np.array(number & ((1 << 8 * dtype.itemsize) - 1), f"u{dtype.itemsize}").view(dtype)[()]

    def _special(self, name: str) -> Array:
        base, _, axis = name[1:].partition(".")
        index, count = "xyz".index(axis or "x"), len(self.at)
        extents = self.grid if base in ("ctaid", "nctaid") else (self.per_block, 1, 1)
        match base:
            case "tid":
                return self.number[self.at] if not index else np.zeros(count, np.uint32)
            case "ctaid":
                before = int(np.prod(extents[:index]))
                return (self.grid_number[self.at] // before % extents[index]).astype(np.uint32)
            case "ntid" | "nctaid":
                return np.full(count, extents[index], np.uint32)
            case "laneid":
                return self.number[self.at] % WARP
            case "warpid":
                return self.number[self.at] // WARP
        raise Unknown(name)

    def set(self, register: str, made: Array, kind: str) -> None:
        """What an instruction has made becomes a register's, extended where that is wider."""
        if register == "_":
            return
        dtype = np.dtype(self.kinds[register])
        if made.dtype != np.dtype(DTYPES[kind]):
            made = made.astype(DTYPES[kind])
        if dtype.kind != "b":
            if made.dtype.itemsize < dtype.itemsize:
                made = made.view(f"u{made.dtype.itemsize}") if made.dtype.kind not in "iu" else made
                made = made.astype(f"{made.dtype.kind}{dtype.itemsize}")
            made = np.ascontiguousarray(made).view(dtype)
        if self.whole:
            self.state[register] = made
            return
        changed = np.array(self.state[register]) if register in self.state else np.zeros(self.total, dtype)
        changed[self.at] = made
        self.state[register] = changed

    def address(self, operand: str, kind: str) -> Array:
        """What a memory operand points to: a register or a name, and an offset."""
        inner = operand.strip("[] ").replace(" ", "")
        base, sign, offset = re.fullmatch(r"([%\w$@]+)([+-])?(-?\w+)?", inner).groups()  # type: ignore[union-attr]
        found = self.value(base, kind)
        step = int(offset, 0) * (-1 if sign == "-" else 1) if offset else 0
        return found + np.array(step & ((1 << 8 * found.dtype.itemsize) - 1), np.uint64).astype(found.dtype)

    # -- lanes of a warp ------------------------------------------------------------------------------------------

    def lanes(self) -> Array:
        """The group's threads in rows of a warp, by where they lie in the group; all of a warp must be there."""
        if len(self.at) % WARP or (self.at.reshape(-1, WARP) != self.at[::WARP, None] + np.arange(WARP)).any():
            raise Unknown("an instruction of whole warps, of which some threads are elsewhere")
        return np.arange(len(self.at)).reshape(-1, WARP)

    def barrier(self) -> None:
        """All threads of each block must be here."""
        own = self.blocks[self.at]
        if not self.whole and (np.bincount(own) % self.per_block).any():
            raise Unknown("a barrier that some threads of the block are not at")
        self.phase[own] += 1

    # -- memory ---------------------------------------------------------------------------------------------------

    def load(self, space: str, addresses: Array, size: int) -> Array:
        """Words of shared or global memory."""
        if space == "shared":
            return self.shared.load(addresses, self.blocks[self.at], size)
        self._note(addresses, False)
        return self.memory.load(addresses, size)

    def store(self, space: str, addresses: Array, words: Array, size: int) -> None:
        """Words written there."""
        if space == "shared":
            self.shared.store(addresses, self.blocks[self.at], words, size)
            return
        self._note(addresses, True)
        self.memory.store(addresses, words, size)

    def at_once(self, space: str, addresses: Array, size: int, words: Array | None = None) -> Array:
        """Words as an atomic operation reads or writes them."""
        if space == "shared":
            own = self.shared, (addresses, self.blocks[self.at])
        else:
            own = self.memory, (addresses,)
        memory, where = own
        if words is not None:
            memory.store(*where, words, size)
        return memory.load(*where, size) if words is None else words

    def _note(self, addresses: Array, writes: bool) -> None:
        warps, phases = self.number[self.at] // WARP, self.phase[self.blocks[self.at]]
        self.memory.accesses.note(addresses, writes, self.grid_number[self.at], warps, phases)
