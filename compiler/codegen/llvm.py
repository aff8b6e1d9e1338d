"""Kernel IR -> LLVM text.

    int64 kernel(int64 *args, int64 begin, int64 end, char *scratch)

`args` holds the parameters in order: pointers, i64 sizes, bits of f64 numbers. The call runs tasks begin..end and
returns 0 or the status of the first check that failed. No two parameters are promised not to overlap: a kernel that
works in place stores where it has just loaded.

A vector loop runs whole vectors, then one masked step for the rest; lanes that are off touch no memory. (Without masks
in hardware, and where elements lie apart, the rest runs element by element.) Loads that don't vary in a loop move out
of it, if their parameter is never stored to.
"""

from __future__ import annotations

from collections.abc import Sequence

from eagerjit.compiler.codegen import accumulate as acc
from eagerjit.compiler.codegen import across, columns, transpose
from eagerjit.compiler.codegen.builder import BITS, LLVM_TYPES, Value
from eagerjit.compiler.codegen.cast import memory_dtype
from eagerjit.compiler.codegen.column_sums import ColumnSums
from eagerjit.compiler.codegen.counted import repeat
from eagerjit.compiler.codegen.digits import digits
from eagerjit.compiler.codegen.memory_access import Tiles
from eagerjit.compiler.codegen.scalar import SCALAR_OPS, apply
from eagerjit.compiler.loops import (
    LANES,
    Accumulate,
    Check,
    Finish,
    Init,
    Kernel,
    Let,
    Load,
    Loop,
    Param,
    Stmt,
    Store,
    walk,
)  # fmt: skip

__all__ = ["SCALAR_OPS", "emit_kernel", "emit_module"]


def emit_module(kernels: Sequence[Kernel], width_bits: int) -> str:
    """One LLVM module with a function per kernel, for vector registers of `width_bits` (128, 256 or 512)."""
    width = f'"prefer-vector-width"="{width_bits}" "min-legal-vector-width"="{width_bits}"'
    emitters = [_Emitter(kernel, width_bits) for kernel in kernels]
    functions = [emitter.function() for emitter in emitters]
    helpers = sorted(set().union(*(emitter.b.helpers for emitter in emitters)))
    return "\n\n".join([*helpers, *functions, f'attributes #0 = {{ nounwind {width} "no-trapping-math"="true" }}\n'])


def emit_kernel(kernel: Kernel, width_bits: int) -> str:
    """The LLVM text of one kernel alone."""
    return emit_module([kernel], width_bits)


