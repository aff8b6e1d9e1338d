"""Kernels with reductions over rows or columns.

rows      the innermost loops are reduced: phases over each row, each finishing the reductions that the next one reads
columns   the outermost loops are reduced: partial results per chunk of rows, combined by a second kernel

Chunk sizes and orders are fixed numbers: a result depends on the extents alone, not on threads, vectors or fusion.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.affine import Affine, address
from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.build import BLOCK, Blocking, Built, Writer, blocks_of, merge_loops, tasks_loop
from eagerjit.compiler.lower.combine import combine, identity, of_many
from eagerjit.compiler.lower.emit import BODY, ROW, Argument, Emitter, Failures, Scratch, Temporary
from eagerjit.compiler.lower.groups import Group, is_inline
from eagerjit.compiler.lower.pointwise import cost_of
from eagerjit.compiler.lower.together import brought_together, in_pieces
from eagerjit.compiler.shapes import contiguous_strides
from eagerjit.runtime.records import record

RECOMPUTE = 8
"""Values cheaper than this many operations are computed again in a later phase rather than kept."""
TOGETHER = 256
"""Elements of scratch memory that there are at least: short rows may be computed as many at a time as a cache line has
elements."""


@record
class Reduced:
    """A reduction along the row: its accumulator's operation and the name of its result."""

    op: str
    dtype: str
    value: str
    result: str
    result_dtype: str


@record
class Phase:
    """One pass over the row."""

    body: list[Any]
    reduced: list[Reduced] = field(default_factory=list)


@record
class ColumnStep:
    """Adds a value to its column's partial result."""

    op: str
    dtype: str
    param: str
    value: str


