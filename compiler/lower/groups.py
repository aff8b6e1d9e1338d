"""Groups: the nodes that one kernel computes, and the loops they share.

A group's loops run over `dims` (sizes above 1, outermost first). Its nodes are

- full      one value per point of the loops, in row-major order,
- row       one value per row: the leading dims up to the split; reductions over the trailing dims make these,
- columns   reductions over the leading dims: finished by a second kernel, so nothing in the group may read them,
- total     reductions over everything: likewise finished by a second kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import field

from eagerjit.compiler import sizes
from eagerjit.compiler.affine import ZERO, Map, broadcast_map, identity_map, refine, without_ones
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.layout import layout
from eagerjit.compiler.ops import indexing
from eagerjit.compiler.passes.dead import may_raise
from eagerjit.compiler.shapes import Shape
from eagerjit.runtime.records import record

MEMORY = ("argument", "host", "routine")
"""Families whose results lie in memory, and are of no kernel that could compute more."""


@record(eq=False)
class Group:
    """One kernel in the making.

    again   values that are computed wherever they are read, whatever kernel computes what they are made of
    apart   nothing joins it
    needs   a bit set of the steps it depends on
    """

    number: int
    dims: Shape
    nodes: list[Node] = field(default_factory=list)
    full: set[Node] = field(default_factory=set)
    row: set[Node] = field(default_factory=set)
    columns: set[Node] = field(default_factory=set)
    total: set[Node] = field(default_factory=set)
    rows: sizes.Expr | None = None
    again: Collection[Node] = ()
    apart: bool = False
    needs: int = 0
    reasons: list[str] = field(default_factory=list)
    cost: int = 0

    def take(self, node: Node) -> None:
        """Add a node to those that the kernel computes."""
        self.nodes.append(node)
        self.cost += node.op.cost

    def made(self, node: Node) -> bool:
        """Whether the kernel computes a value of other values, at whatever places."""
        return node in self.full or node in self.row or node.op.family == "view" or node in self.again

    def level(self, node: Node, known: dict[Node, int]) -> int:
        """The first of a row's loops in which a value can be computed: after how many reductions, one on the other."""
        found = known.get(node)
        if found is None:
            if node in self.row and node.op.family == "reduction":
                found = self.level(node.inputs[0], known) + 1
            elif self.made(node):
                found = max((self.level(i, known) for i in node.inputs), default=0)
            else:
                found = 0
            known[node] = found
        return found

    def is_last(self, node: Node) -> bool:
        """Whether no value of a row is computed after this one's loop."""
        known: dict[Node, int] = {}
        reduced = [n.inputs[0] for n in (*self.row, *self.columns) if n.op.family == "reduction"]
        return self.level(node, known) == max(self.level(n, known) for n in (*self.full, *reduced))

    def split(self) -> int:
        """How many of the dims make up the rows."""
        reach: sizes.Expr = 1
        for position, d in enumerate(self.dims):
            if reach == self.rows:
                return position
            reach = sizes.mul(reach, d)
        return len(self.dims)

    def extents(self) -> dict[int, sizes.Expr]:
        """The loops' extents by variable."""
        return dict(enumerate(self.dims))

    def full_map(self, shape: Shape) -> Map | None:
        """The map of a full value of this shape."""
        return identity_map(shape, self.dims)

    def full_place(self, shape: Shape) -> Map:
        """The map of a full value that the group computes."""
        found = self.full_map(shape)
        assert found is not None
        return found

    def row_place(self, shape: Shape) -> Map:
        """The map of a row value that the group computes."""
        found = self.row_map(shape)
        assert found is not None
        return found

    def row_map(self, shape: Shape) -> Map | None:
        """The map of a row value of this shape."""
        return identity_map(shape, self.dims[: self.split()])


@record(eq=False)
class Library:
    """A step that is not a loop nest of ours: a matrix product, a routine of the runtime."""

    number: int
    node: Node
    needs: int = 0


@record(eq=False)
class Region:
    """A step that writes one result in parts: concatenation, scatter, slices replaced."""

    number: int
    node: Node
    needs: int = 0


@record(eq=False)
class HostStep:
    """A step that calls a Python function: nodes that are results of one call."""

    number: int
    nodes: list[Node]
    needs: int = 0

    @property
    def node(self) -> Node:
        """One of the nodes; they read the same."""
        return self.nodes[0]


Step = Group | Library | Region | HostStep


def is_inline(node: Node, known: dict[Node, bool]) -> bool:
    """Whether a node needs no memory and is cheap enough to compute again wherever it is read."""
    found = known.get(node)
    if found is None:
        op = node.op
        if op.family == "generator":
            found = "stateful" not in op.traits and not node.inputs
        elif op.family == "argument":
            found = node.attributes.get("number", False)
        elif op.family == "view":
            found = is_inline(node.inputs[0], known)
        elif "part" in op.traits:  # of a complex number in memory
            found = True
        else:
            cheap = op.family == "elementwise" and (op.cost <= 2 or node.type.shape == ())
            found = cheap and all(is_inline(i, known) and not _is_part(i) for i in node.inputs)
        known[node] = found
    return found


