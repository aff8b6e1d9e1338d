"""Kernels from emitted values: loops merged where memory allows, addresses written out, loop skeletons around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.affine import Affine
from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.accesses import Access, Indexed, Position
from eagerjit.compiler.lower.emit import Amount, Argument, Emitter, Temporary
from eagerjit.runtime.records import record

BLOCK = 8192
"""Elements per task of a flat loop."""
COLUMN_CHUNK = 64
"""Rows that one partial result of a column reduction covers."""
COLUMNS = 256
"""Columns that one task of a row scatter covers."""


@record(frozen=True)
class Blocking:
    """How loops are cut: by default as the order of sums on the CPU fixes it, on the GPU as programs fill the device.

    lanes     of a vector loop that reduces nothing
    flat      elements per task of a flat loop
    columns   columns per task of a row scatter
    parts     partial results that a reduction over everything, or over rows, leaves at most; 0: one per 8192 elements,
              or 64 rows
    running   whether a sum over a long row is taken in chunks
    scratch   whether a task has memory of its own for values that it needs again
    products  whether matrix products are kernels
    again     scalar operations that are done in the time that memory takes for a byte: values are computed again where
              that takes less time than to store and read them
    saved     bytes that have to be saved so, at least
    lines     whether tasks are numbered so that consecutive ones read what lies beside each other
    beside    parts of one result, of equal sizes, that a kernel writes at most
    border    elements of a row that are written along with the longer part beside them; 0: none
    """

    lanes: int
    flat: int = BLOCK
    columns: int = COLUMNS
    parts: int = 0
    running: bool = True
    scratch: bool = True
    products: bool = False
    again: float = 1.0
    saved: int = 1 << 18
    lines: bool = True
    beside: int = 1
    border: int = 16

    def part(self, count: sizes.Expr) -> sizes.Expr:
        """Elements that one partial result of a total reduction covers."""
        if not self.parts:
            return BLOCK
        return sizes.maximum(BLOCK, sizes.mul(blocks_of(count, self.parts * self.flat), self.flat))

    def chunk(self, rows: sizes.Expr) -> sizes.Expr:
        """Rows that one partial result of a column reduction covers."""
        return sizes.maximum(COLUMN_CHUNK // 8, blocks_of(rows, self.parts)) if self.parts else COLUMN_CHUNK


GPU = Blocking(
    1024, flat=2048, columns=128, parts=1024, running=False, scratch=False, products=True, again=10.0, saved=1,
    lines=False, beside=8, border=0,
)  # fmt: skip
"""Few partial results, which one program combines; no scratch memory: values are computed again or still there."""


@record
class Built:
    """A kernel with what its parameters stand for and how it is launched: all sizes are expressions."""

    kernel: loops.Kernel
    arguments: list[Argument]
    tasks: sizes.Expr
    work: sizes.Expr
    scratch: sizes.Expr = 0
    sources: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    temporaries: dict[Temporary, sizes.Expr] = field(default_factory=dict)


@record
class Loops:
    """The loop variables of a kernel after merging: per class its variables, all of one side of the row split."""

    classes: list[list[int]]
    inner: int

    def between(self, first: int, last: int) -> list[int]:
        """The classes of the variables first..last-1."""
        return [k for k, c in enumerate(self.classes) if first <= c[0] < last]


def _places(statements: list[Any]) -> list[Affine]:
    return [s.place for s in statements if isinstance(s, (Access, Indexed, Position))]


def merge_loops(emitter: Emitter, inner: int | None, first_row: int = 0) -> Loops:
    """Loops that every address runs through as one, on one side of `inner` and `first_row`.

    With `inner` None any neighbours merge, and the last of them becomes the inner loop.
    """
    dims = emitter.group.dims
    places = [
        dict(p.terms) for block in (emitter.head, emitter.row, emitter.body, *emitter.done) for p in _places(block)
    ]
    classes: list[list[int]] = []
    for v in range(len(dims)):
        if classes and v != inner and v != first_row:
            u = classes[-1][-1]
            if all(terms.get(u, 0) == sizes.mul(terms.get(v, 0), dims[v]) for terms in places):
                classes[-1].append(v)
                continue
        classes.append([v])
    if inner is None:
        inner = classes[-1][0] if classes else 0
    return Loops(classes, inner)


class Writer:
    """Turns an emitter's statements into kernel IR once its loops are known."""

    def __init__(self, emitter: Emitter, merged: Loops):
        self.emitter, self.loops = emitter, merged
        dims = emitter.group.dims
        self.extent = [sizes.product(tuple(dims[v] for v in c)) for c in merged.classes]
        self.class_of = {v: k for k, c in enumerate(merged.classes) for v in c}
        self.variable: dict[int, str] = {}

    def unflatten(self, classes: list[int], flat: str, into: list[Any]) -> None:
        """Name the loop indices of these classes, given their row-major position."""
        if not classes:
            return
        if len(classes) == 1:
            self.variable[classes[0]] = flat
            return
        emitter = self.emitter
        rest = flat
        for k in reversed(classes[1:]):
            extent = self.operand(self.extent[k], into)
            index, above = emitter.name(), emitter.name()
            into.append(loops.Let(index, "rem", (rest, extent), "i64"))
            into.append(loops.Let(above, "floordiv", (rest, extent), "i64"))
            self.variable[k] = index
            rest = above
        self.variable[classes[0]] = rest

    def operand(self, size: sizes.Expr, into: list[Any]) -> str:
        """A size as a value's name."""
        amount = self.emitter.amount(size)
        if isinstance(amount, str):
            return amount
        name = self.emitter.name()
        into.append(loops.Let(name, "const", (), "i64", amount))
        return name

    def index(self, place: Affine) -> loops.Index:
        """An affine address as kernel IR, without its offset."""
        return tuple((self.variable[k], self.emitter.amount(c)) for k, c in sorted(self.steps(place).items()))

    def steps(self, place: Affine) -> dict[int, sizes.Expr]:
        """How far an address goes up with each loop."""
        last = {c[-1] for c in self.loops.classes}
        return {self.class_of[v]: c for v, c in place.terms if v in last}

    def written(self, statements: list[Any]) -> list[loops.Stmt]:
        """The statements with their addresses."""
        out: list[loops.Stmt] = []
        for s in statements:
            match s:
                case Access(param, place, dtype, into, value, second):
                    out.append(self._memory(param, self._offset(place, out), dtype, into, value, second))
                case Indexed(param, place, computed, stride, dtype, into, value):
                    index = (*self._offset(place, out), (computed, stride))
                    out.append(self._memory(param, index, dtype, into, value))
                case Position(into, place):
                    self._position(into, place, out)
                case _:
                    out.append(s)
        return out

    def _offset(self, place: Affine, out: list[loops.Stmt]) -> loops.Index:
        """An affine address with its offset, which is in the pointer but for parts of complex numbers."""
        index = self.index(place)
        return (*index, (self.operand(place.offset, out), 1)) if place.offset != 0 else index

    def _memory(
        self, param: str, index: loops.Index, dtype: str, into: str | None, value: str, second: str = ""
    ) -> loops.Stmt:
        return loops.Store(param, index, value, second) if into is None else loops.Load(into, param, index, dtype)

    def _position(self, into: str, place: Affine, out: list[Any]) -> None:
        """An affine function of the indices, spelled as multiplications and additions."""
        terms: list[str] = []
        for name, coefficient in self.index(place):
            if coefficient == 1:
                terms.append(name)
                continue
            factor = coefficient if isinstance(coefficient, str) else self.operand(coefficient, out)
            product = self.emitter.name()
            out.append(loops.Let(product, "mul", (name, factor), "i64"))
            terms.append(product)
        terms.append(self.operand(place.offset, out))
        total = terms[0]
        for k, term in enumerate(terms[1:], 2):
            name = into if k == len(terms) else self.emitter.name()
            out.append(loops.Let(name, "add", (total, term), "i64"))
            total = name

    def block(self, flat: str, count: sizes.Expr, size: sizes.Expr, into: list[Any]) -> tuple[str, str]:
        """(start, stop) of block number `flat` among `count` things in blocks of `size`."""
        emitter = self.emitter
        start, end, stop = emitter.name(), emitter.name(), emitter.name()
        width = self.operand(size, into)
        into.append(loops.Let(start, "mul", (flat, width), "i64"))
        into.append(loops.Let(end, "add", (start, width), "i64"))
        into.append(loops.Let(stop, "minimum", (end, self.operand(count, into)), "i64"))
        return start, stop

    def product(self, a: str, size: sizes.Expr, into: list[Any]) -> str:
        """a * size."""
        if isinstance(size, int) and size == 1:
            return a
        name = self.emitter.name()
        into.append(loops.Let(name, "mul", (a, self.operand(size, into)), "i64"))
        return name

    def finish(self, name: str, body: list[loops.Stmt]) -> loops.Kernel:
        """The kernel: the head, then the tasks."""
        head = self.written(self.emitter.head)
        return loops.Kernel(name, tuple(self.emitter.params), (*head, *body))


