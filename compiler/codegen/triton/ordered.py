"""Rows added to rows in Triton, in order and in parallel: the same bits as one after the other.

The first entry of those with the same destination is the one that does the work: it finds out that no entry before it
has its index, then adds the others' rows as it meets them. A program compares many indices at a time, so looking is
cheap; what takes time is adding, and entries of different destinations do it at the same time. Of many entries the
order by destinations is known: those of one are neighbours in it. Where the sum may be made of parts, the order is cut
into pieces: the first of a destination in a piece adds those that follow it there, and `joined.py` adds up the pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from eagerjit.compiler.codegen.triton.kernel import KernelText
from eagerjit.compiler.codegen.triton.mapping import Shape, blocks_of, known, largest
from eagerjit.compiler.codegen.triton.names import NONE, Axes, Name
from eagerjit.compiler.codegen.triton.operations import Function
from eagerjit.compiler.codegen.triton.source import (
    INT32,
    TILE,
    Launch,
    StatementKernel,
    TritonSource,
    multiples,
    warps_for,
)  # fmt: skip
from eagerjit.compiler.codegen.triton.tiles import DEFAULT, power_of_two
from eagerjit.compiler.loops import CROWDED, FEW, SHARED, Check, Kernel, Let, Load, Loop, Ordered, Stmt, Store
from eagerjit.runtime.records import replace

LOOK = 1024
"""Indices that a program compares at a time."""
NEIGHBOURS = 64
"""Neighbours in the order that a program looks at together."""
COLUMNS = 32
"""Columns of a program that goes from entry to entry: few, so that there are many programs."""
LANES_OF: frozenset[str] = frozenset("i")


class OrderedText(KernelText):
    """Writes one such kernel."""

    def __init__(self, statement: Ordered, by_order: bool):
        super().__init__(statement.kernel, Shape(False, "whole"))
        self.statement, self.by_order = statement, by_order
        self.head = [s for s in statement.kernel.body if not isinstance(s, Loop)]
        _, self.entries_loop, self.across = loops_of(statement.kernel)
        self.row = [s for s in self.entries_loop.body if s is not self.across]
        *self.value, last = self.across.body
        assert isinstance(last, Store)
        self.store_ = last
        self.before = next((s.name for s in self.value if isinstance(s, Load) and s.param == last.param), None)
        self.dtypes |= {statement.parts: self.dtypes[last.param]}

    def body(self) -> list[str]:
        """The kernel's lines without its head."""
        self.statements(self.head)
        count, width = (str(self._bound(x)) for x in (self.entries_loop.stop, self.across.stop))
        self._lines(
            f"blocks = {blocks_of(width, 'LANES')}",
            "block = tl.program_id(0) % blocks",
            "entry = tl.program_id(0) // blocks",
            "if WIDE:",
            "    entry = entry.to(tl.int64)",
            "    block = block.to(tl.int64)",
            "i = block * LANES + tl.arange(0, LANES)",
            f"column = i < {width}",
        )
        if self.by_order:
            self._lines("position = entry", f"entry = tl.load({self.statement.order} + position)")
        self.values[self.across.var] = Name("i", "index", LANES_OF)
        self.values[self.entries_loop.var] = Name("entry", "index")
        self.conditions.append(("column", LANES_OF))
        self.statements(self.row)
        self.emit(f"own = {self.values[self.statement.key].text}")
        if self.by_order and self.before is None:
            self._last_of_neighbours(count)
        elif self.by_order:
            self._among_neighbours(count)
        else:
            self._among_all(count)
        return self.lines

    def _among_all(self, count: str) -> None:
        """The first entry of its index looks for the others in all that come later."""
        self._combine("smaller", "tl.minimum(x, y)")
        self._combine("either_of", "x | y")
        self.emit("found = tl.full((LOOK,), 0, tl.int32)")
        self._look("0, entry", "entry", "_before")
        self.emit("    found = found | same.to(tl.int32)")
        self.emit("if tl.reduce(found, 0, either_of) == 0:")
        outside = self._enter(set())
        self._add("", self.value)
        self._look(f"entry + 1, {count}", count, "_after")
        self.depth += 1
        self.emit(f"places = tl.where(same, j, {count})")
        self.emit("nearest = tl.reduce(places, 0, smaller)")
        self.emit(f"while nearest < {count}:")
        self._add_nearest()
        self.emit(f"    places = tl.where(places > nearest, places, {count})")
        self.emit("    nearest = tl.reduce(places, 0, smaller)")
        self.depth -= 1
        self.store(self.store_.param, self.store_.index, self._kept)
        self._leave(outside)

    def _among_neighbours(self, count: str) -> None:
        """The first in the order with its index adds those that follow it, as many as it looks at together."""
        order, shared = self.statement.order, bool(self.statement.parts)
        self._combine("sum_of", "x + y")
        self.emit(f"before = tl.load({order} + tl.maximum(position - 1, 0))")
        self.emit(f"same = {self._alike('before', NONE, '_before')}(position > 0)")
        self.emit(f"if (same == 0) | (position % {SHARED} == 0):" if shared else "if same == 0:")
        outside = self._enter(set())
        there = [s for s in self.value if shared and isinstance(s, Load) and s.param == self.store_.param]
        self.conditions.append(("(same == 0)", NONE))  # what is there is another program's, which may write it
        self.statements(there)
        self.conditions.pop()
        self._add("", [s for s in self.value if s not in there])
        if shared:
            self.emit(f"kept = tl.where(same, {self._filled_like(self._incoming)}, kept)")
            self.emit(f"piece = position // {SHARED}")
            self.emit(f"stop = tl.minimum(piece * {SHARED} + {SHARED}, {count})")
            count = "stop"
        self._lines("first = position + 1", "more = True", "while more:")
        within = self._enter(set())
        self._lines(
            "j = first + tl.arange(0, LOOK)",
            f"among = j < {count}",
            f"others = tl.load({order} + j, mask=among, other=0)",
        )
        conditions, self.conditions = self.conditions, [("among", LANES_OF)]
        self.emit(f"same_after = {self._alike('others', LANES_OF, '_after')}among")
        self.conditions = conditions
        self.emit("length = tl.reduce(same_after.to(tl.int32), 0, sum_of)")
        self.emit("for number in range(first, first + length):")
        self.emit(f"    nearest = tl.load({order} + number)")
        self._add_nearest()
        self._lines("first += LOOK", "more = length == LOOK")
        self._leave(within)
        if shared:
            self._store_shared()
        else:
            self.store(self.store_.param, self.store_.index, self._kept)
        self._leave(outside)

    def _store_shared(self) -> None:
        """What began with a destination's first entry is kept there, that of a later piece is a part."""
        self.values["piece"] = Name("piece", "index")
        of_piece = (("piece", str(self._bound(self.across.stop))), (self.across.var, 1))
        for head, param, index in (
            ("if same == 0:", self.store_.param, self.store_.index), ("else:", self.statement.parts, of_piece)
        ):  # fmt: skip
            self.emit(head)
            outside = self._enter(set())
            self.store(param, index, self._kept)
            self._leave(outside)

    def _last_of_neighbours(self, count: str) -> None:
        """The last in the order with its index takes the place of all others."""
        self.emit(f"after = tl.load({self.statement.order} + tl.minimum(position + 1, {count} - 1))")
        self.emit(f"same = {self._alike('after', NONE, '_after')}(position + 1 < {count})")
        self.emit("if same == 0:")
        outside = self._enter(set())
        self._add("", self.value)
        self.store(self.store_.param, self.store_.index, self._kept)
        self._leave(outside)

    @property
    def _incoming(self) -> Name:
        """An entry's own value, before it joins what is there."""
        joins = next(s for s in self.value if isinstance(s, Let) and s.name == self.store_.value)
        return self.wide(joins.args[1])

    @property
    def _kept(self) -> Name:
        return Name("kept", self.dtypes[self.store_.param], LANES_OF)

    def _lines(self, *lines: str) -> None:
        for line in lines:
            self.emit(line)

    def _combine(self, name: str, both: str) -> None:
        """A function that combines two elements of a block."""
        self.functions[name] = Function(name, f"@triton.jit\ndef {name}(x, y):\n    return {both}\n")

    def _look(self, bounds: str, stop: str, suffix: str) -> None:
        """A loop over blocks of other entries: which have the same destination."""
        self._lines(
            f"for first in range({bounds}, LOOK):",
            "    j = first + tl.arange(0, LOOK)",
            f"    among = j < {stop}",
        )
        outside = self._enter(set())
        self.conditions = [("among", LANES_OF)]
        self.emit(f"same = {self._alike('j', LANES_OF, suffix)}among")
        self._leave(outside)

    def _alike(self, entry: str, axes: Axes, suffix: str) -> str:
        """The beginning of a condition: that other entries have the same destination."""
        self.values[self.entries_loop.var] = Name(entry, "index", axes)
        needed = self._needed()
        self.statements(_renamed(needed, suffix))
        self.values[self.entries_loop.var] = Name("entry", "index")
        return f"({self.values[self.statement.key + suffix].text} == own) & " if needed else ""

    def _add_nearest(self) -> None:
        """Another entry's row, in a loop."""
        outside = self._enter(set())
        self.values[self.entries_loop.var] = Name("nearest", "index")
        self.statements(_renamed([s for s in self.row if not isinstance(s, Check)], "_next"))
        self._add("_next", self.value)
        self.values[self.entries_loop.var] = Name("entry", "index")
        self._leave(outside)

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
        statements = _renamed(body, suffix, {s.name for s in self.row if isinstance(s, Let | Load)} if suffix else ())
        if suffix and self.before is not None:
            statements = [s for s in statements if not (isinstance(s, Load) and s.param == self.store_.param)]
            self.values[self.before + suffix] = self._kept
        self.statements(statements)
        name = self.store_.value + suffix
        result = self.wide(name if name in self.values else self.store_.value)
        self.emit(f"kept = {self._filled_like(result)}")

    def _filled_like(self, value: Name) -> str:
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
        self._repeat("entry", f"{self._bound(serial.start)}, {self._bound(serial.stop)}", bool(written))
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


