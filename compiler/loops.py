"""Kernel IR: a small tree of loops, loads, stores, accumulations and scalar expressions.

    kernel    ::= kernel NAME(param, ...) { stmt* }        one call runs tasks begin..end of the `tasks` loop
    param     ::= NAME: *DTYPE | NAME: i64 | NAME: f64     memory, a size or stride in elements, a run-time number
    stmt      ::= NAME = OP NAME* : DTYPE                  Let: single assignment
                | NAME = load PARAM[index] : DTYPE
                | store PARAM[index] NAME [NAME]           the second one after the first: the parts of a complex number
                | loop KIND VAR from A to B [lanes N] { stmt* }
                | init ACC OP : DTYPE | accumulate ACC NAME | NAME = finish ACC : DTYPE
                | check NAME STATUS                        a false lane ends the kernel with STATUS
                | product PARAM = PARAM @ PARAM ...        GPU: first of a kernel, whose loops then read its result
                | along PARAM = OP PARAM ...               GPU: a scan or an order along a dimension, all of a kernel
                | sort PARAM ...                           GPU: a step of an order along a dimension, all of a kernel
                | search OP PARAM ...                      GPU: one of the searches, all of a kernel
                | weighted PARAM ...                       GPU: weighted rows, all of a kernel
                | convolution ...                          GPU: all of a kernel
                | matrices OP PARAM ...                    GPU: a function of small matrices, all of a kernel
                | attention KIND ...                       GPU: all of a kernel
                | ordered NAME [by PARAM of SIZE] [into PARAM] { kernel }   GPU: all of a kernel
                | joined OP NAME* SIZE* DTYPE              GPU: all of a kernel
                | several COUNT NAME* { kernel }           GPU: all of a kernel
    index     ::= sum of terms NAME*STRIDE, in elements    STRIDE is an int or a param's name

Values defined inside a `vector` loop are one value per lane; outside they are scalars. Loop bounds and index names are
i64 scalars, loop variables, or (in an index inside a vector loop: a gather) i64 lane values.

An accumulator has a fixed order, whatever the machine: inside a vector loop lane l of LANES takes elements l, l+LANES,
...; `finish` folds the lanes as a balanced tree (l with l + LANES/2, then LANES/4, ...). Outside a vector loop it is a
running scalar. `argmax`/`argmin` accumulate a value with the loop's index and finish as the i64 index of the first
extreme (a NaN counts as extreme, the first one wins). `compensated`, outside vector loops, is a running sum of which
`finish` adds what rounding has taken from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagerjit.compiler.whole_kernels import (
    Along,
    Attention,
    Convolution,
    Joined,
    Matrices,
    Search,
    Sort,
    Weighted,
)
from eagerjit.runtime.records import record

LANES = 32
"""Lanes of every accumulation: part of the numerical contract, not of the machine."""

FLAGS = 4096
"""Flags that one program takes."""

PIECE = 8192
"""Elements, at least, of each piece of a long line that programs share."""

FEW = 4096
"""Entries that are compared with each other at most; of more the order is found first."""

CROWDED = 128
"""Entries for each row, on average, of which the order is found first even if they are few."""

SHARED = 64
"""Neighbours in the order, at most, of which one program combines those of one place."""

Index = tuple[tuple[str, "int | str"], ...]


@record(frozen=True)
class Param:
    """`kind` is "memory" (dtype of its elements), "size" (i64), "number" (f64), or "scratch": memory of this thread's
    own, whose argument is its byte offset in the thread's scratch."""

    name: str
    kind: str
    dtype: str


@record(frozen=True)
class Let:
    """A scalar operation. `args` are names; "const" carries its Python number in `value`, "cast" goes to `dtype`."""

    name: str
    op: str
    args: tuple[str, ...]
    dtype: str
    value: int | float | bool | None = None


@record(frozen=True)
class Load:
    name: str
    param: str
    index: Index
    dtype: str


