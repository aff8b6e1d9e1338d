"""Kernel IR -> LLVM text.

    int64 kernel(int64 *args, int64 begin, int64 end, char *scratch)

`args` holds the parameters in order: pointers, i64 sizes, bits of f64 numbers. The call runs tasks begin..end and
returns 0 or the status of the first check that failed. No two parameters are promised not to overlap: a kernel that
works in place stores where it has just loaded.

A vector loop runs whole vectors, then one masked step for the rest; lanes that are off touch no memory. Loads that
don't vary in a loop move out of it, if their parameter is never stored to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagerjit.compiler.codegen import accumulate as acc
from eagerjit.compiler.codegen.builder import BITS, LLVM_TYPES, Value
from eagerjit.compiler.codegen.memory_access import MemoryAccess
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


def _walk(body: Sequence[Stmt]) -> Iterator[Stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from _walk(statement.body)


class _Emitter(MemoryAccess):
    """Writes one kernel."""

    def __init__(self, kernel: Kernel, width_bits: int):
        super().__init__(kernel.params, {s.param for s in _walk(kernel.body) if isinstance(s, Store)}, width_bits)
        self.kernel = kernel
        self.accumulators: dict[str, acc.Accumulator] = {}
        self.folding = self._folding_accumulators()

    def _folding_accumulators(self) -> set[str]:
        """Accumulators that a vector loop adds to and that start outside it."""
        names: set[str] = set()
        for loop in _walk(self.kernel.body):
            if isinstance(loop, Loop) and loop.kind == "vector":
                inner = list(_walk(loop.body))
                started = {s.name for s in inner if isinstance(s, Init)}
                names |= {s.name for s in inner if isinstance(s, Accumulate)} - started
        return names

    def function(self) -> str:
        """The whole definition."""
        for position, param in enumerate(self.kernel.params):
            self._read_argument(position, param)
        self._body(self.kernel.body)
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

    def _body(self, body: Sequence[Stmt]) -> None:
        for statement in body:
            match statement:
                case Let(name, op, args, dtype, number):
                    self.values[name] = apply(self.b, op, tuple(map(self._value, args)), dtype, number)
                case Load(name, param, index, dtype):
                    self.values[name] = self.load(param, index, dtype)
                case Store(param, index, value):
                    self.store(param, index, self._value(value))
                case Loop("tasks"):
                    self._serial(statement, *(Value(self.b, "i64", 0, n, 0) for n in ("%begin", "%end")))
                case Loop("serial"):
                    self._serial(statement, self._bound(statement.start), self._bound(statement.stop))
                case Loop():
                    self._vector(statement)
                case Init(name, op, dtype):
                    self._init(name, op, dtype)
                case Accumulate(name, value):
                    self._accumulate(name, value)
                case Finish(name, accumulator, dtype):
                    self.values[name] = acc.finish(self.b, self.accumulators[accumulator], dtype)
                case Check(condition, status):
                    self._check(self._value(condition), status)

    def _value(self, name: str) -> Value:
        if name == self.vector_variable:
            return self.values[name] + self.b.iota("i64", self.lanes)
        return self.values[name]

    def _bound(self, bound: int | str) -> Value:
        return self._value(bound) if isinstance(bound, str) else self.b.constant("i64", bound)

    def _init(self, name: str, op: str, dtype: str) -> None:
        if name not in self.accumulators:
            folds = name in self.folding
            lanes = LANES if folds else self.lanes
            self.accumulators[name] = acc.open_accumulator(self.b, op, dtype, lanes, folds)
        acc.initialize(self.b, self.accumulators[name])

    def _accumulate(self, name: str, value: str) -> None:
        accumulator = self.accumulators[name]
        index = self._value(self.variables[-1]) if self.variables else None
        acc.accumulate(self.b, accumulator, self._value(value), index, self.mask if accumulator.folds else None)

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

    def _serial(self, loop: Loop, start: Value, stop: Value) -> None:
        b = self.b
        before, head, done = b.name("before"), b.name("loop"), b.name("done")
        b.emit(f"br i1 {(start < stop).text}, label %{before}, label %{done}")
        b.label(before)
        b.open_loop()
        self.variables.append(loop.var)
        self._counted(loop, head, start, b.constant("i64", 1), stop, done)
        self.variables.pop()
        b.close_loop()
        b.label(done)

    def _counted(self, loop: Loop, head: str, start: Value, step: Value, stop: Value, done: str) -> Value:
        """A loop entered at least once, from the open block, that goes on to `done`; the variable's last value."""
        b = self.b
        before = b.block
        b.emit(f"br label %{head}")
        b.label(head)
        variable = Value(b, "i64", 0, b.name("%v"), b.depth)
        place = len(b.lines)
        b.lines.append("")
        self.values[loop.var] = variable
        self._body(loop.body)
        following = Value(b, "i64", 0, b.name("%v"), b.depth)
        b.emit(f"{following.text} = add i64 {variable.text}, {step.text}")
        b.lines[place] = f"  {variable.text} = phi i64 [ {start.text}, %{before} ], [ {following.text}, %{b.block} ]"
        b.emit(f"br i1 {(following < stop).text}, label %{head}, label %{done}")
        return following

    def _vector(self, loop: Loop) -> None:
        b = self.b
        start, stop = self._bound(loop.start), self._bound(loop.stop)
        self.lanes = self._width(loop)
        self.variables.append(loop.var)
        self.vector_variable = loop.var
        extent: int | None = None
        if isinstance(loop.start, int) and isinstance(loop.stop, int):
            extent = loop.stop - loop.start
        enter, main, middle, tail, done = (b.name(n) for n in ("enter", "main", "middle", "tail", "done"))
        last = stop - (self.lanes - 1)
        b.emit(f"br i1 {(start < stop).text}, label %{enter}, label %{done}")
        b.label(enter)
        b.open_loop()
        incoming = []
        if extent is None or extent >= self.lanes:
            before = b.name("before")
            b.emit(f"br i1 {(start < last).text}, label %{before}, label %{middle}")
            incoming.append((start.text, b.block))
            b.label(before)
            following = self._counted(loop, main, start, b.constant("i64", self.lanes), last, middle)
            incoming.append((following.text, b.block))
        else:
            incoming.append((start.text, b.block))
            b.emit(f"br label %{middle}")
        b.forget_body()
        b.label(middle)
        rest = b.phi("i64", 0, incoming, b.depth)
        if extent is None or extent % self.lanes:
            b.emit(f"br i1 {(rest < stop).text}, label %{tail}, label %{done}")
            b.label(tail)
            self._masked_step(loop, rest, stop)
        b.emit(f"br label %{done}")
        b.close_loop()
        self.variables.pop()
        self.vector_variable, self.lanes, self.mask = "", 0, None
        b.label(done)

    def _masked_step(self, loop: Loop, first: Value, stop: Value) -> None:
        """The body once, with only the lanes before `stop` on."""
        b = self.b
        left = b.convert("trunc", stop - first, "u32")
        self.mask = b.iota("u32", self.lanes) < left
        self.values[loop.var] = first
        self._body(loop.body)

    def _width(self, loop: Loop) -> int:
        """Lanes at a time: two vector registers' worth at most, where no accumulator fixes the number."""
        inner = list(_walk(loop.body))
        if any(isinstance(s, Accumulate) and s.name in self.folding for s in inner):
            return LANES
        wide = any(BITS[s.dtype] == 64 for s in inner if isinstance(s, Let | Load))
        return max(1, min(loop.lanes, self.b.width_bits // (32 if wide else 16)))
