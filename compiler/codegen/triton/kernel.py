"""Kernel IR -> the text of a Triton kernel, in one of the shapes that `mapping.py` found."""

from __future__ import annotations

from collections.abc import Sequence

from eagerjit.compiler.codegen.triton.mapping import at_once, blocks_of, crowded
from eagerjit.compiler.codegen.triton.names import Axes, Name, memory_of, readers
from eagerjit.compiler.codegen.triton.one_pass import exponentials, one_pass
from eagerjit.compiler.codegen.triton.operations import Function
from eagerjit.compiler.codegen.triton.reductions import Accumulators
from eagerjit.compiler.loops import (
    Accumulate,
    Check,
    Finish,
    Init,
    Let,
    Load,
    Loop,
    Stmt,
    Store,
    walk,
)  # fmt: skip
from eagerjit.runtime.records import replace

FAIL = '''@triton.jit
def fail(status, failed, number):
    tl.store(status + failed.to(tl.int32) * 0, number, mask=failed)
'''


class KernelText(Accumulators):
    """Writes one kernel in one shape."""

    position = "tl.program_id(0)"
    """The program's number among those of the kernel."""

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        tasks = next(s for s in self.kernel.body if isinstance(s, Loop))
        self.statements([s for s in self.kernel.body if s is not tasks])
        if self.shape.vectors == "grid":
            extent = next(s.stop for s in walk(tasks.body) if isinstance(s, Loop) and s.kind == "vector")
            self.emit(f"blocks = {blocks_of(str(extent), 'LANES')}")
            self.emit("block = tl.program_id(0) % blocks")
            self.emit("program = tl.program_id(0) // blocks")
        else:
            self.emit(f"program = {self.position}")
        if self.shape.split:
            extent = next(s.stop for s in walk(tasks.body) if isinstance(s, Loop) and s.kind == "vector")
            self.emit(f"parts = {blocks_of(str(extent), 'PART')}")
            self.emit("part = program % parts")
            self.emit("program = program // parts")
        self.emit("if WIDE:")
        self.emit("    program = program.to(tl.int64)")
        if self.shape.tiled:
            self.emit(f"{tasks.var} = program * TASKS + tl.arange(0, TASKS)[:, None]")
            self.emit(f"row = {tasks.var} < tasks")
            self.values[tasks.var] = Name(tasks.var, "index", frozenset("t"))
            if self.shape.vectors != "loop" or self.shape.split:  # else a program has one task, which there is
                self.conditions.append(("row", frozenset("t")))
        else:
            self.emit(f"{tasks.var} = program")
            self.values[tasks.var] = Name(tasks.var, "index")
        body: Sequence[Stmt] = tasks.body
        if self.shape.vectors == "loop":
            self.exponentials, found = exponentials(body), one_pass(body)
            if found is not None:
                self.follow_maximum(found)
                body = found.body
                self.readers = readers(body)
        self.statements(body)
        return self.lines

    # -- statements ---------------------------------------------------------------------------------------------------

    def statements(self, body: Sequence[Stmt]) -> None:
        """A run of statements."""
        for s in body:
            match s:
                case Let():
                    self.let(s)
                case Load(name, param, index, dtype):
                    self.load(name, param, index, dtype)
                case Store(param, index):
                    for place, value in enumerate(s.values):
                        self.store(param, index, self.wide(value), place)
                case Loop("serial"):
                    self.serial(s)
                case Loop():
                    self.vector_loop(s)
                case Init(name, op, dtype):
                    self.init(name, op, dtype)
                case Accumulate(name, value):
                    self.accumulate(name, self.wide(value))
                case Finish(name, accumulator, dtype):
                    self.finish(name, accumulator, dtype)
                case Check(condition, status):
                    self.check(self.values[condition], status)

    # -- loops --------------------------------------------------------------------------------------------------------

    def _bound(self, bound: int | str) -> str:
        return str(bound) if isinstance(bound, int) else self.values[bound].text

    def serial(self, loop: Loop) -> None:
        written = {s.param for s in walk(loop.body) if isinstance(s, Store)}
        self._repeat(loop.var, f"{self._bound(loop.start)}, {self._bound(loop.stop)}", bool(written - self.shape.kept))
        self.values[loop.var] = Name(loop.var, "index")
        outside = self._enter(written)
        self.statements(loop.body)
        self._leave(outside)
        for param in sorted(self.shape.kept & written):
            place = self.values[f"{param}_place"].text
            mask = self.mask(frozenset("i"))
            self.emit(f"tl.store({place}, {param}_sum{f', mask={mask}' if mask else ''})")

    def _repeat(self, variable: str, bounds: str, plain: bool) -> None:
        """The head of a loop; one that only reads is unrolled, so that several reads are on their way."""
        if plain:
            self.emit(f"for {variable} in range({bounds}):")
        else:
            self.emit(f"for {variable} in tl.range({bounds}, loop_unroll_factor=4):")

    def _enter(self, written: set[str]) -> tuple[dict[object, str], list[tuple[str, Axes]], dict[tuple[str, ...], str]]:
        outside = (self.known, self.conditions, self.masks)
        self.known = {k: v for k, v in self.known.items() if not isinstance(k, tuple) or memory_of(k) not in written}
        self.conditions, self.masks = list(self.conditions), dict(self.masks)
        self.stored |= written - self.shape.kept
        self.depth += 1
        return outside

    def _leave(self, outside: tuple[dict[object, str], list[tuple[str, Axes]], dict[tuple[str, ...], str]]) -> None:
        written = self.stored
        self.known, self.conditions, self.masks = outside
        self.known = {k: v for k, v in self.known.items() if not isinstance(k, tuple) or memory_of(k) not in written}
        self.depth -= 1

    def vector_loop(self, loop: Loop) -> None:
        if crowded(self.kernel):
            loop = replace(loop, body=tuple(at_once(loop.body)))
        self.vector = loop
        self.values[loop.var] = Name(loop.var, "index", frozenset("i"))
        if self.shape.vectors == "loop":
            self._in_parts(loop)
        else:
            start = "block * LANES + " if self.shape.vectors == "grid" else ""
            if loop.start != 0:
                start = f"{self._bound(loop.start)} + "
            self._lanes(loop, start + self.positions("LANES"))
            self.statements(loop.body)
        self.vector = None

    def _in_parts(self, loop: Loop) -> None:
        """The loop, part by part where something is summed; where programs share a task, the one part of a program."""
        summed = [s.name for s in loop.body if isinstance(s, Accumulate) and self.has_parts(s.name)]
        start, stop = self._bound(loop.start), self._bound(loop.stop)
        if self.shape.split:
            self.emit("begin = part * PART")
            self._part(loop, stop)
            return
        if not summed:
            self._in_steps(loop)
            return
        self.emit(f"for begin in range({start}, {stop}, PART):")
        outside = self._enter({s.param for s in walk(loop.body) if isinstance(s, Store)})
        for name in summed:
            self.begin_part(name)
        self._part(loop, stop)
        for name in summed:
            self.end_part(name)
        self._leave(outside)

    def _part(self, loop: Loop, stop: str) -> None:
        """What of a loop begins at `begin`."""
        self.emit(f"end = tl.minimum(begin + PART, {stop})")
        self.values |= {name: Name(name, "index") for name in ("begin", "end")}
        self._in_steps(replace(loop, start="begin", stop="end"))

    def _in_steps(self, loop: Loop) -> None:
        """The loop in steps of LANES elements, more where nothing is summed: all but the last without a mask."""
        lanes = "LANES" if any(isinstance(s, Accumulate) for s in loop.body) else "4 * LANES"
        first, whole = f"first{self.steps}", f"whole{self.steps}"
        self.steps += 1
        start, stop = self._bound(loop.start), self._bound(loop.stop)
        count = stop if loop.start == 0 else f"tl.maximum({stop} - {start}, 0)"
        step = lanes if lanes == "LANES" else f"({lanes})"
        self.emit(f"{whole} = {start} + {count} // {step} * {step}")
        written = {s.param for s in walk(loop.body) if isinstance(s, Store)}
        for bounds, inside in ((f"{start}, {whole}", True), (f"{whole}, {stop}", False)):
            self._repeat(first, f"{bounds}, {lanes}", bool(written) or not inside or crowded(self.kernel))
            outside = self._enter(written)
            self._lanes(loop, f"{first} + {self.positions(lanes)}", inside)
            self.statements(loop.body)
            self._leave(outside)

    def _lanes(self, loop: Loop, text: str, inside: bool = False) -> None:
        """The loop's variable and the condition that it is within the loop, unless all lanes are."""
        key = ("lanes", text, loop.stop)
        if key in self.known:
            return
        self.known[key] = loop.var
        self.emit(f"{loop.var} = {text}")
        if inside:
            return
        self.emit(f"column = {loop.var} < {self._bound(loop.stop)}")
        if ("column", frozenset("i")) not in self.conditions:
            self.conditions.append(("column", frozenset("i")))

    # -- checks -------------------------------------------------------------------------------------------------------

    def check(self, condition: Name, status: int) -> None:
        """Lanes that fail say so and do no more."""
        self.uses_status = True
        mask = self.mask(condition.axes)
        failed = f"~{condition.text}" + (f" & {mask}" if mask else "")
        self.functions["fail"] = Function("fail", FAIL)
        self.emit(f"fail(status, {failed}, {status})")
        if (condition.text, condition.axes) not in self.conditions:
            self.conditions.append((condition.text, condition.axes))
