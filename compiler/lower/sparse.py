"""Sparse products: how the routine of the native runtime is called for them."""

from __future__ import annotations

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.calls import RoutineCall
from eagerjit.runtime.native.sparse import TOGETHER


def product_call(node: Node) -> RoutineCall:
    """The call that computes weighted rows from contiguous inputs."""
    rows, columns = node.type.shape
    tasks = sizes.floordiv(sizes.add(rows, TOGETHER - 1), TOGETHER)
    return RoutineCall("routine weighted_rows", (rows, columns, node.dtype.itemsize), tasks, 0)


def product_work(node: Node) -> sizes.Expr:
    """Scalar operations of weighted rows."""
    return sizes.mul(sizes.mul(node.inputs[0].type.numel, node.type.shape[1]), node.op.cost)