class OrderedKernel(StatementKernel[Ordered]):
    """Such a kernel of the IR for the GPU, used like a `TritonKernel`."""

    @cached_property
    def sources(self) -> tuple[TritonSource, ...]:
        """The file; that for entries in order comes second."""
        s = self.statement
        if not s.key:
            return (self.file(LinesText(s), ("LANES", "WIDE")),)
        writers = [OrderedText(s, by_order) for by_order in (False, True)[: 1 + bool(s.order)]]
        return tuple(self.file(writer, ("LANES", "LOOK", "WIDE")) for writer in writers)

    def launch(self, tasks: int, sizes: Mapping[str, int], architecture: int = DEFAULT) -> Launch:
        """The file and grid for these sizes; `tasks` is the number of entries."""
        _, _, across = loops_of(self.statement.kernel)
        width = known(across.stop, sizes)
        lanes = min(power_of_two(width), TILE)
        reach = max(largest(self.statement.kernel, 1, sizes), tasks * max(width, 1))
        source = self.sources[0]
        if not self.statement.key:
            lanes = min(lanes, COLUMNS)
            constants = {"LANES": lanes, "WIDE": int(reach >= INT32)}
            return Launch(source, constants, 1, max(-(-tasks // lanes), 1), multiples(source, tasks, sizes))
        crowd = CROWDED * (known(self.statement.rows, sizes) + 1)
        by_order = bool(self.statement.order) and (tasks > FEW or tasks >= crowd)
        source = self.sources[by_order]
        look = min(power_of_two(tasks), NEIGHBOURS if by_order else LOOK)
        constants = {"LANES": lanes, "LOOK": look, "WIDE": int(reach >= INT32)}
        programs = max(tasks * -(-width // lanes), 1)
        warps = warps_for(max(lanes, look))
        return Launch(source, constants, warps, programs, multiples(source, tasks, sizes))