def _is_part(node: Node) -> bool:
    """Whether a value is a part of complex numbers in memory: read like memory, wherever it is needed."""
    return "part" in node.base.op.traits


def is_uniform(node: Node) -> bool:
    """Whether all elements are one number, wherever they are read."""
    stack, seen = [node], {node}
    while stack:
        value = stack.pop()
        if value.op.family in ("elementwise", "view") and "gathers" not in value.op.traits:
            stack += [i for i in value.inputs if i not in seen]
            seen.update(value.inputs)
        elif value.op.family not in ("generator", "argument") or value.type.shape != ():
            return False
    return True


def in_memory(nodes: list[Node], inline: dict[Node, bool]) -> None:
    """What is computed where it is read has to lie in memory, if a reshape reads it at places that are not affine."""
    known = dict(inline)  # views of what has to lie in memory are not inline either
    for node in nodes:
        base, shape = node.inputs[0] if node.inputs else node, without_ones(node.type.shape)
        if node.op.name != "reshape" or refine(without_ones(base.type.shape), shape) == shape:
            continue
        if is_inline(base, known):
            if not is_uniform(base.base):
                inline[base.base] = False


def everywhere(nodes: list[Node], again: Collection[Node], inline: dict[Node, bool]) -> None:
    """Values that are computed wherever they are read need no memory, nor do views of them; others do as before."""
    for node in nodes:
        is_inline(node, inline)
    for node in nodes:
        if node in again or (node.op.family == "view" and node.base in again):
            inline[node] = True


def ends(node: Node, computed: Container[Node]) -> list[Node]:
    """The computed nodes and inputs that a value is made of, through views and inlined nodes, each once."""
    found: list[Node] = []
    seen: set[Node] = set()
    stack = [node]
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in computed or value.op.family == "argument":
            found.append(value)
        else:
            stack += reversed(value.inputs)
    return found


def joined_again(graph: Graph) -> set[Node]:
    """Concatenations that only another one reads, into whose result their parts are written."""
    users, results = graph.users(), set(graph.results())
    return {
        n
        for n in graph.nodes
        if n.op is indexing.cat and n not in results and [u.op for u in users[n]] == [indexing.cat]
    }


def computed_in_parts(graph: Graph) -> list[Node]:
    """Elementwise parts of a concatenation that nothing else reads, of memory and numbers: computed where they go.

    What another kernel computes on the way to a part is left to it.
    """
    users, results = graph.users(), set(graph.results())
    return [
        n
        for n in graph.nodes
        if n.op.family == "elementwise"
        and [u.op for u in users[n]] == [indexing.cat]
        and n not in results
        and not ("gathers" in n.op.traits or n.dtype.is_complex or may_raise(n))
        and all(i.base.op.family in MEMORY or is_uniform(i) for i in n.inputs)
    ]


def parts(node: Node, inline: dict[Node, bool]) -> list[Node]:
    """What a step reads from memory: of a concatenation the parts, those of its concatenations among them."""
    if node.op is not indexing.cat:
        return list(node.inputs)
    found = []
    for value in node.inputs:
        if not is_inline(value, inline):
            found.append(value)
        elif value.op is indexing.cat:
            found += parts(value, inline)
    return found


def viewed(node: Node, map_: Map, group: Group) -> Map | None:
    """Where a view reads its base; None if these places are not affine and matter."""
    base = node.inputs[0]
    found = node.op.index_map(map_, node.type.shape, base.type.shape, group.extents(), **node.attributes)
    if found is None and (0 in base.type.shape or is_uniform(base)):
        return (ZERO,) * len(base.type.shape)
    return found


def reached(node: Node, map_: Map, group: Group) -> Map:
    """Where a view that the group computes reads its base."""
    found = viewed(node, map_, group)
    assert found is not None
    return found


class Access:
    """Whether, and how, a group's loops reach the values that a node reads."""

    def __init__(self, inline: dict[Node, bool]):
        self.inline = inline

    def reaches(self, node: Node, map_: Map, group: Group) -> bool:
        """Whether the loops can get at `node` at this map without another kernel in between."""
        if node in group.full:
            return map_ == group.full_map(node.type.shape)
        if node in group.row:
            return map_ == group.row_map(node.type.shape)
        if node in group.columns or node in group.total:
            return False
        if is_inline(node, self.inline):
            return self._inline_reaches(node, map_, group)
        if node.op.family == "view":
            root = layout(node).root
            if root not in group.full and root not in group.row:
                return root not in group.columns and root not in group.total
            base = node.inputs[0]
            inner = node.op.index_map(map_, node.type.shape, base.type.shape, group.extents(), **node.attributes)
            return inner is not None and self.reaches(base, inner, group)
        return True

    def _inline_reaches(self, node: Node, map_: Map, group: Group) -> bool:
        if node.op.family == "view":
            inner = viewed(node, map_, group)
            return inner is not None and self.reaches(node.inputs[0], inner, group)
        shape = node.type.shape
        return all(self.reaches(i, broadcast_map(map_, shape, i.type.shape), group) for i in node.inputs)


def refined(group: Group, shape: Shape) -> Shape | None:
    """The group's dims refined so that a value of this shape fits its loops."""
    return refine(group.dims, without_ones(shape))
