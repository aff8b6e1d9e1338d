"""Where a node's elements lie: the memory they are in, and the strides they have there."""

from __future__ import annotations

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.shapes import contiguous_strides
from eagerjit.runtime.records import record


@record(frozen=True)
class Layout:
    """Elements of `root`'s memory: strides per dimension and an offset, both in elements."""

    root: Node
    strides: tuple[sizes.Expr, ...]
    offset: sizes.Expr


def layout(node: Node) -> Layout:
    """The layout of a node: a view lies in the memory of what it views, everything else is contiguous in its own."""
    assumptions = sizes.active.assumptions
    known = {} if assumptions is None or assumptions.settled is None else assumptions.settled
    views: list[Node] = []
    while node not in known and node.op.family == "view":
        views.append(node)
        node = node.inputs[0]
    found = known.get(node)
    if found is None:
        found = known[node] = _own(node)
    for view in reversed(views):
        found = known[view] = _of_view(view, found)
    return found


def _own(node: Node) -> Layout:
    strides = node.attributes.get("strides") if node.op.family == "argument" else None
    return Layout(node, contiguous_strides(node.type.shape) if strides is None else strides, 0)


def _of_view(view: Node, base: Layout) -> Layout:
    found = view.op.layout(view.inputs[0].type.shape, base.strides, base.offset, **view.attributes)
    if found is None:
        return Layout(view, contiguous_strides(view.type.shape), 0)
    strides, offset = found
    return Layout(base.root, strides, offset)


def is_contiguous(node: Node) -> bool:
    """Whether a node's elements lie in row-major order without gaps; dimensions of size 1 have any stride."""
    expected = contiguous_strides(node.type.shape)
    actual = layout(node).strides
    return all(d == 1 or a == e for d, a, e in zip(node.type.shape, actual, expected, strict=True))
