"""What nodes ask of the kernels that compute them: the kind of a reduction."""

from __future__ import annotations

from collections.abc import Iterable

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.lower.build import BLOCK


def finds_places(node: Node) -> bool:
    """Whether a reduction gives the places of what it finds: these are places in the order of the indices."""
    return node.op.scalar.startswith("arg")


def reduction_kind(node: Node) -> tuple[str, sizes.Expr]:
    """("rows", number of rows), ("columns", ...), ("total", 1) or ("middle", ...), by the axes alone."""
    shape = node.inputs[0].type.shape
    axes = node.attributes["axes"]
    before = sizes.product(shape[: axes[0]])
    after = sizes.product(shape[axes[-1] + 1 :])
    if before == 1 and after == 1:
        extent = node.inputs[0].type.numel
        small = isinstance(extent, int) and extent <= BLOCK
        return ("rows", 1) if small or finds_places(node) else ("total", 1)
    if after == 1:
        return "rows", before
    if before == 1:
        return "columns", sizes.product(tuple(shape[a] for a in axes))
    return "middle", before


def has_middle(reductions: Iterable[Node]) -> bool:
    """Whether one of these reduces dimensions between others."""
    return any(reduction_kind(n)[0] == "middle" for n in reductions)
