"""How a kernel's loops become programs and blocks: read off the loops' structure, once per kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eagerjit.compiler.codegen.triton.one_pass import exponentials
from eagerjit.compiler.loops import Accumulate, Check, Init, Kernel, Let, Load, Loop, Stmt, Store, walk
from eagerjit.runtime.records import record

WHOLE = 16384
"""Elements of a row that one block holds at most; longer rows are taken in steps."""
STEP = 2048
"""Elements of a longer row that one step takes: each is added to a lane of its own."""
PART = 16 * STEP
"""Elements of a longer row that are added before others are, so that programs can share a row: the sum depends on the
row's length, and on nothing that it is fused with."""
MANY = 4
"""Sums of one task that registers hold for as many elements as there are otherwise."""
TILE = 1024
"""Elements of a block where nothing else decides."""
INDEX_OPERATIONS = ("add", "mul", "rem", "floordiv", "minimum", "const")


def known(size: int | str, sizes: Mapping[str, int]) -> int:
    """A size of a statement: a number, or the name of one."""
    return sizes[size] if isinstance(size, str) else size


def blocks_of(extent: str, size: str) -> str:
    """The text of how many blocks cover an extent, at least one: programs are divided by it, and 0 divides nothing."""
    return f"tl.maximum(({extent} + {size} - 1) // {size}, 1)"


@record(frozen=True)
class Shape:
    """What a kernel's loops look like.

    tiled       a program takes TASKS tasks, one per row of its blocks; else one
    vectors     "grid": the vector loop's blocks are programs too; "whole": a block covers the loop; "loop": steps
    kept        memory whose elements are values while a serial loop adds to them
    split       programs share a task: each takes a part of its loop, and the last one combines the results
    """

    tiled: bool
    vectors: str
    kept: frozenset[str] = frozenset()
    split: bool = False


@record(frozen=True)
class Structure:
    """What decides the shape: `extent` is the vector loops' end where it is the same in every task."""

    shapes: tuple[Shape, ...]
    extent: int | str | None
    flat: bool = False


def tasks_of(kernel: Kernel) -> Loop:
    """The loop over tasks."""
    return next(s for s in kernel.body if isinstance(s, Loop) and s.kind == "tasks")


def structure(kernel: Kernel, single: bool) -> Structure:
    """The shapes that a kernel can have, the best one first; `single`: it has one task whatever the sizes."""
    tasks = tasks_of(kernel)
    inside = list(walk(tasks.body))
    vectors = [s for s in inside if isinstance(s, Loop) and s.kind == "vector"]
    serial = [s for s in tasks.body if isinstance(s, Loop) and s.kind == "serial"]
    varying = _varying(tasks)
    if not vectors:
        return Structure((Shape(not single, "whole"),), 1)
    bounds = {b for v in vectors for b in (v.start, v.stop)}
    accumulates = any(isinstance(s, Init) for s in inside)
    if bounds & varying:
        flat = not accumulates
        return Structure((Shape(False, "whole" if flat else "loop"),), None, flat)
    extent = vectors[0].stop
    if not serial:
        if len(vectors) == 1 and not accumulates:
            apart = () if single else (Shape(False, "grid"),)
            return Structure((Shape(not single, "grid"), *apart), extent)
        shapes = Shape(not single, "whole"), Shape(not single, "loop")
        shared = (Shape(True, "loop", split=True),) if _divisible(vectors, inside) else ()
        return Structure(shapes + shared, extent)
    kept = _kept(tasks.body, serial)
    simple = not accumulates and sum(isinstance(s, Loop) for s in walk(serial[0].body)) == 1
    if kept and simple:
        return Structure((Shape(False, "grid", kept),), extent)
    return Structure((Shape(False, "whole", kept), Shape(False, "loop")), extent)


def _divisible(vectors: Sequence[Loop], inside: Sequence[Stmt]) -> bool:
    """Whether a task only reduces one loop's elements to numbers, which parts of the loop can do on their own."""
    body = vectors[0].body
    return len(vectors) == 1 and not exponentials(inside) and not any(isinstance(s, Store | Check) for s in body)