class _Emitter(ColumnSums):
    """Writes one kernel."""

    def __init__(self, kernel: Kernel, width_bits: int):
        super().__init__(kernel.params, {s.param for s in walk(kernel.body) if isinstance(s, Store)}, width_bits)
        self.kernel = kernel
        self.accumulators: dict[str, acc.Accumulator] = {}
        self.folding = self._folding_accumulators()
        self.copies = LANES
        self.first = self.b.constant("i64", 0)
        self.carried: frozenset[str] = frozenset()

    def _folding_accumulators(self) -> set[str]:
        """Accumulators that a vector loop adds to and that start outside it."""
        names: set[str] = set()
        for loop in walk(self.kernel.body):
            if isinstance(loop, Loop) and loop.kind == "vector":
                inner = list(walk(loop.body))
                started = {s.name for s in inner if isinstance(s, Init)}
                names |= {s.name for s in inner if isinstance(s, Accumulate)} - started
        return names

    def function(self) -> str:
        """The whole definition."""
        for position, param in enumerate(self.kernel.params):
            self._read_argument(position, param)
        self.body([s for s in walk(self.kernel.body) if isinstance(s, Let) and s.op == "const"])
        self.body(self.kernel.body)
        self.b.emit("ret i64 0")
        head = f'define i64 @"{self.kernel.name}"(ptr %args, i64 %begin, i64 %end, ptr %scratch) #0 {{\nentry:'
        return "\n".join([head, *self.b.allocas, *self.b.lines, "}"])

    def _read_argument(self, position: int, param: Param) -> None:
        b = self.b
        dtype = {"memory": "ptr", "size": "i64", "number": "f64", "scratch": "i64"}[param.kind]
        place = b.name("%a")
        b.emit(f"{place} = getelementptr i64, ptr %args, i64 {position}")
        value = Value(b, dtype, 0, b.name("%v"), 0)
        b.emit(f"{value.text} = load {LLVM_TYPES[dtype]}, ptr {place}")
        if param.kind == "scratch":
            offset, value = value, Value(b, "ptr", 0, b.name("%v"), 0)
            b.emit(f"{value.text} = getelementptr i8, ptr %scratch, i64 {offset.text}")
        self.values[param.name] = value

    # -- statements -----------------------------------------------------------------------------------------------

    def body(self, body: Sequence[Stmt]) -> None:
        """Writes statements."""
        for statement in body:
            match statement:
                case Let(name) if name in self.carried:
                    pass
                case Let(name, op, args, dtype, number):
                    # Only sums and products of the user's own: elementary functions need every rounding of theirs.
                    self.b.contract = self.kernel.contract and op in ("add", "sub", "mul")
                    self.values[name] = apply(self.b, op, tuple(map(self.value, args)), dtype, number)
                    self.b.contract = False
                case Load(name, _, _, dtype) if name in self.tiles:
                    self.values[name] = self.tile(self.tiles[name], dtype)
                case Load(name, param, index, dtype) if (param, index) in self.sums:
                    self.values[name] = acc.load(self.b, self.sums[param, index], dtype, self.lanes)
                case Load(name, param, index, dtype):
                    self.values[name] = self.load(param, index, dtype)
                case Store(param, index, value, second) if second:
                    self.store_pair(param, index, self.value(value), self.value(second))
                case Store(param, index, value) if (param, index) in self.sums:
                    acc.store(self.b, self.sums[param, index], self.b.broadcast(self.value(value), self.lanes))
                case Store(param, index, value):
                    self.store(param, index, self.value(value))
                case Loop("tasks"):
                    self._tasks(statement)
                case Loop() if (plan := self.plan_of_columns(statement)) is not None:
                    self.sums_of_columns(statement, plan)
                case Loop(kind) if kind == "serial" or self.together:
                    self.serial(statement, self.bound(statement.start), self.bound(statement.stop))
                case Loop():
                    self.vector(statement)
                case Init(name, op, dtype):
                    self._init(name, op, dtype)
                case Accumulate(name, value):
                    self._accumulate(name, value)
                case Finish(name, accumulator, dtype):
                    self.values[name] = acc.finish(self.b, self.accumulators[accumulator], dtype)
                case Check(condition, status):
                    self._check(self.value(condition), status)

    def plan_of_columns(self, loop: Loop) -> columns.Plan | None:
        """How a loop adds to sums of columns, if it does."""
        return None if self.together else columns.plan(loop, self.stored, self.b.width_bits)

    def _init(self, name: str, op: str, dtype: str) -> None:
        # The first of the largest elements is the same one in any order: their loop can take them as they come.
        folds = name in self.folding and not (self.together and op in acc.EXTREMES)
        copies = self.copies if folds and self.together else 0
        lanes = LANES if folds and not copies else self.lanes
        known = self.accumulators.get(name)
        if known is None or (known.lanes, known.copies) != (lanes, copies):
            self.accumulators[name] = acc.open_accumulator(self.b, op, dtype, lanes, folds, copies)
        acc.initialize(self.b, self.accumulators[name])

    def has_parts(self, accumulators: Sequence[str]) -> bool:
        """Whether part of the lanes of these accumulators can be added to."""
        return all(acc.has_parts(self.accumulators[name]) for name in accumulators)

    def _accumulate(self, name: str, value: str) -> None:
        accumulator = self.accumulators[name]
        if accumulator.folds and self.lanes < accumulator.lanes:
            assert self.first_lane is not None
            accumulator = acc.part(self.b, accumulator, self.values[self.variables[-1]] - self.first_lane, self.lanes)
        index = self.value(self.variables[-1]) if self.variables else None
        self.b.contract = self.kernel.contract
        mask = self.mask if accumulator.folds else None
        position = index - self.first if index and accumulator.copies else None
        acc.accumulate(self.b, accumulator, self.value(value), index, mask, position)
        self.b.contract = False

    def _check(self, condition: Value, status: int) -> None:
        b = self.b
        failed = ~condition
        if self.mask:
            failed = failed & self.mask
        fail, passed = b.name("fail"), b.name("passed")
        b.emit(f"br i1 {b.any_lane(failed).text}, label %{fail}, label %{passed}")
        b.label(fail)
        b.emit(f"ret i64 {status}")
        b.label(passed)
        self.checked = True

    # -- loops ----------------------------------------------------------------------------------------------------

    def serial(self, loop: Loop, start: Value, stop: Value) -> None:
        """A loop over its body, for other bounds than its own perhaps."""
        b = self.b
        enter, done = b.name("enter"), b.name("done")
        b.emit(f"br i1 {(start < stop).text}, label %{enter}, label %{done}")
        b.label(enter)
        self.first = start

        indices, carried = digits(loop, self.values), self.carried
        first = indices.first(start)
        slots = [b.alloca("i64") for _ in first]

        def keep(state: Sequence[Value]) -> None:
            for slot, value in zip(slots, state, strict=True):
                acc.store(b, slot, value)

        keep(first)

        def body(variable: Value) -> None:
            self.values[loop.var] = variable
            state = [acc.load(b, slot, "i64", 0) for slot in slots]
            named = indices.values(state)
            self.carried = carried | named.keys()
            self.values.update(named)
            self.body(loop.body)
            keep(indices.following(state, b.constant("i64", 1)))

        self.variables.append(loop.var)
        repeat(b, start, 1, stop, body)
        self.variables.pop()
        self.carried = carried
        b.emit(f"br label %{done}")
        b.label(done)

    # -- blocks of tasks ------------------------------------------------------------------------------------------

    def _tasks(self, loop: Loop) -> None:
        """The tasks of this call, in blocks where the plan says so; their indices count along."""
        b = self.b
        start, stop = (Value(b, "i64", 0, name, 0) for name in ("%begin", "%end"))
        plan = transpose.plan(loop, self.stored, b.width_bits) or across.plan(loop, self.scratch)
        indices = digits(loop, self.values)
        enter, done = b.name("enter"), b.name("done")
        b.emit(f"br i1 {(start < stop).text}, label %{enter}, label %{done}")
        b.label(enter)
        known = set(b.frames[-1].known)
        first = [start, *indices.first(start)]
        before, head = b.name("before"), b.name("tasks")
        b.emit(f"br label %{before}")
        b.label(before)
        b.open_loop()
        b.emit(f"br label %{head}")
        b.label(head)
        state = [Value(b, "i64", 0, b.name("%v"), b.depth) for _ in first]
        place = len(b.lines)
        b.lines += [""] * len(state)
        named = indices.values(state[1:])
        self.carried = frozenset(named)
        self.values.update(named)
        self.values[loop.var] = state[0]
        self.first = start
        self.variables.append(loop.var)
        count = b.constant("i64", 1)
        if plan is None:
            self.body(loop.body)
        else:
            count = self._blocks(plan, loop, stop)
        self.variables.pop()
        ends = [state[0] + count, *indices.following(state[1:], count)]
        for k, (value, begin, end) in enumerate(zip(state, first, ends, strict=True)):
            b.lines[place + k] = f"  {value.text} = phi i64 [ {begin.text}, %{before} ], [ {end.text}, %{b.block} ]"
        b.emit(f"br i1 {(ends[0] < stop).text}, label %{head}, label %{done}")
        b.close_loop()
        b.forget_since(known)
        b.label(done)

    def _blocks(self, plan: transpose.Plan | across.Plan, loop: Loop, stop: Value) -> Value:
        """The largest block of tasks that fits, else a single one; how many they were."""
        b, task, joined = self.b, self.values[loop.var], self.b.name("joined")
        values, known, ends = dict(self.values), set(b.frames[-1].known), []
        for count in (*plan.blocks, 1):
            block, smaller = b.name("block"), b.name("smaller")
            self.values.update(values)
            if count > 1:
                b.emit(f"br i1 {self._block_fits(plan, count, task, stop).text}, label %{block}, label %{smaller}")
                b.label(block)
            kept = set(b.frames[-1].known)
            if count == 1:
                self.body(loop.body)
            elif isinstance(plan, transpose.Plan):
                self._block(plan, count, loop.var, task)
            else:
                self._together(plan, count, loop)
            ends.append((str(count), b.block))
            b.emit(f"br label %{joined}")
            b.forget_since(kept)
            if count > 1:
                b.label(smaller)
        b.forget_since(known)
        b.label(joined)
        return b.phi("i64", 0, ends, b.depth)

    def _block_fits(self, plan: transpose.Plan | across.Plan, count: int, task: Value, stop: Value) -> Value:
        """Whether so many tasks, and as many elements, lie before the ends, and no remainder wraps around in them."""
        more = count - 1
        fits = task + more < stop
        if isinstance(plan, across.Plan) and plan.extent:
            fits = fits & (self.bound(plan.extent) <= across.SHORT)
        if isinstance(plan, transpose.Plan):
            fits = fits & (self.bound(plan.vector.start) + more < self.bound(plan.vector.stop))
            for load in plan.loads if count > plan.lanes else ():
                fits = fits & (self.distance(load, plan.vector) & (transpose.PERIOD // BITS[load.dtype] - 1)).eq(0)
        for wrap in plan.wraps:
            if wrap.op == "rem":
                fits = fits & (self.values[wrap.name] + more < self.values[wrap.args[1]])
        return fits

    def _together(self, plan: across.Plan, tasks: int, loop: Loop) -> None:
        """Several tasks, each statement for all of them: they are the lanes."""
        self.together, self.lanes, self.copies = True, tasks, plan.copies
        self.vector_variables = {loop.var, *(wrap.name for wrap in plan.wraps if wrap.op == "rem")}
        self.body([s for s in loop.body if s not in plan.wraps])
        self.together, self.lanes, self.vector_variables = False, 0, set()

    def _block(self, plan: transpose.Plan, tasks: int, variable: str, task: Value) -> None:
        """Several tasks: as many elements of each are transposed, then each task's body runs on its part of them.

        Of squares on the stack in a loop over the tasks; of squares in registers it is written out for each.
        """
        b, loop = self.b, plan.vector
        start, stop = self.bound(loop.start), self.bound(loop.stop)
        self.body(plan.numbers)
        origin = {wrap.name: self.values[wrap.name] for wrap in plan.wraps}
        zero, count = b.constant("i64", 0), b.constant("i64", tasks)
        slots = {} if plan.copies else {
            s.name: b.alloca(f"[{tasks} x {b.type(memory_dtype(s.dtype), tasks)}]") for s in plan.loads
        }

        def begin(k: Value) -> None:
            self.values[variable] = task + k
            for wrap in plan.wraps:
                self.values[wrap.name] = origin[wrap.name] + k if wrap.op == "rem" else origin[wrap.name]

        def one_task(k: Value, first: Value, lanes: int, tiles: Tiles, end: Value | None = None) -> None:
            begin(k)
            self.body([s for s in plan.rows if s not in plan.wraps])
            self.tiles = tiles
            self.step(loop, first, lanes, end)
            self.tiles = {}

        def square(first: Value) -> None:
            begin(zero)
            self.values[loop.var] = first
            for load in plan.loads:
                self.turn(load, loop, slots[load.name], plan.lanes, tasks)
            repeat(b, zero, 1, count, lambda k: one_task(k, first, tasks, {n: (s, k) for n, s in slots.items()}))

        def written_out(k: Value, first: Value) -> None:
            begin(k)
            self.values[loop.var] = first
            turned = {s.name: self.turned(s, loop, plan.lanes, zero, zero) for s in plan.loads}
            for row in range(plan.lanes):
                one_task(k + row, first, plan.lanes, {name: vectors[row] for name, vectors in turned.items()})

        def squares(first: Value) -> None:
            after, step = first + count, plan.lanes
            repeat(b, zero, step, count, lambda k: repeat(b, first, step, after, lambda at: written_out(k, at)))

        def partly(k: Value, first: Value) -> None:
            one_task(k, first, plan.lanes, {}, b.intrinsic("smin", first + plan.lanes, stop))

        rest = repeat(b, start, tasks, stop - (tasks - 1), squares if plan.copies else square)
        tail, done = b.name("tail"), b.name("done")
        b.emit(f"br i1 {(rest < stop).text}, label %{tail}, label %{done}")
        b.label(tail)
        repeat(b, rest, plan.lanes, stop, lambda at: repeat(b, zero, 1, count, lambda k: partly(k, at)))
        b.emit(f"br label %{done}")
        b.label(done)
