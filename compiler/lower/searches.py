"""Searches: how routines of the native runtime are called for them, and kernels of their own for GPUs."""

from __future__ import annotations

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.build import Built
from eagerjit.compiler.lower.calls import RoutineCall
from eagerjit.compiler.lower.emit import Amount, Argument, Pointer
from eagerjit.compiler.ops import searches
from eagerjit.runtime.native.search import CHUNK, DOUBLES, INTEGERS, ORDERED_INTEGERS, SINGLES, TOGETHER

SEARCHES = (searches.search, searches.running, searches.recurrence, searches.positions)
KINDS = {"i64": INTEGERS, "f64": DOUBLES, "f32": SINGLES}


def _lines(node: Node) -> tuple[sizes.Expr, sizes.Expr, sizes.Expr]:
    """How long the lines along a node's dimension are, how far apart their elements, and how many they are."""
    shape, dim = node.inputs[0].type.shape, node.attributes["dim"]
    inner = sizes.product(shape[dim + 1 :])
    return shape[dim], inner, sizes.mul(sizes.product(shape[:dim]), inner)


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
    n, inner, lines = _lines(node)
    if node.op is searches.recurrence:
        return RoutineCall("routine recurrence", (n, inner, lines), _groups(lines, TOGETHER), 0)
    words = (n, inner, lines, kind, int(node.attributes["largest"]))
    return RoutineCall("routine running", words, _groups(lines, TOGETHER), 0)


def search_kernel(name: str, node: Node, out: Argument) -> Built:
    """The kernel that does the same, for targets whose kernels do."""
    arguments: list[Argument] = [out]
    params = [loops.Param("out", "memory", node.dtype.short)]
    for position, value in enumerate(node.inputs):
        where = layout(value)
        arguments.append(Pointer(where.root, where.offset))
        params.append(loops.Param(f"x{position}", "memory", value.dtype.short))

    def amount(size: sizes.Expr) -> int | str:
        if isinstance(size, int):
            return size
        if Amount(size) not in arguments:
            params.append(loops.Param(f"s{len(params)}", "size", "i64"))
            arguments.append(Amount(size))
        return params[arguments.index(Amount(size))].name

    memory = tuple(p.name for p in params)
    op = node.op.name
    if node.op is searches.search:
        op += " right" * node.attributes["right"]
        found: tuple[sizes.Expr, ...] = tuple(i.type.shape[-1] for i in node.inputs)
        tasks = node.type.numel
    elif node.op is searches.positions:
        found, tasks = (node.inputs[0].type.numel, node.type.numel), 1
    else:
        op += {True: " max", False: " min", None: ""}[node.attributes.get("largest")]
        *found_, tasks = _lines(node)
        found = tuple(found_)
    statement = loops.Search(op, memory, tuple(map(amount, found)), node.inputs[0].dtype.short)
    kernel = loops.Kernel(name, tuple(params), (statement,))
    return Built(kernel, arguments, tasks, search_work(node), 0, (node.source,))


def search_work(node: Node) -> sizes.Expr:
    """Scalar operations of a search."""
    return sizes.mul(node.inputs[-1].type.numel, node.op.cost)