def _varying(tasks: Loop) -> set[str | int]:
    """Names that depend on the task."""
    names: set[str | int] = {tasks.var}
    for s in walk(tasks.body):
        if (isinstance(s, Let) and names & set(s.args)) or isinstance(s, Load):
            names.add(s.name)
    return names


def _kept(body: Sequence[Stmt], serial: Sequence[Loop]) -> frozenset[str]:
    """Memory that a vector loop fills before the one serial loop, which loads and stores it at that place only."""
    if len(serial) != 1:
        return frozenset()
    filled = {
        s.param: s.index
        for loop in body
        if isinstance(loop, Loop) and loop.kind == "vector"
        for s in loop.body
        if isinstance(s, Store)
    }
    used = [s for s in walk(serial[0].body) if isinstance(s, Load | Store)]
    return frozenset(
        p for p, index in filled.items() if all(s.index == index for s in used if s.param == p)
    ) & frozenset(s.param for s in used)


def crowded(kernel: Kernel) -> bool:
    """Whether a task has so many sums under way that registers hold them for a few elements per thread only."""
    return sum(isinstance(s, Init) for s in walk(kernel.body)) > MANY


def at_once(body: Sequence[Stmt]) -> list[Stmt]:
    """The statements with values accumulated as soon as they are known: fewer of them wait in registers."""
    taken: dict[str, list[Stmt]] = {}
    made = {s.name for s in body if isinstance(s, Let | Load)}
    for s in body:
        if isinstance(s, Accumulate) and s.value in made:
            taken.setdefault(s.value, []).append(s)
    moved = [s for group in taken.values() for s in group]
    rest = [s for s in body if s not in moved]
    return [one for s in rest for one in (s, *taken.get(s.name if isinstance(s, Let | Load) else "", ()))]


def index_names(kernel: Kernel) -> set[str]:
    """Values that are made of loop variables and sizes and serve as indices and bounds alone: 32 bits may do."""
    everything = list(walk(kernel.body))
    variables = {s.var for s in everything if isinstance(s, Loop)}
    sizes = {p.name for p in kernel.params if p.kind == "size"}
    names: set[str] = set()
    for s in everything:
        if isinstance(s, Let) and s.dtype == "i64" and s.op in INDEX_OPERATIONS:
            if all(a in names or a in variables or a in sizes for a in s.args):
                names.add(s.name)
    while True:
        users = [s for s in everything if isinstance(s, Let) and s.name not in names]
        other = {a for s in users for a in s.args}
        other |= {s.value for s in everything if isinstance(s, Accumulate)}
        other |= {name for s in everything if isinstance(s, Store) for name in s.values}
        other |= {s.condition for s in everything if isinstance(s, Check)}
        if not names & other:
            return names
        names -= other


def largest(kernel: Kernel, tasks: int, sizes: Mapping[str, int]) -> int:
    """The largest index that a kernel computes, or a bound of it, and the largest integer that it is given."""
    known: dict[str, int] = dict(sizes)
    found = max((abs(sizes.get(p.name, 0)) for p in kernel.params if p.kind == "size"), default=0)

    def value(name: str | int) -> int:
        return name if isinstance(name, int) else known.get(name, 0)

    for s in walk(kernel.body):
        match s:
            case Loop("tasks", var):
                known[var] = tasks
            case Loop(_, var, _, stop):
                known[var] = value(stop)
            case Let(name, "const", _, "i64", number):
                known[name] = int(number or 0)
            case Let(name, op, args, "i64") if op in INDEX_OPERATIONS:
                known[name] = _bound(op, [value(a) for a in args])
                found = max(found, known[name])
            case Load(index=index) | Store(index=index):
                found = max(found, sum(value(n) * abs(value(stride)) for n, stride in index))
    return found


def _bound(op: str, values: list[int]) -> int:
    a, b = values
    match op:
        case "add":
            return a + b
        case "mul":
            return a * b
        case "floordiv":
            return a // b if b else a
    return min(a, b) if op == "minimum" or b else a