@record(frozen=True)
class Store:
    """`second`, if there is one, goes to the element after the first; an index then advances by two or more."""

    param: str
    index: Index
    value: str
    second: str = ""

    @property
    def values(self) -> tuple[str, ...]:
        """The names stored."""
        return (self.value, self.second) if self.second else (self.value,)


@record(frozen=True)
class Loop:
    """`kind` is "tasks" (outermost, over this call's share), "serial" or "vector" (innermost, `lanes` at a time)."""

    kind: str
    var: str
    start: int | str
    stop: int | str
    body: tuple[Stmt, ...]
    lanes: int = LANES


@record(frozen=True)
class Init:
    """Starts accumulator `name`; `op` is add, compensated, mul, maximum, minimum, and, or, argmax, argmin."""

    name: str
    op: str
    dtype: str


@record(frozen=True)
class Accumulate:
    name: str
    value: str


@record(frozen=True)
class Finish:
    name: str
    accumulator: str
    dtype: str


@record(frozen=True)
class Check:
    condition: str
    status: int


@record(frozen=True)
class Product:
    """out = left @ right in a tile per program. `sizes` are rows, columns and the summed extent; `steps` the strides of
    left, right and out along their two dimensions; `batch` per further dimension its extent and the three strides.

    In a kernel with loops `out` is no memory: their loads of it are the product.
    """

    out: str
    left: str
    right: str
    sizes: tuple[int | str, ...]
    steps: tuple[tuple[int | str, ...], ...]
    batch: tuple[tuple[int | str, ...], ...]
    dtype: str

    def renamed(self, names: dict[str, str]) -> Product:
        """The same product of parameters of other names."""

        def other(x: int | str) -> int | str:
            return names[x] if isinstance(x, str) else x

        steps, batch = (tuple(tuple(map(other, group)) for group in part) for part in (self.steps, self.batch))
        out, left, right = (names[n] for n in (self.out, self.left, self.right))
        return Product(out, left, right, tuple(map(other, self.sizes)), steps, batch, self.dtype)


@record(frozen=True)
class Several:
    """A kernel on `count` lots of arguments: those named in `different`, and their tasks, are numbered (`tasks_0`)."""

    kernel: Kernel
    different: tuple[str, ...]
    count: int


@record(frozen=True)
class Ordered:
    """A kernel of one serial loop over entries that read, change and write a row each, at the index `key`.

    A task is an entry: those of one row take effect in their order, those of different rows at once. Without a key
    every column is written by its own entries alone, and a task is a column. More than FEW entries are taken in the
    order of their keys, which is in the memory `order`; so are fewer that are CROWDED in so many `rows`. With `parts`
    programs share a row's entries: the order is cut into pieces of SHARED, and what a row's entries come to in a piece
    that does not begin with its first goes there.
    """

    kernel: Kernel
    key: str
    order: str = ""
    rows: int | str = 0
    parts: str = ""


Whole = Ordered | Joined | Several | Attention | Convolution | Along | Sort | Search | Weighted | Matrices
Stmt = Whole | Product | Let | Load | Store | Loop | Init | Accumulate | Finish | Check


@record(frozen=True)
class Kernel:
    """One compiled loop nest. Its text, without the name, is its identity for deduplication and the disk cache.

    With `contract` a product and the sum that takes it may be rounded once instead of twice.
    """

    name: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    contract: bool = False

    def __str__(self) -> str:
        return f"kernel {self.name}{body_text(self)}"


def body_text(kernel: Kernel) -> str:
    """The printed kernel from its parameter list on."""
    marks = {"memory": "*", "size": "", "number": "", "scratch": "scratch "}
    params = ", ".join(f"{p.name}: {marks[p.kind]}{p.dtype}" for p in kernel.params)
    lines: list[str] = []
    _print(kernel.body, "  ", lines)
    return "(" + params + (") contract {\n" if kernel.contract else ") {\n") + "\n".join(lines) + "\n}"


