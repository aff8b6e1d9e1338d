"""Calls of the host on small matrices as kernels, for GPUs: one matrix per program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from eagerjit.compiler import loops, sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.lower.build import Built, Parameters
from eagerjit.compiler.lower.emit import Argument, Pointer
from eagerjit.compiler.ops.host import BY_KERNELS

RESULTS: dict[str, tuple[str, ...]] = {
    "linalg_cholesky_ex": ("factor", "info"),
    "linalg_lu_factor": ("factors", "pivots"),
    "linalg_matrix_exp": ("out",),
    "linalg_qr": ("q", "r_of"),
    "linalg_solve_triangular": ("out",),
    "lu_permutation": ("out",),
    "orthogonal_columns": ("out",),
    "orthogonal_polynomial": ("out",),
    "substituted": ("out",),
}
"""The functions that kernels compute, and their results; the inputs are called x0, x1, ..."""


def is_small(node: Node) -> bool:
    """Whether this is a call of the host that kernels do."""
    return node.op.family == "host" and node.attributes["function"].endswith(BY_KERNELS)


def matrices(name: str, results: Sequence[Node], out: Callable[[Node], Argument]) -> list[Built]:
    """The kernel that computes the results of one call that are wanted."""
    known, first = Parameters(), results[0]
    function = first.attributes["function"].removesuffix(BY_KERNELS)
    memory = []
    for number, value in enumerate(first.inputs):
        place = layout(value)
        memory.append((f"x{number}", known.memory(Pointer(place.root, place.offset), value.dtype.short, f"x{number}")))
    for node in results:
        title = RESULTS[function][node.attributes["result"]]
        memory.append((title, known.memory(out(node), node.dtype.short, title)))
    extents, tasks = _extents(function, first)
    numbers = tuple(_numbers(first.attributes["arguments"]))
    statement = loops.Matrices(function, tuple(memory), tuple(map(known.amount, extents)), numbers)
    work = sizes.mul(tasks, math.prod([64] * max(len(extents), 1)))
    return [Built(known.kernel(name, statement), known.arguments, tasks, work, 0, (first.source,))]


def _numbers(argument: object) -> Iterator[float]:
    """The numbers that a call is made with, in order; sizes are no numbers."""
    if isinstance(argument, tuple):
        for part in argument:
            yield from _numbers(part)
    elif isinstance(argument, bool | float):
        yield float(argument)


def _extents(function: str, node: Node) -> tuple[tuple[sizes.Expr, ...], sizes.Expr]:
    """The sizes that a kernel is told, and how many matrices (or elements) there are."""
    shapes = [value.type.shape for value in node.inputs]
    if function == "orthogonal_polynomial":
        return (), node.type.numel
    if function == "lu_permutation":
        return (shapes[0][-1], node.type.shape[-1]), sizes.product(shapes[0][:-1])
    if function == "linalg_qr":
        inner = node.type.shape[-2 if node.attributes["result"] else -1]
        return (*shapes[0][-2:], inner), sizes.product(shapes[0][:-2])
    if function in ("substituted", "linalg_solve_triangular"):
        return tuple(shapes[-1][-2:]), sizes.product(shapes[-1][:-2])
    return tuple(shapes[0][-2:]), sizes.product(shapes[0][:-2])
