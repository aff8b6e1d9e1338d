"""Loads and stores of kernels: contiguous, reversed, strided and gathered, masked in the last step of a vector loop."""

from __future__ import annotations

from collections.abc import Callable

from eagerjit.compiler.codegen.builder import BITS, LLVM_TYPES, Value
from eagerjit.compiler.codegen.cast import from_memory, memory_dtype, to_memory
from eagerjit.compiler.codegen.elements_apart import MOST_APART, ElementsApart, Step
from eagerjit.compiler.codegen.tails import store_first
from eagerjit.compiler.loops import Index, Let, Load, Loop, Param, Store

CACHE_LINE, AHEAD = 64, 16
"""Bytes that come from memory together, and how many such a vector loop asks for what it needs later."""

PAGE = 4096
"""Bytes that are there all together or not at all."""


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


Tile = Value | tuple[str, Value]
"""A vector of a transposed square: in a register, or on the stack by its number."""
Tiles = dict[str, Tile]


class MemoryAccess(ElementsApart):
    """The memory side of one kernel.

    `values` are the kernel's names so far. In a vector loop, `whole` is whether all lanes are on, where code with a
    `mask` is for such steps too; `by_rows`: it begins anew for every row, so that what is left of a row may be most of
    it; `asks_early`: a step asks for what later ones load; `tiles` are the loads whose vectors are transposed. Loads
    that don't vary in a loop move out of it, if their parameter is never stored to. Where tasks run `together` as
    lanes, an element of `scratch` memory is a vector; what `is_near` lies in such memory and need not be asked for.
    """

    def __init__(self, params: tuple[Param, ...], stored: set[str], width_bits: int):
        super().__init__(width_bits)
        self.params = {p.name: p for p in params}
        self.scratch = {p.name for p in params if p.kind == "scratch"}
        self.together = self.is_near = False
        self.values: dict[str, Value] = {}
        self.stored = stored
        self.variables: list[str] = []
        self.whole: Value | None = None
        self.by_rows = self.asks_early = False
        self.vector_variables: set[str] = set()
        self.checked = False
        self.tiles: Tiles = {}
        self.read: set[str] = set()

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
        self.is_near = param in self.scratch
        kind = LLVM_TYPES[memory_dtype(self.params[param].dtype)]
        if self.together and param in self.scratch:
            return self._from(pointer, kind, scalar_terms[0] * self.lanes), 1, None
        for term in sorted(scalar_terms, key=lambda t: t.depth):
            pointer = self._from(pointer, kind, term)
        if not lane_terms:
            return pointer, step, None
        return pointer, None, sum(lane_terms[1:], lane_terms[0] + b.iota("i64", self.lanes) * step)

    def load(self, param: str, index: Index, dtype: str) -> Value:
        b = self.b
        if self.params[param].dtype != dtype:
            raise TypeError(f"{param} holds {self.params[param].dtype}, loaded as {dtype}")
        self.read.add(param)
        pointer, step, offsets = self.address(param, index)
        memory = memory_dtype(dtype)
        if step == 0:
            depth = pointer.depth if self._may_move(param, index) else b.depth
            text = f"load {LLVM_TYPES[memory]}, ptr {pointer.text}, align {self._align(memory)}"
            if depth < b.depth or param not in self.stored:
                return from_memory(b.pure(memory, 0, text, depth), dtype)
            return from_memory(self._effect(memory, 0, text), dtype)
        lanes = self._by_lanes_on(lambda: self._load_lanes(memory, pointer, step, offsets))
        assert lanes is not None
        return from_memory(lanes, dtype)

    def _load_lanes(self, memory: str, pointer: Value, step: Step, offsets: Value | None) -> Value:
        if step in (1, -1):
            adjacent = self._load_adjacent if self._masks_natively(memory) else self._load_first
            return adjacent(memory, pointer, step)
        if isinstance(step, int) and 1 < step <= MOST_APART and self.mask is None:
            return self._load_apart(memory, pointer, step)
        return self._gather(memory, pointer, step, offsets)

    def _by_lanes_on(self, access: Callable[[], Value | None]) -> Value | None:
        """An access of its own to all lanes, which most steps take, where the others share the step's code."""
        if self.whole is None:
            return access()
        b, mask, whole = self.b, self.mask, self.whole
        labels, joined = (b.name("whole"), b.name("part")), b.name("joined")
        b.emit(f"br i1 {whole.text}, label %{labels[0]}, label %{labels[1]}")
        known = set(b.frames[-1].known)
        found: list[tuple[Value, str]] = []
        self.whole = None
        for label, self.mask in zip(labels, (None, mask), strict=True):
            b.label(label)
            value = access()
            if value is not None:
                found.append((value, b.block))
            b.emit(f"br label %{joined}")
            b.forget_since(known)
        self.mask, self.whole = mask, whole
        b.label(joined)
        if not found:
            return None
        return b.phi(found[0][0].dtype, self.lanes, [(value.text, end) for value, end in found], b.depth)

    def adjacent(self, memory: str, lanes: int, pointer: Value, offset: Value) -> Value:
        """A vector as it lies in memory, `offset` elements from a pointer."""
        b, place = self.b, self._from(pointer, LLVM_TYPES[memory], offset)
        return self._effect(
            memory, lanes, f"load {b.type(memory, lanes)}, ptr {place.text}, align {self._align(memory)}"
        )

    def tile(self, tile: Tile, dtype: str) -> Value:
        """A vector of a transposed square, as a value of this dtype."""
        if isinstance(tile, Value):
            return from_memory(tile, dtype)
        b, memory, (slot, k) = self.b, memory_dtype(dtype), tile
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
        address, stored = self.address(param, index), to_memory(value)
        self._by_lanes_on(lambda: self._store_at(address, param, stored))

    def store_pair(self, param: str, index: Index, first: Value, second: Value) -> None:
        """Two adjacent elements, of every lane: whole vectors where the lanes are next to each other."""
        address = self.address(param, index)
        self._by_lanes_on(lambda: self._store_pair_at(address, param, first, second))

    def _store_pair_at(
        self, address: tuple[Value, Step, Value | None], param: str, first: Value, second: Value
    ) -> None:
        b, (pointer, step, offsets) = self.b, address
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
        if step == 0:
            if value.lanes:
                raise TypeError(f"lanes stored to one element of {param}")
            b.emit(f"store {LLVM_TYPES[memory]} {value.text}, ptr {pointer.text}, align {self._align(memory)}")
            return
        value = b.broadcast(value, self.lanes)
        if step == 1 and self._masks_natively(memory):
            self._store_adjacent(pointer, value, self.mask, param in self.read)
            return
        self._scatter(value, pointer, step, offsets)

    def _store_adjacent(self, pointer: Value, value: Value, mask: Value | None, overwrites: bool = False) -> None:
        """Lanes to adjacent elements.

        Of a choice between what memory has and something else LLVM stores the lanes of the latter alone, which takes
        some processors ten times as long as all: not where it `overwrites` what was read by a volatile store.
        """
        b, memory = self.b, value.dtype
        kind, align = b.type(memory, self.lanes), self._align(memory)
        if mask is None:
            if not overwrites:
                self._prefetch(pointer, memory, 1, "w")
            volatile = " volatile" if overwrites else ""
            b.emit(f"store{volatile} {kind} {value.text}, ptr {pointer.text}, align {align}")
            return
        if b.width_bits == 256 and mask is self.mask and self.by_rows:
            store_first(b, pointer, value, self.active, align)
            return
        call = f"@llvm.masked.store.{b.mangle(memory, self.lanes)}.p0({kind} {value.text}, ptr {pointer.text}"
        b.emit(f"call void {call}, i32 {align}, <{self.lanes} x i1> {mask.text})")

    def _prefetch(self, pointer: Value, memory: str, step: int, access: str) -> None:
        """Asks for the cache lines that later steps of a vector loop read ("r") or write ("w").

        A processor looks ahead by itself, but of what is read not far enough where steps compute long, and of what is
        written hardly at all.
        """
        if not self.vector_variables or self.is_near:
            return
        b = self.b
        for line in range(-(-self.lanes * BITS[memory] // 8 // CACHE_LINE)):
            place = b.name("%p")
            b.emit(f"{place} = getelementptr i8, ptr {pointer.text}, i64 {step * CACHE_LINE * (AHEAD + line)}")
            b.emit(f"call void @llvm.prefetch.p0(ptr {place}, i32 {'rw'.index(access)}, i32 3, i32 1)")

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
            if self.asks_early:
                self._prefetch(pointer, memory, step, "r")
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

    def _reverse(self, value: Value) -> Value:
        b = self.b
        kind = b.type(value.dtype, value.lanes)
        order = ", ".join(f"i32 {i}" for i in reversed(range(value.lanes)))
        text = f"shufflevector {kind} {value.text}, {kind} poison, <{value.lanes} x i32> <{order}>"
        return b.pure(value.dtype, value.lanes, text, value.depth)