class RowKernel:
    """Builds the kernels of a group that reduces rows, columns, or both."""

    def __init__(
        self,
        name: str,
        group: Group,
        stored: dict[Node, Argument],
        inline: dict[Node, bool],
        failures: Failures,
        blocking: Blocking,
    ):
        self.name, self.group, self.stored, self.inline, self.blocking = name, group, stored, inline, blocking
        self.first_row, self.split = self._sides()
        self.emitter = Emitter(group, self.split, inline, failures)
        self.levels: dict[Node, int] = {}
        self.kept: set[Node] = set()
        self.scratch: sizes.Expr = 0
        self.scratch_offsets: dict[Scratch, sizes.Expr] = {}
        self.partial: dict[Node, Temporary] = {}

    def _sides(self) -> tuple[int, int]:
        """(first reduced or row loop, first inner loop); loops before are kept ones around a column reduction."""
        if self.group.rows is not None:
            return 0, self.group.split()
        node = next(iter(self.group.columns))
        shape, axes = node.inputs[0].type.shape, node.attributes["axes"]
        return self._loop_at(shape[: axes[0]]), self._loop_at(shape[: axes[-1] + 1])

    def _loop_at(self, leading: tuple[sizes.Expr, ...]) -> int:
        reach: sizes.Expr = 1
        wanted = sizes.product(leading)
        for position, d in enumerate(self.group.dims):
            if reach == wanted:
                return position
            reach = sizes.mul(reach, d)
        return len(self.group.dims)

    # -- values by phase ----------------------------------------------------------------------------------------------

    def level(self, node: Node) -> int:
        """The first phase in which a value can be computed."""
        return self.group.level(node, self.levels)

    def _reductions(self, phase: int) -> list[Node]:
        group = self.group
        mine = group.row | group.columns
        return [n for n in group.nodes if n in mine and n.op.family == "reduction" and self.level(n.inputs[0]) == phase]

    def _stores(self, phase: int) -> list[Node]:
        return [n for n in self.group.nodes if n in self.group.full and n in self.stored and self.level(n) == phase]

    def _choose_kept(self, phases: int) -> None:
        """Full values that a later phase reads and that are in memory already or too dear to compute again."""
        cost: dict[Node, int] = {}
        full = self.group.full

        def price(node: Node) -> int:
            if node not in cost:
                mine = node in full or is_inline(node, self.inline) or node.op.family == "view"
                cost[node] = node.op.cost + sum(map(price, node.inputs)) if mine and node.inputs else 1
            return cost[node]

        def walk(node: Node, phase: int, seen: set[Node]) -> None:
            if node in seen:
                return
            seen.add(node)
            dear = self.blocking.scratch and price(node) > RECOMPUTE
            if node in full and self.level(node) < phase and (node in self.stored or dear):
                self.kept.add(node)
            elif self.group.made(node) and node not in self.group.row:
                for i in node.inputs:
                    walk(i, phase, seen)

        for phase in range(1, phases):
            seen: set[Node] = set()
            for node in [n.inputs[0] for n in self._reductions(phase)] + self._stores(phase):
                walk(node, phase, seen)

    # -- building -----------------------------------------------------------------------------------------------------

    def build(self) -> list[Built]:
        """The kernel, and one for each column reduction that it leaves in parts."""
        group = self.group
        reduced = [n for n in group.nodes if n in group.row | group.columns and n.op.family == "reduction"]
        ends = [self.level(n.inputs[0]) for n in reduced]
        ends += [self.level(n) for n in group.full if n in self.stored]
        phases = 1 + max(ends)
        self._choose_kept(phases)
        for position, node in enumerate(sorted(group.columns, key=group.nodes.index)):
            self.partial[node] = Temporary(f"{self.name}.partial{position}", node.dtype.short)
        self._store_rows(0)
        for phase in range(phases):
            self._phase(phase)
            self._store_rows(phase + 1)
        return self._assemble()

    def _phase(self, phase: int) -> None:
        group, emitter = self.group, self.emitter
        emitter.next_phase()
        reduced: list[Reduced] = []
        for node in self._reductions(phase):
            operand = node.inputs[0]
            value, _ = emitter.value(operand, group.full_place(operand.type.shape))
            if node in group.columns:
                param = emitter.param(self.partial[node], node.dtype.short)
                emitter.add(BODY, ColumnStep(node.op.scalar, node.dtype.short, param, value))
            else:
                reduced.append(Reduced(node.op.scalar, operand.dtype.short, value, emitter.name(), node.dtype.short))
                emitter.values[node, group.row_place(node.type.shape)] = (reduced[-1].result, ROW)
        reloads: list[tuple[Node, Argument]] = []
        ready = [n for n in group.nodes if n in group.full and self.level(n) == phase]
        maps = {n: group.full_place(n.type.shape) for n in ready if n in self.stored or n in self.kept}
        # All values come before the stores: one may go where another is read.
        values = {n: emitter.value(n, map_) for n, map_ in maps.items()}
        for node, map_ in maps.items():
            dtype = node.dtype.short
            if node in self.stored:
                place = address(map_, contiguous_strides(node.type.shape), 0)
                emitter.store(self.stored[node], place, dtype, values[node], BODY)
                if node in self.kept:
                    reloads.append((node, self.stored[node]))
            else:
                scratch = self._new_scratch(node)
                emitter.add(BODY, loops.Store(emitter.param(scratch, dtype), (("i", 1),), values[node][0]))
                reloads.append((node, scratch))
        emitter.row.append(Phase(emitter.body, reduced))
        for node, argument in reloads:
            emitter.reload(node, argument)

    def _new_scratch(self, node: Node) -> Scratch:
        extent = sizes.product(self.group.dims[self.split :])
        scratch = Scratch(len(self.scratch_offsets), node.dtype.short, self.scratch)
        self.scratch_offsets[scratch] = self.scratch
        size = sizes.mul(sizes.add(extent, TOGETHER), node.dtype.itemsize)
        self.scratch = sizes.add(self.scratch, sizes.mul(sizes.floordiv(sizes.add(size, 63), 64), 64))
        return scratch

    def _store_rows(self, level: int) -> None:
        """Store the row values that are complete."""
        group, emitter = self.group, self.emitter
        for node in group.nodes:
            if node in group.row and node in self.stored and self.level(node) == level:
                map_ = group.row_place(node.type.shape)
                place = address(map_, contiguous_strides(node.type.shape), 0)
                emitter.store(self.stored[node], place, node.dtype.short, emitter.value(node, map_), ROW)

    def _assemble(self) -> list[Built]:
        group, emitter = self.group, self.emitter
        merged = merge_loops(emitter, self.split, self.first_row)
        writer = Writer(emitter, merged)
        inner = sizes.product(group.dims[self.split :])
        rows = sizes.product(group.dims[self.first_row : self.split])
        around = sizes.product(group.dims[: self.first_row])
        code: list[loops.Stmt] = []
        if group.columns:
            chunks = blocks_of(rows, self.blocking.chunk(rows))
            tasks = sizes.mul(around, chunks)
            code = self._column_tasks(writer, rows, inner, chunks)
        else:
            tasks = rows
            writer.unflatten(merged.between(0, self.split), "t", code)
            code += self._row(writer, inner, "")
        work = sizes.mul(sizes.product(group.dims), cost_of(group))
        sources = tuple(dict.fromkeys(n.source for n in group.nodes if n.source))
        kernel = writer.finish(self.name, [tasks_loop(code)])
        built = [
            Built(kernel, list(emitter.arguments), tasks, work, self.scratch, sources, tuple(group.reasons))
        ]
        for position, (node, partial) in enumerate(self.partial.items()):
            out = self.stored[node]
            name, dtype = f"{self.name}.finish{position}", node.dtype.short
            finisher = combine(name, node.op.scalar, partial, out, dtype, around, chunks, inner, self.blocking)
            finisher.sources = (node.source,)
            built.append(finisher)
        for partial in self.partial.values():
            partial_size = sizes.mul(tasks, inner)
            built[0].temporaries[partial] = partial_size
        return built

    def _column_tasks(self, writer: Writer, rows: Any, inner: Any, chunks: Any) -> list[loops.Stmt]:
        """One task: a chunk of rows, added to partial results that start at the identity."""
        emitter, merged = self.emitter, writer.loops
        code: list[loops.Stmt] = []
        chunk = "t"
        if self.first_row:
            chunk, outer = emitter.name(), emitter.name()
            count = writer.operand(chunks, code)
            code.append(loops.Let(chunk, "rem", ("t", count), "i64"))
            code.append(loops.Let(outer, "floordiv", ("t", count), "i64"))
            writer.unflatten(merged.between(0, self.first_row), outer, code)
        start, stop = writer.block(chunk, rows, self.blocking.chunk(rows), code)
        base = writer.product("t", inner, code)
        clear: list[loops.Stmt] = []
        for node, partial in self.partial.items():
            name = emitter.name()
            clear.append(loops.Let(name, "const", (), node.dtype.short, identity(node.op.scalar, node.dtype.short)))
            clear.append(loops.Store(emitter.param(partial, node.dtype.short), ((base, 1), ("i", 1)), name))
        code.append(loops.Loop("vector", "i", 0, emitter.amount(inner), tuple(clear), self.blocking.lanes))
        row: list[loops.Stmt] = []
        writer.unflatten(merged.between(self.first_row, self.split), "r", row)
        row += self._row(writer, inner, base)
        code.append(loops.Loop("serial", "r", start, stop, tuple(row)))
        return code

    def _row(self, writer: Writer, inner: sizes.Expr, base: str) -> list[loops.Stmt]:
        """The statements of one row, its phases written out."""
        code: list[loops.Stmt] = []
        for statement in self.emitter.row:
            if isinstance(statement, Phase):
                code += self._loops_of(statement, writer, inner, base)
            else:
                code += writer.written([statement])
        return code

    def _loops_of(self, phase: Phase, writer: Writer, inner: sizes.Expr, base: str) -> list[loops.Stmt]:
        """One pass over the row: in chunks where it may be long, so that sums stay accurate."""
        emitter = self.emitter
        body: list[loops.Stmt] = []
        writer.unflatten(writer.loops.between(self.split, len(self.group.dims)), "i", body)
        for statement in phase.body:
            body += self._column(statement, base) if isinstance(statement, ColumnStep) else writer.written([statement])
        code: list[loops.Stmt] = []
        positions = [r for r in phase.reduced if r.op.startswith("arg")]
        short = not self.blocking.running or (isinstance(inner, int) and inner <= BLOCK)
        if not phase.reduced or positions or short:
            accumulators = [emitter.name() for _ in phase.reduced]
            for name, r in zip(accumulators, phase.reduced, strict=True):
                code.append(loops.Init(name, r.op, r.dtype))
                body.append(loops.Accumulate(name, r.value))
            code.append(loops.Loop("vector", "i", 0, emitter.amount(inner), tuple(body), self.blocking.lanes))
            finished = zip(accumulators, phase.reduced, strict=True)
            code += [loops.Finish(r.result, n, r.result_dtype) for n, r in finished]
            return code
        chunk: list[loops.Stmt] = []
        start, stop = writer.block("c", inner, BLOCK, chunk)
        closing: list[loops.Stmt] = []
        ends: list[loops.Stmt] = []
        for r in phase.reduced:
            lanes, running, part = emitter.name(), emitter.name(), emitter.name()
            code.append(loops.Init(running, of_many(r.op, r.dtype), r.dtype))
            chunk.append(loops.Init(lanes, r.op, r.dtype))
            body.append(loops.Accumulate(lanes, r.value))
            closing += [loops.Finish(part, lanes, r.dtype), loops.Accumulate(running, part)]
            ends.append(loops.Finish(r.result, running, r.result_dtype))
        vector = loops.Loop("vector", "i", start, stop, tuple(body), self.blocking.lanes)
        count = emitter.amount(blocks_of(inner, BLOCK))
        code.append(loops.Loop("serial", "c", 0, count, (*chunk, vector, *closing)))
        return code + ends

    def _column(self, step: ColumnStep, base: str) -> list[loops.Stmt]:
        name, total = self.emitter.name(), self.emitter.name()
        index = ((base, 1), ("i", 1))
        return [
            loops.Load(name, step.param, index, step.dtype),
            loops.Let(total, step.op, (name, step.value), step.dtype),
            loops.Store(step.param, index, total),
        ]


