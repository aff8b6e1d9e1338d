"""Loads and stores of kernels: contiguous, reversed, strided and gathered, masked in the last step of a vector loop."""

from __future__ import annotations

from collections.abc import Iterator

from eagerjit.compiler.codegen.builder import BITS, LLVM_TYPES, Builder, Value
from eagerjit.compiler.codegen.cast import from_memory, memory_dtype, to_memory
from eagerjit.compiler.codegen.counted import repeat
from eagerjit.compiler.codegen.tails import store_first
from eagerjit.compiler.loops import Index, Let, Load, Loop, Param, Store

Step = int | Value | None
"""Elements from one lane to the next."""

MOST_APART = 4
"""Vectors of elements farther apart are gathered one by one."""

PAGE = 4096
"""Bytes that are there all together or not at all."""

_FAST_GATHER = 512
"""Bits of vectors from which on a gather is an instruction that pays; else a scalar load per lane does better."""


def has_elements_apart(loop: Loop) -> bool:
    """Whether lanes of a vector loop meet elements apart from each other, which is rarely one fast instruction."""
    varying: set[str] = set()
    for s in loop.body:
        index = s.index if isinstance(s, Load | Store) else ()
        if any(name in varying or (name == loop.var and stride not in (1, -1)) for name, stride in index):
            return True
        names = s.args if isinstance(s, Let) else tuple(name for name, _ in index)
        if isinstance(s, Let | Load) and any(name == loop.var or name in varying for name in names):
            varying.add(s.name)
    return False


