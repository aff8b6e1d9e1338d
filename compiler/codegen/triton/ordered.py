"""Rows added to rows in Triton, in order and in parallel: the same bits as one after the other.

The first entry of those with the same destination is the one that does the work: it finds out that no entry before it
has its index, then adds the others' rows as it meets them. A program compares many indices at a time, so looking is
cheap; what takes time is adding, and entries of different destinations do it at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import Shape, largest
from eagerjit.compiler.codegen.triton.names import Name
from eagerjit.compiler.codegen.triton.operations import HALVES, Function
from eagerjit.compiler.codegen.triton.source import (
    INT32,
    TILE,
    Launch,
    TritonSource,
    file_text,
    multiples,
    power_of_two,
    warps_for,
)  # fmt: skip
from eagerjit.compiler.codegen.triton.tiles import DEFAULT
from eagerjit.compiler.loops import Check, Kernel, Let, Load, Loop, Ordered, Stmt, Store

LOOK = 1024
"""Indices that a program compares at a time."""
COLUMNS = 32
"""Columns of a program that goes from entry to entry: few, so that there are many programs."""
LANES_OF: frozenset[str] = frozenset("i")


class OrderedText(KernelText):
    """Writes one such kernel."""

    def __init__(self, statement: Ordered):
        super().__init__(statement.kernel, Shape(False, "whole"))
        self.statement = statement
        self.head = [s for s in statement.kernel.body if not isinstance(s, Loop)]
        _, self.entries_loop, self.across = loops_of(statement.kernel)
        self.row = [s for s in self.entries_loop.body if s is not self.across]
        *self.value, last = self.across.body
        assert isinstance(last, Store)
        self.store_ = last

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        self.statements(self.head)
        count, width = (str(self._bound(x)) for x in (self.entries_loop.stop, self.across.stop))
        for name, text in (("smaller", "tl.minimum(x, y)"), ("either_of", "x | y")):
            self.functions[name] = Function(name, f"@triton.jit\ndef {name}(x, y):\n    return {text}\n")
        self._lines(
            f"blocks = ({width} + LANES - 1) // LANES",
            "block = tl.program_id(0) % blocks",
            "entry = tl.program_id(0) // blocks",
            "if WIDE:",
            "    entry = entry.to(tl.int64)",
            "    block = block.to(tl.int64)",
            "i = block * LANES + tl.arange(0, LANES)",
            f"column = i < {width}",
        )
        self.values[self.across.var] = Name("i", "index", LANES_OF)
        self.values[self.entries_loop.var] = Name("entry", "index")
        self.conditions.append(("column", LANES_OF))
        self.statements(self.row)
        self.emit(f"own = {self.values[self.statement.key].text}")
        self._look("found = tl.full((LOOK,), 0, tl.int32)", "0, entry", "entry", "_before")
        self.emit("    found = found | same.to(tl.int32)")
        self.emit("if tl.reduce(found, 0, either_of) == 0:")
        outside = self._enter(set())
        self._add("", self.value)
        self._look("", f"entry + 1, {count}", count, "_after")
        self.depth += 1
        self.emit(f"places = tl.where(same, j, {count})")
        self.emit("nearest = tl.reduce(places, 0, smaller)")
        self.emit(f"while nearest < {count}:")
        inner = self._enter(set())
        self.values[self.entries_loop.var] = Name("nearest", "index")
        self.statements(_renamed([s for s in self.row if not isinstance(s, Check)], "_next"))
        self._add("_next", self.value)
        self.emit(f"places = tl.where(places > nearest, places, {count})")
        self.emit("nearest = tl.reduce(places, 0, smaller)")
        self._leave(inner)
        self.depth -= 1
        self.values[self.entries_loop.var] = Name("entry", "index")
        dtype = self.dtypes[self.store_.param]
        self.store(self.store_.param, self.store_.index, Name("kept", dtype, LANES_OF))
        self._leave(outside)
        return self.lines

    def _lines(self, *lines: str) -> None:
        for line in lines:
            self.emit(line)

    def _look(self, start: str, bounds: str, stop: str, suffix: str) -> None:
        """A loop over blocks of other entries: which have the same destination."""
        self._lines(
            *([start] if start else []),
            f"for first in range({bounds}, LOOK):",
            "    j = first + tl.arange(0, LOOK)",
            f"    among = j < {stop}",
        )
        outside = self._enter(set())
        self.conditions = [("among", LANES_OF)]
        self.values[self.entries_loop.var] = Name("j", "index", LANES_OF)
        needed = self._needed()
        self.statements(_renamed(needed, suffix))
        equal = f"({self.values[self.statement.key + suffix].text} == own) & " if needed else ""
        self.emit(f"same = {equal}among")
        self._leave(outside)
        self.values[self.entries_loop.var] = Name("entry", "index")

    def _needed(self) -> list[Stmt]:
        """What an entry's index is computed from."""
        needed = {self.statement.key}
        found: list[Stmt] = []
        for s in reversed(self.row):
            if isinstance(s, Let | Load) and s.name in needed:
                found.append(s)
                needed |= set(s.args) if isinstance(s, Let) else {name for name, _ in s.index}
        return found[::-1]

    def _add(self, suffix: str, body: Sequence[Stmt]) -> None:
        """One entry's row joins what is kept."""
        before = next((s.name for s in body if isinstance(s, Load) and s.param == self.store_.param), None)
        statements = _renamed(body, suffix, {s.name for s in self.row if isinstance(s, Let | Load)} if suffix else ())
        dtype = self.dtypes[self.store_.param]
        if suffix and before is not None:
            statements = [s for s in statements if not (isinstance(s, Load) and s.param == self.store_.param)]
            self.values[before + suffix] = Name("kept", dtype, LANES_OF)
        self.statements(statements)
        name = self.store_.value + suffix
        result = self.wide(name if name in self.values else self.store_.value)
        kind = "f32" if dtype in HALVES else dtype
        self.emit(f"kept = {self._filled_like(result, kind)}")

    def _filled_like(self, value: Name, kind: str) -> str:
        """A value as a block of the columns."""
        text = self.typed(value)
        return text if value.axes else f"tl.where(column, {text}, {text})"


