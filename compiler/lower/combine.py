"""The second kernel of a reduction: partial results combined in order.

There may be many, of which a plain sum would be ever less exact; so sums of floats are compensated: what rounding takes
from them in each step is added up beside them, and to them at the end.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.lower.build import Blocking, Built, Parameters, tasks_loop
from eagerjit.compiler.lower.emit import Argument, Temporary
from eagerjit.runtime.dtypes import BY_SHORT


def identity(op: str, dtype: str) -> Any:
    """What an accumulator starts from."""
    if op in ("add", "mul"):
        return 0 if op == "add" else 1
    if op in ("and", "or"):
        return op == "and"
    kind = BY_SHORT[dtype]
    if kind.kind == "float":
        return -math.inf if op == "maximum" else math.inf
    if kind.kind == "bool":
        return op == "minimum"
    info: Any = np.iinfo(kind.numpy)  # type: ignore[type-var]
    return int(info.min if op == "maximum" else info.max)


def of_many(op: str, dtype: str) -> str:
    """The operation of the accumulator that combines partial results, however many there are."""
    return "compensated" if op == "add" and dtype in ("f32", "f64") else op


def combine(
    name: str,
    op: str,
    partial: Temporary,
    out: Argument,
    dtype: str,
    around: sizes.Expr,
    chunks: sizes.Expr,
    inner: sizes.Expr,
    blocking: Blocking,
) -> Built:
    """out[a, j] = partial[a, 0, j] op partial[a, 1, j] op ... ; one task per a, or per (a, j) where lanes combine."""
    known = Parameters()
    known.memory(partial, dtype, "p")
    known.memory(out, dtype, "o")
    count, width = known.amount(chunks), known.amount(inner)
    lanes = blocking.lanes
    many = op if blocking.parts else of_many(op, dtype)
    start = loops.Let("z", "const", (), dtype, identity(op, dtype))
    body: list[loops.Stmt]
    temporaries: dict[Temporary, sizes.Expr] = {}
    if blocking.parts or (isinstance(inner, int) and inner == 1):
        lead, index = _places(count, width, around)
        load = loops.Load("v", "p", index, dtype)
        kind = "vector" if blocking.parts else "serial"
        body = [
            *lead,
            loops.Init("a", many, dtype),
            loops.Loop(kind, "c", 0, count, (load, loops.Accumulate("a", "v")), lanes),
            loops.Finish("r", "a", dtype),
            loops.Store("o", (("t", 1),), "r"),
        ]
    else:
        if many != op:
            lost = Temporary(f"{partial.name}.lost", dtype)
            known.memory(lost, dtype, "l")
            temporaries[lost] = sizes.mul(around, inner)
        body = _columns(op, dtype, count, width, bool(temporaries), lanes)
    kernel = known.kernel(name, start, tasks_loop(body))
    tasks = sizes.mul(around, inner) if blocking.parts else around
    work = sizes.mul(sizes.mul(around, chunks), inner)
    return Built(kernel, known.arguments, tasks, work, temporaries=temporaries)


def _columns(
    op: str, dtype: str, count: int | str, width: int | str, compensated: bool, lanes: int
) -> list[loops.Stmt]:
    """Row t of the results: all its partial results, row by row."""
    place, part = (("t", width), ("i", 1)), (("k", width), ("i", 1))
    clear: list[loops.Stmt] = [loops.Store("o", place, "z")]
    step: list[loops.Stmt] = [
        loops.Load("x", "o", place, dtype),
        loops.Load("v", "p", part, dtype),
        loops.Let("y", op, ("x", "v"), dtype),
        loops.Store("o", place, "y"),
    ]
    end: list[loops.Stmt] = []
    if compensated:
        lost = loops.Load("d", "l", place, dtype)
        clear.append(loops.Store("l", place, "z"))
        step += [
            lost,
            loops.Let("e", "lost", ("x", "v"), dtype),
            loops.Let("f", "add", ("d", "e"), dtype),
            loops.Store("l", place, "f"),
        ]
        restored = (step[0], lost, loops.Let("y", "restored", ("x", "d"), dtype), loops.Store("o", place, "y"))
        end.append(loops.Loop("vector", "i", 0, width, restored, lanes))
    row = (loops.Let("k", "add", ("b", "c"), "i64"), loops.Loop("vector", "i", 0, width, tuple(step), lanes))
    return [
        _constant("n", count),
        loops.Let("b", "mul", ("t", "n"), "i64"),
        loops.Loop("vector", "i", 0, width, tuple(clear), lanes),
        loops.Loop("serial", "c", 0, count, row),
        *end,
    ]


def _places(count: int | str, width: int | str, around: sizes.Expr) -> tuple[list[loops.Stmt], loops.Index]:
    """Where the partial results c of element t are."""
    if isinstance(width, int) and width == 1:
        return [], (("t", count), ("c", 1))
    if isinstance(around, int) and around == 1:
        return [], (("c", width), ("t", 1))
    lead: list[loops.Stmt] = []
    for name, size in (("w", width), ("n", count)):
        if isinstance(size, int):
            lead.append(loops.Let(name, "const", (), "i64", size))
    w, n = (size if isinstance(size, str) else name for name, size in (("w", width), ("n", count)))
    lead += [
        loops.Let("j", "rem", ("t", w), "i64"),
        loops.Let("b", "floordiv", ("t", w), "i64"),
        loops.Let("k", "mul", ("b", n), "i64"),
    ]
    return lead, (("k", width), ("c", width), ("j", 1))


def _constant(name: str, value: int | str) -> loops.Let:
    """A size as a value: a literal, or a parameter under another name."""
    if isinstance(value, int):
        return loops.Let(name, "const", (), "i64", value)
    return loops.Let(name, "cast", (value,), "i64")
