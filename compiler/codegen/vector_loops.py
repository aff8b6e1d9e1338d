"""Vector loops in LLVM text: whole steps, then one for the rest, masked or element by element."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from eagerjit.compiler.codegen import columns
from eagerjit.compiler.codegen.across import DEAR
from eagerjit.compiler.codegen.builder import BITS, Value
from eagerjit.compiler.codegen.counted import counted
from eagerjit.compiler.codegen.memory_access import MemoryAccess, has_elements_apart
from eagerjit.compiler.codegen.numbering import counted_lanes, numbering
from eagerjit.compiler.loops import LANES, Accumulate, Let, Load, Loop, Param, Stmt, Store, walk

SHORT = (4, 8)
"""Elements of rows for which there is code of its own."""

SMALL = 32
"""Statements of a loop at most for that."""

LONG, DEARER = 40, 12
"""Statements of a loop whose step is not compiled once more for the rest; an elementary function is as many more."""

VAST = 100
"""Statements of a loop, elementary functions counted as before, from which its values get few registers each."""

BUSY = 4
"""Statements up to which a loop that is not over rows asks for nothing that it loads: its next steps have begun."""


def _length(loop: Loop) -> int:
    """How many statements a step of the loop is."""
    return len(loop.body) + DEARER * sum(isinstance(s, Let) and s.op in DEAR for s in loop.body)


class VectorLoops(MemoryAccess):
    """The vector loops of one kernel. `folding` are the accumulators that they add to and that start outside them."""

    def __init__(self, params: tuple[Param, ...], stored: set[str], width_bits: int):
        super().__init__(params, stored, width_bits)
        self.folding: set[str] = set()
        self.columns: columns.Plan | None = None
        self.first_lane: Value | None = None

    @abstractmethod
    def body(self, body: Sequence[Stmt]) -> None:
        """Writes statements."""

    @abstractmethod
    def has_parts(self, accumulators: Sequence[str]) -> bool:
        """Whether part of the lanes of these accumulators can be added to."""

    @abstractmethod
    def rows(self, plan: columns.Plan, body: Sequence[Stmt]) -> None:
        """Writes a loop over rows in the place of the body of its vector loop."""

    def value(self, name: str) -> Value:
        """What a name stands for: a variable of lanes goes up with them."""
        if name in self.vector_variables:
            return self.values[name] + self.b.iota("i64", self.lanes)
        return self.values[name]

    def bound(self, bound: int | str) -> Value:
        """A loop's bound."""
        return self.value(bound) if isinstance(bound, str) else self.b.constant("i64", bound)

    def vector(self, loop: Loop) -> None:
        """A vector loop: whole steps, then what is left."""
        b, self.by_rows = self.b, loop.start == 0
        self.asks_early = self.by_rows or _length(loop) > BUSY
        start, stop = self.bound(loop.start), self.bound(loop.stop)
        extent: int | None = None
        if isinstance(loop.start, int) and isinstance(loop.stop, int):
            extent = loop.stop - loop.start
        enter, main, middle, tail, done = (b.name(n) for n in ("enter", "main", "middle", "tail", "done"))
        lanes, self.first_lane = self._width(loop), start
        last = stop - (lanes - 1)
        if self._has_short_rows(loop):
            self._short_rows(loop, stop, lanes, done)
        b.emit(f"br i1 {(start < stop).text}, label %{enter}, label %{done}")
        b.label(enter)
        b.open_loop()
        incoming = [(start.text, b.block)]
        if self._shares_code(loop, extent, lanes):
            counted(b, start, lanes, stop, lambda first: self.step(loop, first, lanes, stop, last), done)
            b.close_loop()
            b.label(done)
            return
        if extent is None or extent >= lanes:
            b.emit(f"br i1 {(start < last).text}, label %{main}, label %{middle}")
            b.label(main)
            following = counted(b, start, lanes, last, lambda first: self.step(loop, first, lanes), middle)
            incoming.append((following.text, b.block))
        else:
            b.emit(f"br label %{middle}")
        b.forget_body()
        b.label(middle)
        rest = b.phi("i64", 0, incoming, b.depth)
        if extent is None or extent % lanes:
            b.emit(f"br i1 {(rest < stop).text}, label %{tail}, label %{done}")
            b.label(tail)
            if self._masks_are_cheap(loop):
                self.step(loop, rest, lanes, stop)
            else:
                end = b.name("end")
                counted(b, rest, 1, stop, lambda element: self._element(loop, element), end)
                b.label(end)
        b.emit(f"br label %{done}")
        b.close_loop()
        b.label(done)

    def _shares_code(self, loop: Loop, extent: int | None, lanes: int) -> bool:
        """Whether whole steps and that for the rest are the same code but for loads and stores.

        A branch for each of them takes no time beside a long step, and to compile one twice takes long.
        """
        if self.columns is not None or not self._masks_are_cheap(loop):
            return False
        if extent is not None and (extent < lanes or extent % lanes == 0):
            return False
        plain = all(isinstance(s, Let | Load | Store | Accumulate) for s in loop.body)
        return plain and _length(loop) > LONG

    def _short_rows(self, loop: Loop, stop: Value, lanes: int, done: str) -> None:
        """Rows of few elements as vectors that hold no more, and on to `done`; opens the block for others.

        Even of lanes that are off a processor takes the cache lines, and of a wide vector there are two.
        """
        b = self.b
        for width in (w for w in SHORT if w < lanes):
            short, longer = b.name("short"), b.name("longer")
            b.emit(f"br i1 {(stop <= width).text}, label %{short}, label %{longer}")
            known = set(b.frames[-1].known)
            b.label(short)
            self.step(loop, b.constant("i64", 0), width, stop)
            b.emit(f"br label %{done}")
            b.forget_since(known)
            b.label(longer)

    def _has_short_rows(self, loop: Loop) -> bool:
        """Whether the loop is over rows that may be short, which take longer to begin than to compute.

        Elementary functions are neither quick to compute nor to compile once more.
        """
        rows = self.by_rows and bool(self.variables) and self.columns is None and len(loop.body) <= SMALL
        long = isinstance(loop.stop, int) and loop.stop > SHORT[-1]
        plain = all(isinstance(s, Load | Store) or (isinstance(s, Let) and s.op not in DEAR) for s in loop.body)
        return rows and plain and not long and not numbering(loop) and self._masks_are_cheap(loop)

    def _masks_are_cheap(self, loop: Loop) -> bool:
        """Whether masked access is an instruction, or an accumulator's lanes need it; else it is a branch per lane."""
        inner = list(walk(loop.body))
        if any(isinstance(s, Accumulate) and s.name in self.folding for s in inner):
            return True
        if has_elements_apart(loop):
            return False
        small = any(BITS[self.params[s.param].dtype] < 32 for s in inner if isinstance(s, Load | Store))
        narrow = self.b.width_bits == 128 or (self.b.width_bits == 256 and small)
        return not narrow

    def _element(self, loop: Loop, variable: Value) -> None:
        """A vector loop's body for a single element."""
        self.values[loop.var] = variable
        self.variables.append(loop.var)
        self._inside(loop.body)
        self.variables.pop()

    def step(
        self, loop: Loop, first: Value, lanes: int, stop: Value | None = None, last: Value | None = None
    ) -> None:
        """A vector loop's body once, for the lanes from `first` on.

        With `stop`, which lies behind `first` by as many lanes at most, only for those before it. With `last` too,
        `stop` may lie anywhere, and where `first` is before `last`, all lanes are.
        """
        b, wraps = self.b, numbering(loop)
        self.values[loop.var] = first
        if not wraps:
            self._lanes_of(loop, lanes, stop, last, (), {})
            return
        number = {op: Let(op, op, (loop.var, wraps[0].args[1]), "i64") for op in ("rem", "floordiv")}
        self.body(list(number.values()))
        rem, row, size = self.values["rem"], self.values["floordiv"], self.value(wraps[0].args[1])
        same, apart, joined = b.name("same"), b.name("apart"), b.name("joined")
        b.emit(f"br i1 {(rem + (lanes - 1) < size).text}, label %{same}, label %{apart}")
        known = set(b.frames[-1].known)
        for label in (same, apart):
            b.label(label)
            found = {"rem": rem, "floordiv": row} if label == same else counted_lanes(b, rem, row, size, lanes)
            self._lanes_of(loop, lanes, stop, last, wraps, found)
            b.emit(f"br label %{joined}")
            b.forget_since(known)
        b.label(joined)

    def _lanes_of(
        self,
        loop: Loop,
        lanes: int,
        stop: Value | None,
        last: Value | None,
        wraps: Sequence[Let],
        found: Mapping[str, Value],
    ) -> None:
        """A step of a vector loop, given what its `rem` and `floordiv` are: a scalar `rem` goes up with the lanes."""
        self.lanes, self.vector_variables = lanes, {loop.var}
        self.variables.append(loop.var)
        for wrap in wraps:
            self.values[wrap.name] = found[wrap.op]
            if wrap.op == "rem" and not found[wrap.op].lanes:
                self.vector_variables.add(wrap.name)
        if stop:
            self.active = stop - self.values[loop.var]
            if last:
                self.active = self.b.intrinsic("smin", self.active, lanes)
                self.whole = self.values[loop.var] < last
            self.mask = self.b.iota("u32", lanes) < self.b.convert("trunc", self.active, "u32")
        self._inside([s for s in loop.body if s not in wraps])
        self.variables.pop()
        self.vector_variables, self.lanes, self.mask, self.whole = set(), 0, None, None

    def _inside(self, body: Sequence[Stmt]) -> None:
        """A vector loop's body once: what is in it, or all rows of it where the loops have changed places."""
        if self.columns is None:
            self.body(body)
            return
        plan, self.columns = self.columns, None
        self.rows(plan, body)
        self.columns = plan

    def _width(self, loop: Loop) -> int:
        """Lanes at a time: two vector registers' worth at most, of bytes one, where no accumulator fixes the number.

        Nor does one in a vast loop whose values would take more than four registers each: its steps add to some of the
        accumulator's lanes. Of doubles on AVX2 that is as fast to run, and takes half the time to compile or less.
        """
        inner = list(walk(loop.body))
        bits = max((BITS[s.dtype] for s in inner if isinstance(s, Let | Load)), default=32)
        folded = [s.name for s in inner if isinstance(s, Accumulate) and s.name in self.folding]
        if folded:
            vast = self.columns is None and _length(loop) > VAST and LANES * bits > 4 * self.b.width_bits
            return min(LANES, 2 * self.b.width_bits // bits) if vast and self.has_parts(folded) else LANES
        if bits <= 8 and not self.by_rows:
            return min(4 * loop.lanes, self.b.width_bits // 8)
        return max(1, min(loop.lanes, self.b.width_bits // (32 if bits == 64 else 16)))