def total(
    name: str,
    group: Group,
    stored: dict[Node, Argument],
    inline: dict[Node, bool],
    failures: Failures,
    blocking: Blocking,
) -> list[Built]:
    """Kernels of a group that reduces everything: partial results per block of elements, then one number each."""
    emitter = Emitter(group, 0, inline, failures)
    reduced: list[tuple[Node, str]] = []
    for node in group.nodes:
        if node in group.total:
            operand = node.inputs[0]
            reduced.append((node, emitter.value(operand, group.full_place(operand.type.shape))[0]))
    maps = {n: group.full_place(n.type.shape) for n in group.nodes if n in group.full and n in stored}
    values = {n: emitter.value(n, map_) for n, map_ in maps.items()}
    for node, map_ in maps.items():
        place = address(map_, contiguous_strides(node.type.shape), 0)
        emitter.store(stored[node], Affine(place.terms), node.dtype.short, values[node], BODY)
    merged = merge_loops(emitter, 0)
    writer = Writer(emitter, merged)
    count = sizes.product(group.dims)
    code: list[loops.Stmt] = []
    start, stop = writer.block("t", count, blocking.part(count), code)
    body: list[loops.Stmt] = []
    scratch = 0
    classes = merged.between(0, len(group.dims))
    together = blocking.scratch and len(classes) > 1
    if together:
        dtypes = {taken: n.inputs[0].dtype.short for n, taken in reduced}
        pieces, piece, lead = in_pieces(writer, (start, stop), code)
        length, again, scratch = brought_together(writer, classes, piece, emitter.body, dtypes, blocking.lanes, lead)
        reduced = [(n, again[taken].name) for n, taken in reduced]
        body += again.values()
    else:
        writer.unflatten(classes, "i", body)
        body += writer.written(emitter.body)
    closing: list[loops.Stmt] = []
    partials: dict[Temporary, sizes.Expr] = {}
    tasks = blocks_of(count, blocking.part(count))
    finishers: list[Built] = []
    for position, (node, value) in enumerate(reduced):
        dtype = node.dtype.short
        accumulator, result = emitter.name(), emitter.name()
        partial = Temporary(f"{name}.partial{position}", dtype)
        partials[partial] = tasks
        code.append(loops.Init(accumulator, node.op.scalar, dtype))
        body.append(loops.Accumulate(accumulator, value))
        closing.append(loops.Finish(result, accumulator, dtype))
        closing.append(loops.Store(emitter.param(partial, dtype), (("t", 1),), result))
        title = f"{name}.finish{position}"
        finisher = combine(title, node.op.scalar, partial, stored[node], dtype, 1, tasks, 1, blocking)
        finisher.sources = (node.source,)
        finishers.append(finisher)
    if together:
        lead.append(loops.Loop("vector", "i", 0, length, tuple(body), blocking.lanes))
        code.append(loops.Loop("serial", "p", 0, pieces, tuple(lead)))
    else:
        code.append(loops.Loop("vector", "i", start, stop, tuple(body), blocking.lanes))
    kernel = writer.finish(name, [tasks_loop([*writer.written(emitter.row), *code, *closing])])
    work = sizes.mul(count, cost_of(group))
    sources = tuple(dict.fromkeys(n.source for n in group.nodes if n.source))
    built = Built(kernel, list(emitter.arguments), tasks, work, scratch, sources, tuple(group.reasons), partials)
    return [built, *finishers]
