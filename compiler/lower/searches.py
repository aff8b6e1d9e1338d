"""Searches: how routines of the native runtime are called for them, and kernels of their own for GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.build import Built, whole
from eagerjit.compiler.lower.calls import RoutineCall
from eagerjit.compiler.lower.emit import Argument, Pointer, Temporary
from eagerjit.compiler.lower.pieces import lines_of, totals_of
from eagerjit.compiler.lower.scans import scans
from eagerjit.compiler.ops import searches
from eagerjit.runtime.native.search import CHUNK, DOUBLES, INTEGERS, ORDERED_INTEGERS, SINGLES, TOGETHER

SEARCHES = (searches.search, searches.running, searches.recurrence, searches.positions)
KINDS = {"i64": INTEGERS, "f64": DOUBLES, "f32": SINGLES}


def _groups(count: sizes.Expr, size: int) -> sizes.Expr:
    return sizes.floordiv(sizes.add(count, size - 1), size)


def search_call(node: Node) -> RoutineCall:
    """The call that computes a search from contiguous inputs."""
    kind = KINDS.get(node.inputs[0].dtype.short, INTEGERS)
    if node.op is searches.search:
        row, per_row = (i.type.shape[-1] for i in node.inputs)
        total = node.type.numel
        kind = ORDERED_INTEGERS if node.attributes.get("increasing") and kind == INTEGERS else kind
        words = (row, per_row, total, kind, int(node.attributes["right"]))
        return RoutineCall("routine search", words, _groups(total, CHUNK), 0)
    if node.op is searches.positions:
        return RoutineCall("routine positions", (node.inputs[0].type.numel, node.type.numel), 1, 0)
    n, inner, lines = lines_of(node)
    if node.op is searches.recurrence:
        return RoutineCall("routine recurrence", (n, inner, lines), _groups(lines, TOGETHER), 0)
    words = (n, inner, lines, kind, int(node.attributes["largest"]))
    return RoutineCall("routine running", words, _groups(lines, TOGETHER), 0)


def search_kernels(name: str, node: Node, out: Argument) -> list[Built]:
    """The kernels that do the same, for targets whose kernels do."""
    inputs: list[Argument] = [Pointer(where.root, where.offset) for where in map(layout, node.inputs)]
    dtype = node.inputs[0].dtype.short
    if node.op is searches.positions:
        return _positions(name, node, out, inputs)
    if node.op is not searches.search:
        return _along(name, node, out, inputs)
    op, rows = "search" + " right" * node.attributes["right"], [i.type.shape[-1] for i in node.inputs]
    return [_kernel(name, node, op, [out, *inputs], (node.dtype.short, dtype, dtype), rows, node.type.numel)]


def _positions(name: str, node: Node, out: Argument, inputs: list[Argument]) -> list[Built]:
    """The kernels that find where flags hold: how many hold in each block, and of many blocks in those before it."""
    dtype, flags = node.inputs[0].dtype.short, node.inputs[0].type.numel
    blocks = _groups(flags, loops.FLAGS)
    counts = Temporary(f"{name}.counts", "i64")
    first = _kernel(name, node, "count flags", [counts, *inputs], ("i64", dtype), (flags,), blocks)
    first.temporaries = {counts: blocks}
    found = (flags, node.type.numel)
    memory = (node.dtype.short, dtype, "i64", "i64")
    many = sizes.minimum(totals_of(blocks, 1), 1)
    before, scanned = counts, list[Built]()
    if many != 0:
        before, work = Temporary(f"{name}.before", "i64"), search_work(node)
        scanned = scans(f"{name}.scan", node, "add", before, counts, "i64", False, (blocks, 1), many, work)
        scanned[0].temporaries[before] = sizes.mul(blocks, many)
    second = _kernel(f"{name}.places", node, "positions", [out, *inputs, counts, before], memory, found, blocks)
    return [first, *scanned, second]


def _along(name: str, node: Node, out: Argument, inputs: list[Argument]) -> list[Built]:
    """The kernels of what goes along lines."""
    op = node.op.name + {True: " max", False: " min", None: ""}[node.attributes.get("largest")]
    dtype, dtypes = node.dtype.short, tuple([i.dtype.short for i in node.inputs])
    *found, lines = lines_of(node)
    count = totals_of(found[0], lines)
    if count == 0:
        return [_kernel(name, node, op, [out, *inputs], (dtype, *dtypes), found, lines)]
    totals = [Temporary(f"{name}.totals{i}", dtype) for i in range(len(inputs))]
    wide = (dtype,) * len(totals)
    first = _kernel(f"{name}.totals", node, f"{op} ahead", [*totals, *inputs], (*wide, *dtypes), found, count)
    first.temporaries = dict.fromkeys(totals, count)
    return [first, _kernel(name, node, op, [out, *inputs, *totals], (dtype, *dtypes, *wide), found, lines)]


def _kernel(
    name: str,
    node: Node,
    op: str,
    memory: list[Argument],
    dtypes: tuple[str, ...],
    found: Sequence[sizes.Expr],
    tasks: sizes.Expr,
) -> Built:
    """One kernel: its result comes first in memory."""

    def search(names: tuple[str, ...], amounts: tuple[int | str, ...]) -> loops.Search:
        return loops.Search(op, names, amounts, node.inputs[0].dtype.short)

    return whole(name, node, search, memory, dtypes, found, tasks, search_work(node))


def search_work(node: Node) -> sizes.Expr:
    """Scalar operations of a search."""
    return sizes.mul(node.inputs[-1].type.numel, node.op.cost)
