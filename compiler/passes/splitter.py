"""Complex numbers taken apart: kernels, of whatever target, compute with real and imaginary parts.

What remains complex lies in memory: inputs, views of it, results and what functions of the host take and give. Their
parts are read by `real` and `imag`, and `complex` writes them there.
"""

from __future__ import annotations

from typing import Any

from eagerjit.compiler.ir import Appended, Graph, Node, TensorType, rebuild
from eagerjit.compiler.layout import is_contiguous
from eagerjit.compiler.ops import complexes, elementwise, views
from eagerjit.compiler.passes.complex_functions import FUNCTIONS, Pair, Real
from eagerjit.compiler.passes.complexes import BILINEAR, PART_BY_PART, is_complex
from eagerjit.compiler.passes.simplify import with_inputs
from eagerjit.compiler.shapes import Shape
from eagerjit.runtime.dtypes import REAL_OF

Parts = tuple[Node, Node]


class Splitter(Appended):
    """Appends the nodes of a graph without complex operations; complex nodes that it computes become their parts."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.replaced: dict[Node, Node] = {}
        self.computed: dict[Node, Parts] = {}
        self.read: dict[Node, Parts] = {}
        self.source = ""

    def run(self, graph: Graph) -> Graph:
        """The graph with complex results where they lie in memory."""
        for node in graph.nodes:
            self.source = node.source
            if is_complex(node.type, *(n.type for n in node.inputs)) and not self._is_kept(node):
                self._split(node)
            else:
                self._keep(node)
        for node in graph.results():
            self.source = node.source
            self.whole(node)
        return rebuild(graph, self.nodes, self.replaced)

    def whole(self, node: Node) -> Node:
        """The node with complex elements in memory; a real one as it is now."""
        if node in self.computed and node not in self.replaced:
            if node.op.family == "view":
                self.replaced[node] = self._done(node, (self.whole(node.inputs[0]),))
            else:
                self.replaced[node] = self.emit(complexes.make_complex, *self.computed[node])
        return self.replaced.get(node, node)

    def parts(self, node: Node) -> Parts:
        """The parts of a complex node."""
        found = self.computed.get(node) or self.read.get(node)
        if found is None:
            whole = self.whole(node)
            found = self.read[node] = self.emit(complexes.real, whole), self.emit(complexes.imag, whole)
        return found

    def operand(self, node: Node) -> Real | Pair:
        """An operand of a function."""
        if node.dtype.is_complex:
            re, im = self.parts(node)
            return Real(self.emit, re), Real(self.emit, im)
        return Real(self.emit, self.whole(node))

    def _is_kept(self, node: Node) -> bool:
        """Whether a node takes complex numbers in memory, and gives them there."""
        return node.op.family == "host" or (node.op.family == "view" and node.inputs[0] not in self.computed)

    def _keep(self, node: Node) -> None:
        for value in node.inputs:
            self.whole(value)
        current = with_inputs(node, self.replaced)
        if current is not node:
            self.replaced[node] = current
        self.nodes.append(current)

    def _split(self, node: Node) -> None:
        if node.op in PART_BY_PART:
            made: Any = self._part_by_part(node)
        elif node.op in BILINEAR:
            made = self._bilinear(node)
        elif node.op in (elementwise.cast, elementwise.constant):
            made = self._converted(node)
        else:
            made = self._function(node)
        if isinstance(made, tuple):
            re, im = (self._spread(part, node.shape) for part in made)
            self.computed[node] = re, im
        else:
            self.replaced[node] = made

    def _function(self, node: Node) -> Parts | Node:
        """A function's steps, which are no lines of the user's, and its results."""
        operands = [self.operand(n) for n in node.inputs]
        first, self.source = len(self.nodes), ""
        found = FUNCTIONS[node.op.name](*operands)
        made = (found[0].node, found[1].node) if isinstance(found, tuple) else found.node
        self.source = node.source
        results = made if isinstance(made, tuple) else (made,)
        for value in self.nodes[first:]:
            if value in results:
                value.source = node.source
        return made

    def _spread(self, part: Node, shape: Shape) -> Node:
        """A part in the shape of the number: where operands broadcast it may come from one of them alone."""
        added = len(shape) - len(part.shape)
        own = zip(part.shape, shape[added:], strict=True)
        full = (*shape[:added], *(whole if d == 1 else d for d, whole in own))
        return part if full == part.shape else self.emit(views.expand, part, shape=full)

    def _part_by_part(self, node: Node) -> Parts:
        operands = [self.parts(n) if n.dtype.is_complex else (self.whole(n),) * 2 for n in node.inputs]
        re, im = (self._done(node, values) for values in zip(*operands, strict=True))
        return re, im

    def _done(self, node: Node, values: tuple[Node, ...]) -> Node:
        """What a node does to numbers, done to other values; of a view the recording knows which sizes are 1."""
        made = self.emit(node.op, *values, **node.attributes)
        if node.op.family == "view":
            made.type = TensorType(made.dtype, node.shape)
        return made

    def _bilinear(self, node: Node) -> Parts:
        (a, b), (c, d) = (map(self._row_major, self.parts(n)) for n in node.inputs)
        ac, bd, ad, bc = (self.emit(node.op, x, y, **node.attributes) for x, y in ((a, c), (b, d), (a, d), (b, c)))
        return self.emit(elementwise.sub, ac, bd), self.emit(elementwise.add, ad, bc)

    def _row_major(self, part: Node) -> Node:
        """The part as it lies where it was read from memory: products of other layouts may add in another order."""
        return part if is_contiguous(part) else self.emit(elementwise.cast, part, dtype=part.dtype)

    def _converted(self, node: Node) -> Parts | Node:
        """A number, or a conversion: a real number has no imaginary part, a complex one is true if either part is."""
        dtype = node.dtype
        part = REAL_OF.get(dtype, dtype)
        if node.op is elementwise.constant:
            value = complex(node.attributes["value"])
            re, im = (self.emit(elementwise.constant, value=x, dtype=part) for x in (value.real, value.imag))
            return re, im
        (x,) = node.inputs
        if not x.dtype.is_complex:
            zero = self.emit(elementwise.constant, value=0.0, dtype=part)
            re = self.emit(elementwise.cast, self.whole(x), dtype=part)
            return re, self.emit(views.expand, zero, shape=node.shape)
        re, im = (self.emit(elementwise.cast, value, dtype=part) for value in self.parts(x))
        if part.kind == "bool":
            return self.emit(elementwise.logical_or, re, im)
        return (re, im) if dtype.is_complex else re