class MemoryAccess:
    """The memory side of one kernel.

    `values` are the kernel's names so far. Inside a vector loop `lanes` is its width and `mask` the lanes that are on
    (None: all), the first `active` ones; `by_rows`: it begins anew for every row, so that what is left of a row may be
    most of it; `tiles` are the loads whose vectors lie transposed on the stack. Loads that
    don't vary in a loop move out of it, if their parameter is never stored to. Where tasks run `together` as lanes,
    an element of `scratch` memory is a vector.
    """

    def __init__(self, params: tuple[Param, ...], stored: set[str], width_bits: int):
        self.b = Builder(width_bits)
        self.params = {p.name: p for p in params}
        self.scratch = {p.name for p in params if p.kind == "scratch"}
        self.together = False
        self.values: dict[str, Value] = {}
        self.stored = stored
        self.variables: list[str] = []
        self.lanes = 0
        self.mask: Value | None = None
        self.active = self.b.constant("i64", 0)
        self.by_rows = False
        self.vector_variables: set[str] = set()
        self.checked = False
        self.tiles: dict[str, tuple[str, Value]] = {}

    def address(self, param: str, index: Index) -> tuple[Value, Step, Value | None]:
        """A pointer for lane 0, and the distance between lanes (None: they have none, then offsets per lane)."""
        b = self.b
        scalar_terms: list[Value] = []
        lane_terms: list[Value] = []
        step: int | Value = 0
        for name, stride in index:
            factor = b.constant("i64", stride) if isinstance(stride, int) else self.values[stride]
            value = self.values[name]
            term = value if stride == 1 else value * factor
            (lane_terms if value.lanes else scalar_terms).append(term)
            if name in self.vector_variables:
                distance = stride if isinstance(stride, int) else factor
                step = distance + step if step else distance
        pointer = self.values[param]
        kind = LLVM_TYPES[memory_dtype(self.params[param].dtype)]
        if self.together and param in self.scratch:
            return self._from(pointer, kind, scalar_terms[0] * self.lanes), 1, None
        for term in sorted(scalar_terms, key=lambda t: t.depth):
            pointer = self._from(pointer, kind, term)
        if not lane_terms:
            return pointer, step, None
        return pointer, None, sum(lane_terms[1:], lane_terms[0] + b.iota("i64", self.lanes) * step)

    def _from(self, pointer: Value, kind: str, offset: Value) -> Value:
        """The pointer some elements behind another one."""
        text = f"getelementptr {kind}, ptr {pointer.text}, i64 {offset.text}"
        return self.b.pure("ptr", 0, text, max(pointer.depth, offset.depth))

    def load(self, param: str, index: Index, dtype: str) -> Value:
        b = self.b
        if self.params[param].dtype != dtype:
            raise TypeError(f"{param} holds {self.params[param].dtype}, loaded as {dtype}")
        pointer, step, offsets = self.address(param, index)
        memory = memory_dtype(dtype)
        if step == 0:
            depth = pointer.depth if self._may_move(param, index) else b.depth
            text = f"load {LLVM_TYPES[memory]}, ptr {pointer.text}, align {self._align(memory)}"
            if depth < b.depth or param not in self.stored:
                return from_memory(b.pure(memory, 0, text, depth), dtype)
            return from_memory(self._effect(memory, 0, text), dtype)
        if step in (1, -1):
            adjacent = self._load_adjacent if self._masks_natively(memory) else self._load_first
            return from_memory(adjacent(memory, pointer, step), dtype)
        if isinstance(step, int) and 1 < step <= MOST_APART and self.mask is None:
            return from_memory(self._load_apart(memory, pointer, step), dtype)
        return from_memory(self._gather(memory, pointer, step, offsets), dtype)

    def adjacent(self, memory: str, lanes: int, pointer: Value, offset: Value) -> Value:
        """A vector as it lies in memory, `offset` elements from a pointer."""
        b, place = self.b, self._from(pointer, LLVM_TYPES[memory], offset)
        return self._effect(
            memory, lanes, f"load {b.type(memory, lanes)}, ptr {place.text}, align {self._align(memory)}"
        )

    def load_tile(self, slot: str, k: Value, dtype: str) -> Value:
        """Vector k of a transposed square on the stack."""
        b, memory = self.b, memory_dtype(dtype)
        kind = b.type(memory, self.lanes)
        place = b.pure("ptr", 0, f"getelementptr {kind}, ptr {slot}, i64 {k.text}", k.depth)
        return from_memory(self._effect(memory, self.lanes, f"load {kind}, ptr {place.text}"), dtype)

    def _may_move(self, param: str, index: Index) -> bool:
        """Whether a load may run earlier: nothing writes its memory, and no check stands for its index."""
        if param in self.stored:
            return False
        return not self.checked or all(name in self.variables or name in self.params for name, _ in index)

    def store(self, param: str, index: Index, value: Value) -> None:
        if self.params[param].dtype != value.dtype:
            raise TypeError(f"{param} holds {self.params[param].dtype}, stored {value.dtype}")
        self._store_at(self.address(param, index), param, value)

    def store_pair(self, param: str, index: Index, first: Value, second: Value) -> None:
        """Two adjacent elements, of every lane: whole vectors where the lanes are next to each other."""
        b, (pointer, step, offsets) = self.b, self.address(param, index)
        memory, lanes = memory_dtype(first.dtype), self.lanes
        if step != 2 or memory != first.dtype:
            after = f"getelementptr {LLVM_TYPES[memory]}, ptr {pointer.text}, i64 1"
            self._store_at((pointer, step, offsets), param, first)
            self._store_at((b.pure("ptr", 0, after, pointer.depth), step, offsets), param, second)
            return
        kind, half = b.type(memory, lanes), lanes // 2
        left, right = (b.broadcast(value, lanes) for value in (first, second))
        for part in (0, 1):
            places = range(part * half, part * half + half)
            order = ", ".join(f"i32 {i}, i32 {lanes + i}" for i in places)
            text = f"shufflevector {kind} {left.text}, {kind} {right.text}, <{lanes} x i32> <{order}>"
            joined = b.pure(memory, lanes, text, max(left.depth, right.depth))
            text = f"getelementptr {LLVM_TYPES[memory]}, ptr {pointer.text}, i64 {part * lanes}"
            place = b.pure("ptr", 0, text, pointer.depth)
            self._store_adjacent(place, joined, None if self.mask is None else self._twice(self.mask, places))

    def _twice(self, mask: Value, places: range) -> Value:
        """Each of these lanes of a mask two times."""
        b, kind = self.b, self.b.type(mask.dtype, self.lanes)
        order = ", ".join(f"i32 {i}, i32 {i}" for i in places)
        text = f"shufflevector {kind} {mask.text}, {kind} poison, <{self.lanes} x i32> <{order}>"
        return b.pure(mask.dtype, self.lanes, text, mask.depth)

    def _store_at(self, address: tuple[Value, Step, Value | None], param: str, value: Value) -> None:
        b, (pointer, step, offsets) = self.b, address
        value = to_memory(value)
        memory = value.dtype
        align = self._align(memory)
        if step == 0:
            if value.lanes:
                raise TypeError(f"lanes stored to one element of {param}")
            b.emit(f"store {LLVM_TYPES[memory]} {value.text}, ptr {pointer.text}, align {align}")
            return
        value = b.broadcast(value, self.lanes)
        kind, suffix = b.type(memory, self.lanes), b.mangle(memory, self.lanes)
        if step == 1 and self._masks_natively(memory):
            self._store_adjacent(pointer, value, self.mask)
            return
        if self.mask is not None:
            self._scatter_active(value, pointer, step, offsets)
            return
        if step is not None and b.width_bits < _FAST_GATHER:
            self._scatter_each(value, pointer, step)
            return
        pointers = self._pointers(memory, pointer, step, offsets)
        call = f"@llvm.masked.scatter.{suffix}.v{self.lanes}p0({kind} {value.text}, {pointers}"
        b.emit(f"call void {call}, i32 {align}, <{self.lanes} x i1> splat (i1 true))")

    def _store_adjacent(self, pointer: Value, value: Value, mask: Value | None) -> None:
        """Lanes to adjacent elements."""
        b, memory = self.b, value.dtype
        kind, align = b.type(memory, self.lanes), self._align(memory)
        if mask is None:
            b.emit(f"store {kind} {value.text}, ptr {pointer.text}, align {align}")
            return
        if b.width_bits == 256 and mask is self.mask and self.by_rows:
            store_first(b, pointer, value, self.active, align)
            return
        call = f"@llvm.masked.store.{b.mangle(memory, self.lanes)}.p0({kind} {value.text}, ptr {pointer.text}"
        b.emit(f"call void {call}, i32 {align}, <{self.lanes} x i1> {mask.text})")

    def _masks_natively(self, memory: str) -> bool:
        """Whether adjacent lanes are one access: all of them, or those of a mask that an instruction takes."""
        return self.mask is None or self.b.width_bits == 512 or (self.b.width_bits == 256 and BITS[memory] >= 32)

    def _load_adjacent(self, memory: str, pointer: Value, step: int) -> Value:
        """Lanes in adjacent elements, in either direction."""
        b = self.b
        kind, align = b.type(memory, self.lanes), self._align(memory)
        mask = self.mask
        if step < 0:
            text = f"getelementptr {LLVM_TYPES[memory]}, ptr {pointer.text}, i64 {1 - self.lanes}"
            pointer = b.pure("ptr", 0, text, pointer.depth)
            mask = self._reverse(mask) if mask else None
        if mask is None:
            loaded = self._effect(memory, self.lanes, f"load {kind}, ptr {pointer.text}, align {align}")
        else:
            call = f"@llvm.masked.load.{b.mangle(memory, self.lanes)}.p0(ptr {pointer.text}, i32 {align}"
            text = f"call {kind} {call}, <{self.lanes} x i1> {mask.text}, {kind} zeroinitializer)"
            loaded = self._effect(memory, self.lanes, text)
        return self._reverse(loaded) if step < 0 else loaded

    def _load_first(self, memory: str, pointer: Value, step: int) -> Value:
        """The lanes that are on, in adjacent elements, and zeros, where no instruction masks a load.

        A whole vector is read where all of it lies in the page of its first lane, so that no byte of it can be missing.
        """
        b, mask = self.b, self.mask
        assert mask is not None
        whole, apart, joined = b.name("whole"), b.name("apart"), b.name("joined")
        first = pointer if step > 0 else self._from(pointer, LLVM_TYPES[memory], b.constant("i64", 1 - self.lanes))
        place = self._effect("i64", 0, f"ptrtoint ptr {first.text} to i64") & (PAGE - 1)
        b.emit(f"br i1 {(place <= PAGE - self.lanes * BITS[memory] // 8).text}, label %{whole}, label %{apart}")
        known = set(b.frames[-1].known)
        b.label(whole)
        self.mask = None
        loaded = b.select(mask, self._load_adjacent(memory, pointer, step), 0)
        self.mask = mask
        found = [(loaded.text, b.block)]
        b.emit(f"br label %{joined}")
        b.forget_since(known)
        b.label(apart)
        found.append((self._gather_active(memory, pointer, step, None).text, b.block))
        b.emit(f"br label %{joined}")
        b.forget_since(known)
        b.label(joined)
        return b.phi(memory, self.lanes, found, b.depth)

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

    def _reverse(self, value: Value) -> Value:
        b = self.b
        kind = b.type(value.dtype, value.lanes)
        order = ", ".join(f"i32 {i}" for i in reversed(range(value.lanes)))
        text = f"shufflevector {kind} {value.text}, {kind} poison, <{value.lanes} x i32> <{order}>"
        return b.pure(value.dtype, value.lanes, text, value.depth)

    def _effect(self, dtype: str, lanes: int, text: str) -> Value:
        """An instruction that stays where it is."""
        result = Value(self.b, dtype, lanes, self.b.name("%v"), self.b.depth)
        self.b.emit(f"{result.text} = {text}")
        return result

    def _align(self, memory: str) -> int:
        return {"i8": 1, "i16": 2, "i32": 4, "float": 4}.get(LLVM_TYPES[memory], 8)