def _print(body: tuple[Stmt, ...], indent: str, lines: list[str]) -> None:
    for s in body:
        match s:
            case Let(name, "const", _, dtype, value):
                lines.append(f"{indent}{name} = const {value!r} : {dtype}")
            case Let(name, op, args, dtype):
                lines.append(f"{indent}{name} = {op} {' '.join(args)} : {dtype}")
            case Load(name, param, index, dtype):
                lines.append(f"{indent}{name} = load {param}[{_index(index)}] : {dtype}")
            case Store(param, index):
                lines.append(f"{indent}store {param}[{_index(index)}] {' '.join(s.values)}")
            case Loop(kind, var, start, stop, inner, lanes):
                width = f" lanes {lanes}" if kind == "vector" else ""
                lines.append(f"{indent}loop {kind} {var} from {start} to {stop}{width} {{")
                _print(inner, indent + "  ", lines)
                lines.append(indent + "}")
            case Init(name, op, dtype):
                lines.append(f"{indent}init {name} {op} : {dtype}")
            case Accumulate(name, value):
                lines.append(f"{indent}accumulate {name} {value}")
            case Finish(name, accumulator, dtype):
                lines.append(f"{indent}{name} = finish {accumulator} : {dtype}")
            case Check(condition, status):
                lines.append(f"{indent}check {condition} {status}")
            case Ordered(kernel, key, order, rows, parts):
                shared = f" by {order} of {rows}" * bool(order) + f" into {parts}" * bool(parts)
                lines.append(f"{indent}ordered {key}{shared} {{")
                _print(kernel.body, indent + "  ", lines)
                lines.append(indent + "}")
            case Joined(op, out, keys, order, parts, sizes, dtype):
                lines.append(f"{indent}joined {op} {out} {keys} {order} {parts} {sizes} {dtype}")
            case Several(kernel, different, count):
                lines.append(f"{indent}several {count} {' '.join(different)} {{")
                _print(kernel.body, indent + "  ", lines)
                lines.append(indent + "}")
            case Attention(kind, memory, sizes, batch, causal, scale, dtype):
                lines.append(f"{indent}attention {kind} : {dtype} sizes {sizes} batch {batch} {causal} {scale!r}")
                lines += [f"{indent}  {name} {param} steps {steps}" for name, param, steps in memory]
            case Convolution(result, x, w, y, sizes, spatial, dtype, last):
                order = " last" * last
                lines.append(f"{indent}convolution {result} of {x} {w} {y} : {dtype} {sizes} {spatial}{order}")
            case Sort(out, x, op, source, target, part, run, extent, inner, count, dtype):
                lines.append(f"{indent}sort {out} = {op} {x} : {dtype} extent {extent} inner {inner} count {count}")
                lines.append(f"{indent}  runs of {run} from {source} in {part} to {target}")
            case Along(out, x, op, extent, inner, dtype, totals, powers):
                parts = f"{totals} {powers}".strip()
                lines.append(f"{indent}along {out} = {op} {x} {parts} : {dtype} extent {extent} inner {inner}")
            case Search(op, memory, sizes, dtype):
                lines.append(f"{indent}search {op} {' '.join(memory)} : {dtype} {sizes}")
            case Weighted(out, weights, x, starts, places, columns, entries, dtype):
                lines.append(f"{indent}weighted {out} = {weights} {x} {starts} {places} : {dtype} {columns} {entries}")
            case Matrices(op, memory, sizes, numbers):
                lines.append(f"{indent}matrices {op} {' '.join(param for _, param in memory)} : {sizes} {numbers}")
            case Product(out, left, right, sizes, steps, batch, dtype):
                lines.append(f"{indent}product {out} = {left} @ {right} : {dtype}")
                lines.append(f"{indent}  sizes {sizes} steps {steps} batch {batch}")


def walk(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """All statements, loops before what is in them."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from walk(statement.body)


def _index(index: Index) -> str:
    return " + ".join(name if stride == 1 else f"{name}*{stride}" for name, stride in index) or "0"
