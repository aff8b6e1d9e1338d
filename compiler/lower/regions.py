"""Results that are written in parts: concatenation, replaced slices, rows and elements scattered into a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.affine import Affine, address, without_ones
from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.accesses import Indexed
from eagerjit.compiler.lower.build import Blocking, Built, Loops, Writer, blocks_of, merge_loops, tasks_loop, whole
from eagerjit.compiler.lower.emit import ROW, Argument, Emitter, Failures, Temporary
from eagerjit.compiler.lower.groups import Group
from eagerjit.compiler.lower.pointwise import Target, over, pointwise, store_all
from eagerjit.compiler.lower.routines import order_of
from eagerjit.compiler.lower.scattered import is_shared
from eagerjit.compiler.ops import indexing
from eagerjit.compiler.shapes import Shape, contiguous_strides

BESIDE = 64
"""Elements beside each other that a task scatters along another dimension: what is written stays in a cache."""


MOST_PARTS = 8
"""Parts of a row that one kernel writes."""

Part = tuple[Node, sizes.Expr]
"""A part of a concatenation, and where it begins in the result."""


class RegionBuilder:
    """Builds the kernels of one such node.

    `out` is the memory of its result, with `in_place` that of its base too, which with `written` is a tensor's.
    """

    def __init__(
        self, name: str, node: Node, out: Argument, inline: dict[Node, bool], failures: Failures, blocking: Blocking,
        in_place: bool = False, written: bool = False,
    ):  # fmt: skip
        self.name, self.node, self.out, self.in_place, self.written = name, node, out, in_place, written
        self.inline, self.failures, self.blocking = inline, failures, blocking
        self.strides = contiguous_strides(node.type.shape)

    def build(self) -> list[Built]:
        """The kernels, in order."""
        return getattr(self, f"_{self.node.op.scalar}")()

    def _copy(self, part: int, value: Node, strides: Shape, offset: sizes.Expr) -> Built:
        """Store a value into a region of the result."""
        return self._copies(part, [(value, offset)], strides)

    def _copies(self, part: int, values: Sequence[tuple[Node, sizes.Expr]], strides: Shape) -> Built:
        """The same of several values of equal sizes, each with its region's offset."""
        group = Group(-1, without_ones(values[0][0].type.shape))
        targets = [Target(value, self.out, strides, offset) for value, offset in values]
        built = pointwise(f"{self.name}.{part}", group, targets, self.inline, self.failures, self.blocking)
        built.sources = (self.node.source,)
        return built

    def _base(self) -> list[Built]:
        """What comes before the changes: a copy of the base; the checks in a tensor, which an error does not change."""
        if not self.in_place:
            return [self._copy(0, self.node.inputs[0], self.strides, 0)]
        return [self._checks()] if self.written and "checks_index" in self.node.op.traits else []

    def _checks(self) -> Built:
        """Reads every index and writes nothing."""
        index, dim = self.node.inputs[1], self.node.attributes.get("dim", 0)
        group = Group(-1, without_ones(index.type.shape))

        def check(emitter: Emitter) -> None:
            emitter.checked_index(index, group.full_place(index.type.shape), self.node.type.shape[dim], self.node)

        built = over(f"{self.name}.0", group, check, self.inline, self.failures, self.blocking)
        built.sources = (self.node.source,)
        return built

    def _concatenate(self) -> list[Built]:
        built: list[Built] = []
        alike: list[list[Part]] = []
        for dim, parts in self._parts(self.node, 0):
            if self._has_borders(dim, parts):
                built.append(self._rows_joined(len(built), dim, parts))
                continue
            for value, start in parts:
                same = alike and alike[-1][0][0].type.shape == value.type.shape
                if same and len(alike[-1]) < self.blocking.beside:
                    alike[-1].append((value, start))
                else:
                    alike.append([(value, start)])
        return [*built, *(self._copies(number, run, self.strides) for number, run in enumerate(alike, len(built)))]

    def _parts(self, node: Node, start: sizes.Expr) -> Iterator[tuple[int, list[Part]]]:
        """The dimension and the neighbouring parts of a concatenation, and of its concatenations."""
        dim, found = node.attributes["dim"], list[Part]()
        for value in node.inputs:
            if value.op is indexing.cat and self.inline.get(value, False):
                yield dim, found
                found = []
                yield from self._parts(value, start)
            else:
                found.append((value, start))
            start = sizes.add(start, sizes.mul(value.type.shape[dim], self.strides[dim]))
        yield dim, found

    def _has_borders(self, dim: int, parts: list[Part]) -> bool:
        """Whether some of a row's parts are so narrow that they had better be written while the row is in a cache."""
        widths = [sizes.product(value.type.shape[dim:]) for value, _ in parts]
        narrow = sum(isinstance(width, int) and 0 < width <= self.blocking.border for width in widths)
        return 0 < narrow < len(parts) <= MOST_PARTS and bool(without_ones(parts[0][0].type.shape[:dim]))

    def _rows_joined(self, number: int, dim: int, parts: list[Part]) -> Built:
        """All parts of a row by one task."""
        emitter: Emitter | None = None
        code: list[loops.Stmt] = []
        for k, (value, offset) in enumerate(parts):
            shape = value.type.shape
            group, lead = Group(-1, without_ones(shape)), len(without_ones(shape[:dim]))
            emitter = _behind(emitter, Emitter(group, lead, self.inline, self.failures))
            store_all(emitter, [Target(value, self.out, self.strides, offset)])
            merged = merge_loops(emitter, lead)
            writer = Writer(emitter, merged)
            writer.unflatten(merged.between(0, lead), "t", code)
            body: list[loops.Stmt] = []
            writer.unflatten(merged.between(lead, len(group.dims)), f"i{k}", body)
            code += writer.written(emitter.row)
            body += writer.written(emitter.body)
            if lead < len(group.dims):
                width = emitter.amount(sizes.product(shape[dim:]))
                code.append(loops.Loop("vector", f"i{k}", 0, width, tuple(body), self.blocking.lanes))
        assert emitter is not None
        kernel = writer.finish(f"{self.name}.{number}", [tasks_loop(code)])
        tasks = sizes.product(parts[0][0].type.shape[:dim])
        work: sizes.Expr = 0
        for value, _ in parts:
            work = sizes.add(work, sizes.product(value.type.shape))
        return Built(kernel, list(emitter.arguments), tasks, work, 0, (self.node.source,))

    def _replace_slice(self) -> list[Built]:
        a = self.node.attributes
        dim = a["dim"]
        strides = (*self.strides[:dim], sizes.mul(self.strides[dim], a["step"]), *self.strides[dim + 1 :])
        return [*self._base(), self._copy(1, self.node.inputs[1], strides, sizes.mul(self.strides[dim], a["start"]))]

    def _replace_block(self) -> list[Built]:
        a = self.node.attributes
        strides = tuple(map(sizes.mul, self.strides, a["steps"]))
        offset: sizes.Expr = 0
        for start, stride in zip(a["starts"], self.strides, strict=True):
            offset = sizes.add(offset, sizes.mul(start, stride))
        return [*self._base(), self._copy(1, self.node.inputs[1], strides, offset)]

    def _add_rows(self) -> list[Built]:
        return [*self._base(), *self._rows("add")]

    def _put_rows(self) -> list[Built]:
        return [*self._base(), *self._rows("")]

    def _rows(self, op: str) -> list[Built]:
        """Rows of the value combined, in order, into rows of the result; tasks take ranges of columns."""
        base, index, value = self.node.inputs
        # The value's sizes may be written otherwise than the equal ones of the index and of the base.
        group, lead = Group(-1, without_ones(value.type.shape)), without_ones(index.type.shape)
        emitter = Emitter(group, len(lead), self.inline, self.failures)
        place, _ = emitter.checked_index(
            index, Group(-1, lead).full_place(index.type.shape), base.type.shape[0], self.node
        )
        incoming, _ = emitter.value(value, group.full_place(value.type.shape))
        merged = merge_loops(emitter, len(lead))
        writer = Writer(emitter, merged)
        rows, width = sizes.product(lead), sizes.product(base.type.shape[1:])
        dtype = base.dtype.short
        code: list[loops.Stmt] = []
        start: int | str = 0
        stop = emitter.amount(width)
        # A number alone is no vector: where it is read next, what a masked store has written must first reach memory.
        alone = width == 1 and not self.blocking.products
        if not alone and not self.blocking.products:
            start, stop = writer.block("t", width, self.blocking.columns, code)
        row: list[loops.Stmt] = []
        writer.unflatten(merged.between(0, len(lead)), "r", row)
        body: list[loops.Stmt] = []
        writer.unflatten(merged.between(len(lead), len(group.dims)), "i", body)
        row += writer.written(emitter.row)
        body += writer.written(emitter.body)
        out = emitter.param(self.out, dtype)
        where = ((place, emitter.amount(width)), ("i", 1))
        if op:
            before, after = emitter.name(), emitter.name()
            body.append(loops.Load(before, out, where, dtype))
            body.append(loops.Let(after, op, (before, incoming), dtype))
            incoming = after
        body.append(loops.Store(out, where, incoming))
        kind = "serial" if alone else "vector"
        row.append(loops.Loop(kind, "i", start, stop, tuple(body), self.blocking.lanes))
        code.append(loops.Loop("serial", "r", 0, emitter.amount(rows), tuple(row)))
        kernel = writer.finish(f"{self.name}.1", [tasks_loop(code)])
        work = sizes.mul(rows, width)
        tasks = blocks_of(width, self.blocking.columns)
        if self.blocking.products:
            return self._in_parallel(kernel, emitter, place, op, rows, width)
        return [Built(kernel, list(emitter.arguments), tasks, work, 0, (self.node.source,))]

    def _in_parallel(
        self, kernel: loops.Kernel, emitter: Emitter, place: str, op: str, rows: sizes.Expr, width: sizes.Expr
    ) -> list[Built]:
        """The kernel with a task per row; where there may be many, or many for a place, first their order by places."""
        work, line, places = sizes.mul(rows, width), self.node.source, self.node.type.shape[0]
        many = sizes.minimum(
            sizes.add(
                sizes.floordiv(rows, loops.FEW + 1),
                sizes.floordiv(rows, sizes.mul(sizes.add(places, 1), loops.CROWDED)),
            ), 1,
        )  # fmt: skip
        if many == 0:
            alone = loops.Kernel(kernel.name, kernel.params, (loops.Ordered(kernel, place),))
            return [Built(alone, list(emitter.arguments), rows, work, 0, (line,))]
        index = self.node.inputs[1]
        keys, order = Temporary(f"{self.name}.keys", index.dtype.short), Temporary(f"{self.name}.order", "i64")
        shape = index.type.shape
        group, target = Group(-1, without_ones(shape)), Target(index, keys, contiguous_strides(shape))
        copied = pointwise(f"{self.name}.keys", group, [target], self.inline, self.failures, self.blocking)
        copied.tasks, copied.sources = sizes.mul(copied.tasks, many), (line,)
        copied.temporaries = dict.fromkeys((keys, order), sizes.mul(rows, many))
        name, amounts = f"{self.name}.order", (rows, 1, rows)
        found = order_of(name, keys, keys.dtype, order, "ascending", amounts, many, rows, line)
        shared = is_shared(self.node, op)
        parts = Temporary(f"{self.name}.parts", self.node.dtype.short)
        memory = {"order": order} | ({"parts": parts} if shared else {})
        params = [loops.Param(name, "memory", of.dtype) for name, of in memory.items()]
        statement = loops.Ordered(kernel, place, "order", emitter.amount(places), "parts" * shared)
        added = loops.Kernel(kernel.name, (*emitter.params, *params), (statement,))
        built = Built(added, [*emitter.arguments, *memory.values()], rows, work, 0, (line,))
        if not shared:
            return [copied, *found, built]
        others = sizes.mul(sizes.floordiv(sizes.add(rows, -1), loops.SHARED), many)
        built.temporaries = {parts: sizes.mul(sizes.add(others, many), width)}
        return [copied, *found, built, self._joined(op, (keys, order, parts), rows, width, others)]

    def _joined(
        self, op: str, memory: tuple[Temporary, ...], rows: sizes.Expr, width: sizes.Expr, others: sizes.Expr
    ) -> Built:
        """The kernel that joins the parts of a place's rows: so many pieces but the first may go on with one."""
        dtype = self.node.dtype.short

        def joined(names: tuple[str, ...], amounts: tuple[int | str, ...]) -> loops.Joined:
            out, keys, order, parts = names
            return loops.Joined(op, out, keys, order, parts, amounts, dtype)

        amounts, work = (self.node.type.shape[0], rows, width), sizes.mul(rows, width)
        dtypes = (dtype, *(m.dtype for m in memory))
        return whole(f"{self.name}.joined", self.node, joined, [self.out, *memory], dtypes, amounts, others, work)

    def _scatter_add(self) -> list[Built]:
        return [*self._base(), *self._elements("add")]

    def _scatter(self) -> list[Built]:
        return [*self._base(), *self._elements(self.node.attributes["combine"])]

    def _elements(self, op: str) -> list[Built]:
        """Elements of the value combined one by one; tasks take the dimensions before the scattered one."""
        base, index, value = self.node.inputs
        if self.blocking.products and len(base.type.shape) == 1 and _are_alike(value, index):
            return self._rows(op)
        dim = self.node.attributes["dim"]
        dims = without_ones(index.type.shape)
        lead = len(without_ones(index.type.shape[:dim]))
        group = Group(-1, dims)
        emitter = Emitter(group, len(dims), self.inline, self.failures)
        map_ = group.full_place(index.type.shape)
        found = emitter.checked_index(index, map_, base.type.shape[dim], self.node)
        incoming = emitter.value(value, map_)
        dtype = base.dtype.short
        out = emitter.param(self.out, dtype)
        rest = (*map_[:dim], Affine(), *map_[dim + 1 :])
        place = address(rest, self.strides, 0)
        stride = emitter.amount(self.strides[dim])
        after = (incoming[0], ROW)
        if op:
            before = emitter.name()
            emitter.add(ROW, Indexed(out, place, found[0], stride, dtype, before))
            after = emitter.let(op, ((before, ROW), after), dtype)
        emitter.add(ROW, Indexed(out, place, found[0], stride, dtype, None, after[0]))
        if self.blocking.products:
            return [self._lines(emitter, dims, lead, index.type.shape[dim] != 1)]
        several = index.type.shape[dim] != 1
        built = self._columns(emitter, dims, lead, several)
        built.work, built.sources = sizes.mul(sizes.product(dims), 4), (self.node.source,)
        return [built]

    def _columns(self, emitter: Emitter, dims: Shape, at: int, several: bool) -> Built:
        """Entries along the dimension `at` one after the other, for ranges of what comes behind it; none meets another.

        Tasks take the dimensions before and the ranges.
        """
        behind = at + several
        writer = Writer(emitter, merge_loops(emitter, behind, at))
        loops_ = writer.loops
        width = sizes.product(dims[behind:])
        blocks = blocks_of(width, BESIDE)
        outer: list[loops.Stmt] = []
        start: int | str = 0
        stop: int | str = 1
        task = "t"
        if behind < len(dims):
            number = "t"
            if at:
                number, task = emitter.name(), emitter.name()
                per_line = writer.operand(blocks, outer)
                outer.append(loops.Let(number, "rem", ("t", per_line), "i64"))
                outer.append(loops.Let(task, "floordiv", ("t", per_line), "i64"))
            start, stop = writer.block(number, width, BESIDE, outer)
        writer.unflatten(loops_.between(0, at), task, outer)
        if several:
            writer.variable[loops_.between(at, behind)[0]] = "r"
        inner: list[loops.Stmt] = []
        writer.unflatten(loops_.between(behind, len(dims)), "i", inner)
        inner += writer.written(emitter.row)
        body: tuple[loops.Stmt, ...] = tuple(inner)
        if behind < len(dims):
            body = (loops.Loop("serial", "i", start, stop, body),)
        if several:
            body = (loops.Loop("serial", "r", 0, emitter.amount(dims[at]), body),)
        kernel = writer.finish(f"{self.name}.1", [tasks_loop([*outer, *body])])
        tasks = sizes.mul(sizes.product(dims[:at]), blocks)
        return Built(kernel, list(emitter.arguments), tasks, 0)

    def _lines(self, emitter: Emitter, dims: Shape, at: int, several: bool) -> Built:
        """The same with all lines along the dimension side by side: entries follow each other, lines do not."""
        writer = Writer(emitter, Loops([[v] for v in range(len(dims))], len(dims)))
        across = [v for v in range(len(dims)) if not (several and v == at)]
        count, lines = dims[at] if several else 1, sizes.product(tuple(dims[v] for v in across))
        body: list[loops.Stmt] = []
        if several:
            writer.variable[at] = "r"
        writer.unflatten(across, "i", body)
        body += writer.written(emitter.row)
        vector = loops.Loop("vector", "i", 0, emitter.amount(lines), tuple(body), self.blocking.lanes)
        serial = loops.Loop("serial", "r", 0, emitter.amount(count), (vector,))
        inner = writer.finish(f"{self.name}.1", [tasks_loop([serial])])
        kernel = loops.Kernel(inner.name, inner.params, (loops.Ordered(inner, ""),))
        return Built(kernel, list(emitter.arguments), lines, sizes.mul(sizes.product(dims), 4), 0, (self.node.source,))


def _are_alike(value: Node, index: Node) -> bool:
    """Whether the equal sizes of both are loops of both, however they are written."""
    return len(without_ones(value.type.shape)) == len(without_ones(index.type.shape))


def _behind(emitter: Emitter | None, other: Emitter) -> Emitter:
    """The other one, for loops of the same kernel that come behind all of the first's."""
    if emitter:
        other.arguments, other.params = emitter.arguments, emitter.params
        other.head, other.names = emitter.head, emitter.names
    return other
