"""Scatters on GPUs whose entries follow each other along one dimension, as rows or elements that programs share.

Lines along the dimension are a thread each, which adds the entries one by one: that is slow where entries are many and
lines few. Entries that all columns send to the same place are rows; other ones are elements of a flat tensor. Both are
added in the order of the entries, so that every place has the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Appended, Node
from eagerjit.compiler.layout import is_contiguous, layout
from eagerjit.compiler.lower.turned import recorded
from eagerjit.compiler.ops import elementwise, indexing, views
from eagerjit.compiler.ops.indexing import ENTRIES, LINES
from eagerjit.compiler.shapes import contiguous_strides
from eagerjit.runtime import dtypes


def in_parallel(node: Node, hints: Mapping[str, int]) -> Iterator[Node]:
    """A scatter that programs share, for sizes as in the call that was recorded; nothing where that is not worth it."""
    index, dim = node.inputs[1], node.attributes["dim"]
    entries, elements = (recorded(size, hints) for size in (index.shape[dim], index.type.numel))
    shared = node.attributes.get("shared", False)
    if len(index.shape) < 2 or (entries < ENTRIES and not shared):
        return
    nodes = _Nodes(node)
    if shared:
        nodes.elements()
    elif nodes.are_rows():
        nodes.rows()
    elif elements <= LINES * entries:
        nodes.elements()
    yield from nodes.nodes


def is_shared(node: Node, op: str) -> bool:
    """Whether programs share the entries of one place, whose result is then made of parts.

    Products of floats are not: that of a part may overflow where all of them are 0. Nor are sums of floats that were
    lines, which sizes of the recorded call decide: what they come to must not depend on it. Where the op has decided
    (`shared`), every call's own sizes have.
    """
    real, known = node.dtype.is_floating_point, node.attributes
    added = op == "add" and (known.get("shared", False) or not known.get("lines", False))
    return op in ("maximum", "minimum") or (op != "" and not real) or added


class _Nodes(Appended):
    """The nodes that replace one scatter."""

    def __init__(self, node: Node):
        self.node, self.source = node, node.source
        self.nodes: list[Node] = []

    def are_rows(self) -> bool:
        """Whether an entry goes to the same place in all of its columns."""
        base, index, _ = self.node.inputs
        into = self.node.op is indexing.scatter_add or self.node.attributes["combine"] == ""
        steps = layout(index).strides[1:]
        return into and self.node.attributes["dim"] == 0 and index.shape[1:] == base.shape[1:] and not any(steps)

    def rows(self) -> None:
        """Rows that are added to rows, or put in their place."""
        base, index, value = self.node.inputs
        for dim in range(1, len(index.shape)):
            index = self.emit(views.slice_, index, dim=dim, start=0, stop=1, step=1)
        index = self.emit(views.reshape, index, shape=index.shape[:1])
        op = indexing.add_rows if self.node.op is indexing.scatter_add else indexing.put_rows
        attributes = {"name": self.node.op.name, "error": self.node.attributes.get("error") or "RuntimeError"}
        attributes["lines"] = True
        self.nodes.append(Node(op, (base, index, value), attributes, base.type, self.source))

    def elements(self) -> None:
        """The same of flat tensors: what is out of a line's range is so there too."""
        base, index, value = self.node.inputs
        dim, strides = self.node.attributes["dim"], contiguous_strides(base.shape)
        index = self.emit(elementwise.cast, index, dtype=dtypes.int64)
        low = self.emit(elementwise.ge, index, self._number(0))
        high = self.emit(elementwise.lt, index, self._number(base.shape[dim]))
        place = self.emit(elementwise.mul, index, self._number(strides[dim]))
        for axis, (extent, stride) in enumerate(zip(index.shape, strides, strict=True)):
            if axis != dim and extent != 1:
                along = self.emit(elementwise.iota, size=extent, dtype=dtypes.int64)
                along = self.emit(views.reshape, along, shape=(extent, *(1 for _ in index.shape[axis + 1 :])))
                place = self.emit(elementwise.add, place, self.emit(elementwise.mul, along, self._number(stride)))
        inside = self.emit(elementwise.logical_and, low, high)
        place = self.emit(elementwise.where, inside, place, self._number(-1))
        flat = [self._flat(x) for x in (base, place, value)]
        attributes = {**self.node.attributes, "dim": 0, "size": base.shape[dim], "lines": True}
        self.nodes.append(Node(self.node.op, tuple(flat), attributes, flat[0].type, self.source))
        self.emit(views.reshape, self.nodes[-1], shape=base.shape)

    def _flat(self, value: Node) -> Node:
        if not is_contiguous(value):
            value = self.emit(elementwise.cast, value, dtype=value.dtype)
        return self.emit(views.reshape, value, shape=(value.type.numel,))

    def _number(self, size: sizes.Expr) -> Node:
        if isinstance(size, int):
            return self.emit(elementwise.constant, value=size, dtype=dtypes.int64)
        return self.emit(elementwise.size_value, size=size)
