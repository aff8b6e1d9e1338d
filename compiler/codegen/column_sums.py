"""Loops over rows that add to sums of columns, in LLVM text; and squares of memory that are turned in registers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from eagerjit.compiler.codegen import accumulate as acc
from eagerjit.compiler.codegen import columns, transpose
from eagerjit.compiler.codegen.builder import LLVM_TYPES, Value
from eagerjit.compiler.codegen.cast import memory_dtype
from eagerjit.compiler.codegen.counted import repeat
from eagerjit.compiler.codegen.vector_loops import VectorLoops
from eagerjit.compiler.loops import Index, Load, Loop, Param, Stmt
from eagerjit.runtime.records import replace


class ColumnSums(VectorLoops):
    """The sums of columns of one kernel: `sums` are the stack slots of those that are being added to."""

    def __init__(self, params: tuple[Param, ...], stored: set[str], width_bits: int):
        super().__init__(params, stored, width_bits)
        self.sums: dict[tuple[str, Index], str] = {}

    @abstractmethod
    def serial(self, loop: Loop, start: Value, stop: Value) -> None:
        """Writes a loop over its body."""

    def sums_of_columns(self, loop: Loop, plan: columns.Plan) -> None:
        """A loop over rows that adds to sums of columns: columns outside where they are few, else rows by blocks."""
        if plan.across:
            self._by_squares(loop, plan)
            return
        b, (start, stop) = self.b, map(self.bound, (plan.vector.start, plan.vector.stop))
        few, many, done = b.name("few"), b.name("many"), b.name("done")
        b.emit(f"br i1 {(stop - start <= columns.MOST).text}, label %{few}, label %{many}")
        known = set(b.frames[-1].known)
        for label in (few, many):
            b.label(label)
            if label == few:
                self._over_columns(plan, loop)
            else:
                self._by_blocks(loop, plan)
            b.emit(f"br label %{done}")
            b.forget_since(known)
        b.label(done)

    def _over_columns(self, plan: columns.Plan, loop: Loop) -> None:
        self.columns, self.outer = plan, loop
        self.vector(plan.vector)
        self.columns = None

    def _by_blocks(self, loop: Loop, plan: columns.Plan) -> None:
        """Some rows at a time, which are added to a column's sum while that is in a register."""
        b, start, stop = self.b, self.bound(loop.start), self.bound(loop.stop)

        def block(first: Value) -> None:
            after = first + columns.ROWS
            self.values["first row"], self.values["last row"] = first, b.select(after < stop, after, stop)
            self._over_columns(plan, replace(loop, start="first row", stop="last row"))

        self._where(start < stop, lambda: repeat(b, start, columns.ROWS, stop, block))

    def rows(self, plan: columns.Plan, body: Sequence[Stmt]) -> None:
        """All rows for one vector of columns, whose sums are on the stack (registers, once LLVM has promoted them)."""
        loop = self.outer
        self._summed(plan, lambda: self.serial(
            replace(loop, body=(*plan.rows, *body)), self.bound(loop.start), self.bound(loop.stop)
        ))  # fmt: skip

    def _summed(self, plan: columns.Plan, work: Callable[[], object]) -> None:
        """What adds to the sums of one vector of columns, with these on the stack."""
        b = self.b
        slots = {(s.param, s.index): b.alloca(b.type(s.dtype, self.lanes)) for s in plan.sums}
        for s in plan.sums:
            acc.store(b, slots[s.param, s.index], b.broadcast(self.load(s.param, s.index, s.dtype), self.lanes))
        self.sums = slots
        work()
        self.sums = {}
        for s in plan.sums:
            self.store(s.param, s.index, acc.load(b, slots[s.param, s.index], s.dtype, self.lanes))

    # -- rows that lie across memory ------------------------------------------------------------------------------

    def _by_squares(self, loop: Loop, plan: columns.Plan) -> None:
        """A register of columns at a time, for all rows: squares of as many rows are turned. What is left is not."""
        b, lanes = self.b, plan.lanes
        start, stop = map(self.bound, (plan.vector.start, plan.vector.stop))
        first, last = map(self.bound, (loop.start, loop.stop))
        slots = {s.name: b.alloca(f"[{lanes} x {b.type(memory_dtype(s.dtype), lanes)}]") for s in plan.across}
        rest = b.alloca("i64")
        acc.store(b, rest, first)

        def one_row(row: Value, k: Value) -> None:
            self.values[loop.var] = row + k
            self.tiles = {name: (slot, k) for name, slot in slots.items()}
            self.body([*plan.rows, *plan.vector.body])
            self.tiles = {}

        def square(row: Value) -> None:
            self.values[loop.var] = row
            lanes_, self.lanes, self.vector_variables = self.lanes, 0, set()
            self.body(plan.rows)
            for load in plan.across:
                self.turn(load, plan.vector, slots[load.name], lanes, lanes)
            self.lanes, self.vector_variables = lanes_, {plan.vector.var}
            repeat(b, b.constant("i64", 0), 1, b.constant("i64", lanes), lambda k: one_row(row, k))

        def rows() -> None:
            self._where(
                first + (lanes - 1) < last,
                lambda: acc.store(b, rest, repeat(b, first, lanes, last - (lanes - 1), square)),
            )
            self.serial(replace(loop, body=(*plan.rows, *plan.vector.body)), acc.load(b, rest, "i64", 0), last)

        def block(column: Value) -> None:
            acc.store(b, rest, first)
            self.values[plan.vector.var] = column
            self.lanes, self.vector_variables = lanes, {plan.vector.var}
            self.variables.append(plan.vector.var)
            self._summed(plan, rows)
            self.variables.pop()
            self.lanes, self.vector_variables = 0, set()

        end = b.alloca("i64")
        acc.store(b, end, start)
        whole = stop - (lanes - 1)
        self._where(start < whole, lambda: acc.store(b, end, repeat(b, start, lanes, whole, block)))
        self.values["first column"] = acc.load(b, end, "i64", 0)
        self._over_columns(replace(plan, vector=replace(plan.vector, start="first column")), loop)

    def _where(self, condition: Value, work: Callable[[], object]) -> None:
        """What is done only if a condition holds."""
        b = self.b
        enter, done = b.name("enter"), b.name("done")
        b.emit(f"br i1 {condition.text}, label %{enter}, label %{done}")
        known = set(b.frames[-1].known)
        b.label(enter)
        work()
        b.emit(f"br label %{done}")
        b.forget_since(known)
        b.label(done)

    def distance(self, load: Load, vector: Loop) -> Value:
        """How many elements apart a vector loop reads."""
        stride = next(stride for name, stride in load.index if name == vector.var)
        return self.b.constant("i64", stride) if isinstance(stride, int) else self.values[stride]

    def turn(self, load: Load, vector: Loop, slot: str, lanes: int, count: int) -> None:
        """Loads a square of `count` columns, each of neighbours, and stores it on the stack as vectors of columns."""
        b, memory = self.b, memory_dtype(load.dtype)
        scalar, kind = LLVM_TYPES[memory], b.type(memory, lanes)
        zero, end = b.constant("i64", 0), b.constant("i64", count)

        def part(row: Value, column: Value) -> None:
            for k, turned in enumerate(self.turned(load, vector, lanes, row, column)):
                place, number = b.name("%p"), (row + k) * count + column
                b.emit(f"{place} = getelementptr {scalar}, ptr {slot}, i64 {number.text}")
                b.emit(f"store {kind} {turned.text}, ptr {place}")

        if count == lanes:
            part(zero, zero)
        else:
            repeat(b, zero, lanes, end, lambda column: repeat(b, zero, lanes, end, lambda row: part(row, column)))

    def turned(self, load: Load, vector: Loop, lanes: int, row: Value, column: Value) -> list[Value]:
        """The vectors of a square of as many columns as a register has lanes, from a row and a column on."""
        distance = self.distance(load, vector)
        pointer, _, _ = self.address(load.param, load.index)
        places = [distance * (column + lane) + row for lane in range(lanes)]
        return transpose.transposed([self.adjacent(memory_dtype(load.dtype), lanes, pointer, p) for p in places])