def blocks_of(count: sizes.Expr, size: sizes.Expr) -> sizes.Expr:
    """How many blocks of a size cover a count."""
    return sizes.floordiv(sizes.add(count, sizes.add(size, -1)), size)


def tasks_loop(body: list[loops.Stmt]) -> loops.Loop:
    """The outermost loop of a kernel."""
    return loops.Loop("tasks", "t", 0, 0, tuple(body))


class Parameters:
    """A kernel's parameters as its statements come to need them, and the arguments that they carry."""

    def __init__(self) -> None:
        self.params: list[loops.Param] = []
        self.arguments: list[Argument] = []
        self._amounts: dict[sizes.Expr, str] = {}

    def memory(self, argument: Argument, dtype: str, name: str = "") -> str:
        """The name of a new parameter that points to memory."""
        return self._add(argument, loops.Param(name or f"m{len(self.params)}", "memory", dtype))

    def amount(self, size: sizes.Expr) -> int | str:
        """A size as statements have it: a number, or the name of the parameter that carries it."""
        if isinstance(size, int):
            return size
        if size not in self._amounts:
            self._amounts[size] = self._add(Amount(size), loops.Param(f"s{len(self.params)}", "size", "i64"))
        return self._amounts[size]

    def _add(self, argument: Argument, param: loops.Param) -> str:
        self.arguments.append(argument)
        self.params.append(param)
        return param.name

    def kernel(self, name: str, *body: loops.Stmt, contract: bool = False) -> loops.Kernel:
        """The kernel of these statements."""
        return loops.Kernel(name, tuple(self.params), body, contract)


def whole(
    name: str,
    node: Node,
    statement: Callable[[tuple[str, ...], tuple[int | str, ...]], loops.Whole],
    memory: Sequence[Argument],
    dtypes: Sequence[str],
    found: Sequence[sizes.Expr],
    tasks: sizes.Expr,
    work: sizes.Expr,
) -> Built:
    """A kernel of one statement that is made of the names of its memory, the result first, and of sizes."""
    known = Parameters()
    named = ("out", *(f"x{i}" for i in range(len(memory) - 1)))
    names = tuple([known.memory(a, d, n) for a, d, n in zip(memory, dtypes, named, strict=True)])
    amounts = tuple([known.amount(size) for size in found])
    return Built(known.kernel(name, statement(names, amounts)), known.arguments, tasks, work, 0, (node.source,))