def _renamed(body: Sequence[Stmt], suffix: str, further: Sequence[str] | set[str] = ()) -> list[Stmt]:
    """The statements with other names, and so with values of their own."""
    names = {s.name for s in body if isinstance(s, Let | Load)} | set(further)

    def other(name: str) -> str:
        return name + suffix if name in names else name

    made: list[Stmt] = []
    for s in body:
        match s:
            case Let():
                made.append(replace(s, name=other(s.name), args=tuple(map(other, s.args))))
            case Load():
                made.append(replace(s, name=other(s.name), index=tuple((other(n), step) for n, step in s.index)))
            case _:
                made.append(s)
    return made


class LinesText(KernelText):
    """Writes a kernel without a key: a block of columns per program, entry after entry."""

    def __init__(self, statement: Ordered):
        super().__init__(statement.kernel, Shape(False, "whole"))

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        self.statements([s for s in self.kernel.body if not isinstance(s, Loop)])
        _, serial, across = loops_of(self.kernel)
        for line in (
            "block = tl.program_id(0)",
            "if WIDE:",
            "    block = block.to(tl.int64)",
            "i = block * LANES + tl.arange(0, LANES)",
            f"column = i < {self._bound(across.stop)}",
        ):
            self.emit(line)
        self.values[across.var] = Name("i", "index", LANES_OF)
        self.conditions.append(("column", LANES_OF))
        written = {s.param for s in across.body if isinstance(s, Store)}
        self._repeat("entry", f"{self._bound(serial.start)}, {self._bound(serial.stop)}", written)
        self.values[serial.var] = Name("entry", "index")
        outside = self._enter(written)
        self.statements(across.body)
        self._leave(outside)
        return self.lines


def loops_of(kernel: Kernel) -> tuple[Loop, Loop, Loop]:
    """The loops over tasks, over entries and across columns, one in the other."""
    (tasks,) = (s for s in kernel.body if isinstance(s, Loop))
    (serial,) = (s for s in tasks.body if isinstance(s, Loop))
    (across,) = (s for s in serial.body if isinstance(s, Loop))
    return tasks, serial, across


class OrderedKernel:
    """Such a kernel of the IR for the GPU, used like a `TritonKernel`."""

    def __init__(self, kernel: Kernel, lines: Sequence[str] = ()):
        (statement,) = kernel.body
        assert isinstance(statement, Ordered)
        self.kernel, self.statement, self.lines = kernel, statement, tuple(lines)

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file."""
        writer = OrderedText(self.statement) if self.statement.key else LinesText(self.statement)
        writer.body()
        constants = ("LANES", "LOOK", "WIDE") if self.statement.key else ("LANES", "WIDE")
        return (file_text(self.kernel, writer, self.kernel.params, constants, self.lines),)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and grid for these sizes; `tasks` is the number of entries."""
        _, _, across = loops_of(self.statement.kernel)
        width = sizes[across.stop] if isinstance(across.stop, str) else across.stop
        lanes = min(power_of_two(width), TILE)
        reach = max(largest(self.statement.kernel, 1, sizes), tasks * max(width, 1))
        source = self.sources[0]
        if not self.statement.key:
            lanes = min(lanes, COLUMNS)
            constants = {"LANES": lanes, "WIDE": int(reach >= INT32)}
            return Launch(source, constants, 1, max(-(-tasks // lanes), 1), multiples(source, tasks, sizes))
        look = min(power_of_two(tasks), LOOK)
        constants = {"LANES": lanes, "LOOK": look, "WIDE": int(reach >= INT32)}
        programs = max(tasks * -(-width // lanes), 1)
        warps = warps_for(max(lanes, look))
        return Launch(source, constants, warps, programs, multiples(source, tasks, sizes))
