"""Lanes whose elements lie apart in memory: from adjacent loads, by the processor's gathers, or one by one."""

from __future__ import annotations

from collections.abc import Iterator

from eagerjit.compiler.codegen.builder import LLVM_TYPES, Builder, Value
from eagerjit.compiler.codegen.counted import repeat

Step = int | Value | None
"""Elements from one lane to the next."""

MOST_APART = 4
"""Vectors of elements farther apart are gathered one by one."""

_FAST_GATHER = 512
"""Bits of vectors from which on a gather is an instruction that pays; else a scalar load per lane does better."""


class ElementsApart:
    """Loads and stores of the `lanes` of a vector, of which those of `mask` are on (None: all), the first `active`."""

    def __init__(self, width_bits: int):
        self.b = Builder(width_bits)
        self.lanes = 0
        self.mask: Value | None = None
        self.active = self.b.constant("i64", 0)

    def _load_apart(self, memory: str, pointer: Value, step: int) -> Value:
        """Every step-th element from adjacent loads, of which the last ends where the last lane is."""
        b, lanes = self.b, self.lanes
        kind, align = b.type(memory, lanes), self._align(memory)
        starts = [k * lanes for k in range(step - 1)] + [(lanes - 1) * step + 1 - lanes]
        found: Value | None = None
        for k, start in enumerate(starts):
            place = b.pure("ptr", 0, f"getelementptr {LLVM_TYPES[memory]}, ptr {pointer.text}, i64 {start}", b.depth)
            part = self._effect(memory, lanes, f"load {kind}, ptr {place.text}, align {align}")
            # Lanes found so far stay where they are; others come from this load, or from one of the next.
            chosen = []
            for lane in range(lanes):
                offset = lane * step - start
                known = any(before <= lane * step < before + lanes for before in starts[:k])
                chosen.append(lanes + offset if not known and 0 <= offset < lanes else lane)
            order = ", ".join(f"i32 {i}" for i in chosen)
            before = "poison" if found is None else found.text
            text = f"shufflevector {kind} {before}, {kind} {part.text}, <{lanes} x i32> <{order}>"
            found = self._effect(memory, lanes, text)
        assert found is not None
        return found

    def _gather(self, memory: str, pointer: Value, step: Step, offsets: Value | None) -> Value:
        b = self.b
        if self.mask is not None:
            return self._gather_active(memory, pointer, step, offsets)
        if step is not None and b.width_bits < _FAST_GATHER:
            return self._gather_each(memory, pointer, step)
        kind, align = b.type(memory, self.lanes), self._align(memory)
        pointers = self._pointers(memory, pointer, step, offsets)
        call = f"@llvm.masked.gather.{b.mangle(memory, self.lanes)}.v{self.lanes}p0({pointers}"
        text = f"call {kind} {call}, i32 {align}, <{self.lanes} x i1> splat (i1 true), {kind} zeroinitializer)"
        return self._effect(memory, self.lanes, text)

    def _gather_each(self, memory: str, pointer: Value, step: int | Value) -> Value:
        """A load per lane, from addresses that need no vectors of pointers."""
        b, scalar, kind = self.b, LLVM_TYPES[memory], self.b.type(memory, self.lanes)
        vector = "poison"
        for lane, place in enumerate(self._places(scalar, pointer, step)):
            value = self._effect(memory, 0, f"load {scalar}, ptr {place.text}, align {self._align(memory)}")
            text = f"insertelement {kind} {vector}, {scalar} {value.text}, i64 {lane}"
            vector = self._effect(memory, self.lanes, text).text
        return Value(b, memory, self.lanes, vector, b.depth)

    def _scatter(self, value: Value, pointer: Value, step: Step, offsets: Value | None) -> None:
        b, memory = self.b, value.dtype
        if self.mask is not None:
            self._scatter_active(value, pointer, step, offsets)
            return
        if step is not None and b.width_bits < _FAST_GATHER:
            self._scatter_each(value, pointer, step)
            return
        kind, align = b.type(memory, self.lanes), self._align(memory)
        pointers = self._pointers(memory, pointer, step, offsets)
        call = f"@llvm.masked.scatter.{b.mangle(memory, self.lanes)}.v{self.lanes}p0({kind} {value.text}, {pointers}"
        b.emit(f"call void {call}, i32 {align}, <{self.lanes} x i1> splat (i1 true))")

    def _scatter_each(self, value: Value, pointer: Value, step: int | Value) -> None:
        """A store per lane."""
        b, memory = self.b, value.dtype
        scalar, kind = LLVM_TYPES[memory], b.type(memory, self.lanes)
        for lane, place in enumerate(self._places(scalar, pointer, step)):
            element = self._effect(memory, 0, f"extractelement {kind} {value.text}, i64 {lane}")
            b.emit(f"store {scalar} {element.text}, ptr {place.text}, align {self._align(memory)}")

    def _places(self, scalar: str, pointer: Value, step: int | Value) -> Iterator[Value]:
        """Every lane's address: three distances from every fourth one, which leaves registers for the rest."""
        distance = self.b.constant("i64", step) if isinstance(step, int) else step
        for lane in range(self.lanes):
            part = lane % 4
            if lane and not part:
                pointer = self._from(pointer, scalar, distance * 4)
            yield self._from(pointer, scalar, distance * part) if part else pointer

    def _gather_active(self, memory: str, pointer: Value, step: Step, offsets: Value | None) -> Value:
        """Lanes that are on, one after the other, and zeros: most processors would be given a branch for each lane."""
        b = self.b
        kind = b.type(memory, self.lanes)
        lanes = b.alloca(kind)
        b.emit(f"store {kind} zeroinitializer, ptr {lanes}")
        self._copy_active(memory, pointer, step, offsets, lanes, out=False)
        return self._effect(memory, self.lanes, f"load {kind}, ptr {lanes}")

    def _scatter_active(self, value: Value, pointer: Value, step: Step, offsets: Value | None) -> None:
        """Lanes that are on, stored one after the other."""
        b, memory = self.b, value.dtype
        lanes = b.alloca(b.type(memory, self.lanes))
        b.emit(f"store {b.type(memory, self.lanes)} {value.text}, ptr {lanes}")
        self._copy_active(memory, pointer, step, offsets, lanes, out=True)

    def _copy_active(
        self, memory: str, pointer: Value, step: Step, offsets: Value | None, lanes: str, out: bool
    ) -> None:
        """Copies the lanes that are on, one after the other, from their places in memory to the stack, or `out`."""
        b, scalar = self.b, LLVM_TYPES[memory]
        table = ""
        if step is None:
            assert offsets is not None
            offsets = b.broadcast(offsets, self.lanes)
            table = b.alloca(f"<{self.lanes} x i64>")
            b.emit(f"store <{self.lanes} x i64> {offsets.text}, ptr {table}")

        def one(lane: Value) -> None:
            offset, place, inside = b.name("%v"), b.name("%p"), b.name("%p")
            if step is None:
                entry = b.name("%p")
                b.emit(f"{entry} = getelementptr i64, ptr {table}, i64 {lane.text}")
                b.emit(f"{offset} = load i64, ptr {entry}")
            else:
                b.emit(f"{offset} = mul i64 {lane.text}, {step.text if isinstance(step, Value) else step}")
            b.emit(f"{place} = getelementptr {scalar}, ptr {pointer.text}, i64 {offset}")
            b.emit(f"{inside} = getelementptr {scalar}, ptr {lanes}, i64 {lane.text}")
            value = b.name("%v")
            outside = f"{place}, align {self._align(memory)}"
            source, target = (inside, outside) if out else (outside, inside)
            b.emit(f"{value} = load {scalar}, ptr {source}")
            b.emit(f"store {scalar} {value}, ptr {target}")

        repeat(b, b.constant("i64", 0), 1, self.active, one)

    def _pointers(self, memory: str, pointer: Value, step: Step, offsets: Value | None) -> str:
        """One pointer per lane, with its type."""
        b = self.b
        if step is not None:
            offsets = b.iota("i64", self.lanes) * step
        assert offsets is not None
        offsets = b.broadcast(offsets, self.lanes)
        text = f"getelementptr {LLVM_TYPES[memory]}, ptr {pointer.text}, <{self.lanes} x i64> {offsets.text}"
        pointers = b.pure("ptr", self.lanes, text, max(pointer.depth, offsets.depth))
        return f"<{self.lanes} x ptr> {pointers.text}"

    def _from(self, pointer: Value, kind: str, offset: Value) -> Value:
        """The pointer some elements behind another one."""
        text = f"getelementptr {kind}, ptr {pointer.text}, i64 {offset.text}"
        return self.b.pure("ptr", 0, text, max(pointer.depth, offset.depth))

    def _effect(self, dtype: str, lanes: int, text: str) -> Value:
        """An instruction that stays where it is."""
        result = Value(self.b, dtype, lanes, self.b.name("%v"), self.b.depth)
        self.b.emit(f"{result.text} = {text}")
        return result

    def _align(self, memory: str) -> int:
        return {"i8": 1, "i16": 2, "i32": 4, "float": 4}.get(LLVM_TYPES[memory], 8)
