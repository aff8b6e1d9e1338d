"""Scans and orders: how routines of the native runtime are called, and kernels of their own for GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.build import Built, Parameters
from eagerjit.compiler.lower.calls import RoutineCall
from eagerjit.compiler.lower.emit import Argument, Pointer, Temporary
from eagerjit.compiler.lower.pieces import lines_of
from eagerjit.compiler.lower.scans import scans
from eagerjit.compiler.lower.searches import SEARCHES, search_call, search_work
from eagerjit.compiler.lower.sparse import product_call, product_work
from eagerjit.compiler.ops import routines, sparse
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.native.order import FLOAT, HISTOGRAM_BYTES, LINE_BYTES, SIGNED, UNSIGNED
from eagerjit.runtime.native.scan import TOGETHER

RUN, MERGED, MOST = 1024, 16, 1 << 34
"""Elements that are sorted by comparing all with all; runs that are merged in one step; elements of a line at most."""


def order(name: str, node: Node, out: Argument) -> list[Built]:
    """The kernels of an order."""
    x, dim = node.inputs[0], node.attributes["dim"]
    where, shape = layout(x), x.type.shape
    inner = sizes.product(shape[dim + 1 :])
    lines = sizes.mul(sizes.product(shape[:dim]), inner)
    op = "descending" if node.attributes["descending"] else "ascending"
    source, amounts = Pointer(where.root, where.offset), (shape[dim], inner, node.type.shape[dim])
    return order_of(name, source, x.dtype.short, out, op, amounts, lines, work_of(node), node.source)


def order_of(
    name: str, x: Argument, dtype: str, out: Argument, op: str, amounts: tuple[sizes.Expr, sizes.Expr, sizes.Expr],
    lines: sizes.Expr, work: sizes.Expr, line: str,
) -> list[Built]:  # fmt: skip
    """The kernels of an order: runs, then merges, as many as any line needs; those not needed have no task.

    `amounts` are how many elements a line has, how far apart, and how many places of the order are wanted.
    """
    extent = amounts[0]
    kept = [[Temporary(f"{name}.keys{k}", dtype), Temporary(f"{name}.places{k}", "i32")] for k in (0, 1)]
    built: list[Built] = []
    part, run = 1, RUN
    source: list[Temporary] = []
    while True:
        last = run >= MOST or (isinstance(extent, int) and extent <= run)
        target = [] if last else kept[len(built) % 2]
        known = Parameters()
        values, places = known.memory(x, dtype), known.memory(out, "i64")
        before, after = (tuple([known.memory(t, t.dtype) for t in memory]) for memory in (source, target))
        many, apart, wanted = map(known.amount, amounts)
        statement = loops.Sort(places, values, op, before, after, part, run, many, apart, wanted, dtype)
        kernel = known.kernel(f"{name}.{len(built)}", statement)
        tasks = sizes.mul(lines, sizes.floordiv(sizes.add(extent, -1), part)) if source else lines
        built.append(Built(kernel, known.arguments, tasks, work, 0, (line,)))
        if last:
            break
        part, run, source = run, run * MERGED, target
    used = {a for b in built for a in b.arguments if isinstance(a, Temporary)}
    built[0].temporaries = {t: sizes.mul(lines, extent) for pair in kept for t in pair if t in used}
    return built


def along(name: str, node: Node, out: Argument) -> list[Built]:
    """The kernels of a scan, for targets whose kernels do them."""
    x, op = node.inputs[0], node.attributes["combine"]
    where, dtype = layout(x), x.dtype
    source = Pointer(where.root, where.offset)
    extent, inner, lines = lines_of(node)
    return scans(
        name, node, op, out, source, dtype.short, dtype.is_floating_point, (extent, inner), lines, work_of(node)
    )


def work_of(node: Node) -> sizes.Expr:
    """Scalar operations of a routine."""
    if node.op in SEARCHES:
        return search_work(node)
    if node.op is sparse.weighted_rows:
        return product_work(node)
    return sizes.mul(node.inputs[0].type.numel, node.op.cost)


def _kind(dtype: DType) -> tuple[int, int]:
    """How an element's bits make a number, and for floats the bits of infinity."""
    if not dtype.is_floating_point:
        return (SIGNED if dtype.kind == "int" else UNSIGNED), 0
    return FLOAT, int(np.array(np.inf, dtype.numpy).view(f"u{dtype.itemsize}"))


def call_of(node: Node) -> RoutineCall:
    """The call that computes a node from contiguous inputs."""
    if node.op in SEARCHES:
        return search_call(node)
    if node.op is sparse.weighted_rows:
        return product_call(node)
    x = node.inputs[0].type
    dim = node.attributes["dim"]
    n, inner = x.shape[dim], sizes.product(x.shape[dim + 1 :])
    lines = sizes.mul(sizes.product(x.shape[:dim]), inner)
    if node.op is routines.scan:
        product = int(node.attributes["combine"] == "mul")
        words: tuple[Any, ...] = (n, inner, lines, x.dtype.itemsize, int(x.dtype.is_floating_point), product)
        tasks = sizes.floordiv(sizes.add(lines, TOGETHER - 1), TOGETHER)
        return RoutineCall("routine scan", words, tasks, 0)
    count = node.attributes["count"]
    words = (n, inner, count, x.dtype.itemsize, *_kind(x.dtype), int(node.attributes["descending"]))
    return RoutineCall("routine order", words, lines, sizes.add(sizes.mul(n, LINE_BYTES), HISTOGRAM_BYTES))
