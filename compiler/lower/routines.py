"""Scans and orders: how routines of the native runtime are called, and kernels of their own for GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.build import Built
from eagerjit.compiler.lower.calls import RoutineCall
from eagerjit.compiler.lower.emit import Amount, Argument, Pointer
from eagerjit.compiler.lower.searches import SEARCHES, search_call, search_work
from eagerjit.compiler.ops import routines
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.native.order import FLOAT, HISTOGRAM_BYTES, LINE_BYTES, SIGNED, UNSIGNED
from eagerjit.runtime.native.scan import TOGETHER


def along(name: str, node: Node, out: Argument) -> Built:
    """The kernel of a scan or an order, for targets whose kernels do them."""
    x, dim = node.inputs[0], node.attributes["dim"]
    where = layout(x)
    arguments: list[Argument] = [Pointer(where.root, where.offset), out]
    params = [loops.Param("m0", "memory", x.dtype.short), loops.Param("m1", "memory", node.dtype.short)]

    def amount(size: sizes.Expr) -> int | str:
        if isinstance(size, int):
            return size
        if Amount(size) not in arguments:
            params.append(loops.Param(f"s{len(params)}", "size", "i64"))
            arguments.append(Amount(size))
        return params[arguments.index(Amount(size))].name

    shape = x.type.shape
    inner = sizes.product(shape[dim + 1 :])
    orders = {True: "descending", False: "ascending"}
    op = node.attributes["combine"] if node.op is routines.scan else orders[node.attributes["descending"]]
    extent, apart, wanted = (amount(size) for size in (shape[dim], inner, node.type.shape[dim]))
    statement = loops.Along("m1", "m0", op, extent, apart, wanted, x.dtype.short)
    lines = sizes.mul(sizes.product(shape[:dim]), inner)
    kernel = loops.Kernel(name, tuple(params), (statement,))
    return Built(kernel, arguments, lines, work_of(node), 0, (node.source,))


def work_of(node: Node) -> sizes.Expr:
    """Scalar operations of a routine."""
    if node.op in SEARCHES:
        return search_work(node)
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
