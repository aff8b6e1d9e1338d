"""Sparse products: how the routine of the native runtime is called for them, and their kernel for GPUs."""

from __future__ import annotations

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.build import Built, whole
from eagerjit.compiler.lower.calls import RoutineCall
from eagerjit.compiler.lower.emit import Argument, Pointer
from eagerjit.runtime.native.sparse import TOGETHER


def product_call(node: Node) -> RoutineCall:
    """The call that computes weighted rows from contiguous inputs."""
    rows, columns = node.type.shape
    tasks = sizes.floordiv(sizes.add(rows, TOGETHER - 1), TOGETHER)
    return RoutineCall("routine weighted_rows", (rows, columns, node.dtype.itemsize), tasks, 0)


def product_kernel(name: str, node: Node, out: Argument) -> Built:
    """The kernel that computes weighted rows, for targets whose kernels do."""
    rows, columns = node.type.shape
    memory = [out, *(Pointer(where.root, where.offset) for where in map(layout, node.inputs))]
    dtypes = [node.dtype.short, *(i.dtype.short for i in node.inputs)]

    def weighted(names: tuple[str, ...], amounts: tuple[int | str, ...]) -> loops.Weighted:
        return loops.Weighted(*names, *amounts, node.dtype.short)  # type: ignore[call-arg, arg-type]

    found = (columns, node.inputs[0].type.numel)
    return whole(name, node, weighted, memory, dtypes, found, rows, product_work(node))


def product_work(node: Node) -> sizes.Expr:
    """Scalar operations of weighted rows."""
    return sizes.mul(sizes.mul(node.inputs[0].type.numel, node.type.shape[1]), node.op.cost)
