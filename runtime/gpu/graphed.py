"""Programs whose work on a device is captured as graphs: a call checks its guards, then replays all launches at once.

That is so for Programs whose work never needs the host, called on leaves that all lie on the device. Sizes and numbers
are part of a graph; a Program that meets too many kinds of them runs plainly, as does one that cannot be captured.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from eagerjit.runtime.binding import new_tensor
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.gpu import arrays
from eagerjit.runtime.gpu.executor import DeviceExecutable, DeviceFrame
from eagerjit.runtime.gpu.memory import DeviceMemory
from eagerjit.runtime.gpu.replay import GraphedCall, Memory
from eagerjit.runtime.interpret import MISS, TYPES, Abandon
from eagerjit.runtime.program import Op, Program

MOST_KINDS = 8
ARITHMETIC = frozenset(range(Op.CONST, Op.EQ + 1))
ON_DEVICE = frozenset({Op.KERNEL, Op.COPY, Op.BEGIN, Op.FINISH, Op.ARENA})
HOST_WORK = frozenset({Op.MATMUL, Op.CONVOLUTION, Op.CALL, Op.READ_SIZE, Op.CHECK_VALUE})


class GraphedExecutable(DeviceExecutable):
    """A Program loaded for a device, replayed as graphs where that is possible."""

    def __init__(self, *loaded: Any):
        super().__init__(*loaded)
        program: Program = self.program
        self._codes = [Op(step[0]) for step in program.instructions]
        # Before the first memory is asked for come leaves and guards, after the last work what the call leaves behind.
        self._first = next((i for i, c in enumerate(self._codes) if c in (Op.ARENA, Op.OUTPUT, Op.BEGIN)), 0)
        on_host = any(step[0] == Op.KERNEL and step[1] >= len(self.kernels) for step in program.instructions)
        on_host = on_host or bool(HOST_WORK & {*self._codes}) or (self.places is not None and bool(self.places[1]))
        self.is_capturable = self._codes.count(Op.BEGIN) == 1 and not on_host and not program.raises_at_once
        self._pointers: dict[int, int] = {}  # the slot of each tensor leaf's address
        self._written: list[int] = []
        tainted: set[int] = set()
        for code, *operands in program.instructions[: self._first]:
            if code in (Op.TENSOR, Op.CAPTURED):
                self._pointers[operands[0]] = operands[5 if code == Op.TENSOR else 4]
                tainted.add(self._pointers[operands[0]])
            elif code in ARITHMETIC and tainted & {*operands[1:]} and code != Op.CONST:
                tainted.add(operands[0])
            elif code == Op.DISTINCT:
                self._written += operands[1 : 1 + operands[0]]
        self._values = [slot for slot in range(program.n_slots) if slot not in tainted]
        self.graphs: dict[tuple[Any, ...], GraphedCall] = {}

    def run(self, leaves: Sequence[Any]) -> Any:
        """As any executable does; what the graphs return is theirs, and is not overwritten while anybody holds it."""
        if not self.is_capturable or len(leaves) != self.n_arguments:
            return super().run(leaves)
        frame = self.frame(leaves)
        try:
            self._do(frame, range(self._first))
        except Abandon:
            return MISS
        if frame.copies or not self._pointers:
            self._do(frame, range(self._first, len(self._steps)))
        else:
            self._replay(frame)
        return frame.outputs[0] if len(frame.outputs) == 1 else tuple(frame.outputs)

    def _do(self, frame: DeviceFrame, steps: range) -> None:
        for index in steps:
            handler, operands = self._steps[index]
            handler(frame, *operands)

    def _replay(self, frame: DeviceFrame) -> None:
        """Do the work as a graph, then what the call leaves behind."""
        memories: list[Memory] = []
        places: list[tuple[int, int, int]] = []  # a pointer's slot, which memory it points into, and how far
        place_of: dict[int, int] = {}
        for leaf, slot in self._pointers.items():
            memory = arrays.memory_of(frame.leaves[leaf]._data)
            assert memory is not None
            index = next((i for i, known in enumerate(memories) if known is memory), len(memories))
            memories[index:] = [memory] if index == len(memories) else memories[index:]
            if frame.leaves[leaf]._data.size:  # an empty array points nowhere
                places.append((slot, index, frame.slots[slot] - memory.address))
            place_of[leaf] = index
        key = (*(frame.slots[slot] for slot in self._values), *places)
        call = self.graphs.get(key)
        if call is None and len(self.graphs) < MOST_KINDS:
            written = sorted({place_of[leaf] for leaf in self._written})
            call = self.graphs[key] = GraphedCall(functools.partial(self._work, frame, places), written)
        results = iter(self._work(frame, places, memories) if call is None else call(memories))
        for index in range(self._first, len(self._steps)):
            code, operands = self._codes[index], self._steps[index][1]
            if code == Op.OUTPUT:
                self._output(frame, next(results), *operands)
            elif code not in ON_DEVICE:
                self._do(frame, range(index, index + 1))

    def _output(
        self, frame: DeviceFrame, memory: Memory, output: int, code: int, ndim: int, pointer: int, *dims: int
    ) -> None:
        array = DeviceArray(memory, tuple(frame.slots[d] for d in dims), TYPES[code])
        frame.slots[pointer] = memory.address
        frame.outputs[output] = new_tensor(array)

    def _work(
        self, checked: DeviceFrame, places: Sequence[tuple[int, int, int]], given: Sequence[Memory]
    ) -> list[DeviceMemory]:
        """Queue the work of a call whose guards hold, on leaves in this memory; the memory of its results."""
        frame = self.frame(checked.leaves[: self.n_arguments])
        frame.leaves, frame.slots, frame.resident = checked.leaves, list(checked.slots), True
        for slot, index, offset in places:
            frame.slots[slot] = given[index].address + offset
        self._do_only(frame, range(self._first), ARITHMETIC)
        self._do_only(frame, range(self._first, len(self._steps)), ARITHMETIC | ON_DEVICE | {Op.OUTPUT})
        made = [operands[0] for code, *operands in self.program.instructions if code == Op.OUTPUT]
        return [arrays.memory_of(frame.outputs[output]._data) for output in made]  # type: ignore[misc]

    def _do_only(self, frame: DeviceFrame, steps: range, codes: frozenset[int]) -> None:
        for index in steps:
            if self._codes[index] in codes:
                self._do(frame, range(index, index + 1))
