"""Graph IR: typed, single assignment, in execution order.

A Node is one operation and, at the same time, its single result. A Graph lists its inputs, its nodes in the order in
which they were recorded, and its outputs. Nodes are never changed; passes build new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from eagerjit.compiler import sizes
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.records import record

if TYPE_CHECKING:
    from eagerjit.compiler.ops.declare import Primitive


@record(frozen=True)
class TensorType:
    """Element type and shape; each dimension is an int or a symbolic Size."""

    dtype: DType
    shape: tuple[sizes.Expr, ...]

    @property
    def numel(self) -> sizes.Expr:
        return sizes.product(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.short}[{', '.join(map(str, self.shape))}]"


class Node:
    """An operation and its result."""

    __slots__ = ("attributes", "inputs", "op", "source", "type")

    def __init__(
        self,
        op: Primitive,
        inputs: tuple[Node, ...],
        attributes: Mapping[str, Any],
        type: TensorType,
        source: str = "",
    ):
        self.op, self.inputs, self.attributes, self.type, self.source = op, inputs, attributes, type, source

    @property
    def shape(self) -> tuple[sizes.Expr, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def base(self) -> Node:
        """What the node is a view of, through all views of views; itself if it is no view."""
        node = self
        while node.op.family == "view":
            node = node.inputs[0]
        return node

    def __repr__(self) -> str:
        return f"<{self.op.name}: {self.type}>"


def made(op: Primitive, inputs: Sequence[Node], source: str, **attributes: Any) -> Node:
    """An operation on these, of the type that its rule says."""
    return Node(op, tuple(inputs), attributes, op.type_rule(*(n.type for n in inputs), **attributes), source)


class Appended:
    """What appends nodes, one after the other."""

    nodes: list[Node]
    source: str

    def emit(self, op: Primitive, *inputs: Node, **attributes: Any) -> Node:
        """Append one operation."""
        self.nodes.append(made(op, inputs, self.source, **attributes))
        return self.nodes[-1]


@record
class Graph:
    """A recorded function. `writes` pairs an input with the node whose value it holds afterwards."""

    name: str
    inputs: list[Node]
    nodes: list[Node]
    outputs: list[Node]
    writes: list[tuple[Node, Node]] = field(default_factory=list)

    def results(self) -> list[Node]:
        """Everything that must be computed."""
        return self.outputs + [value for _, value in self.writes]

    def users(self) -> dict[Node, list[Node]]:
        """For every node the nodes that read it, in order."""
        users: dict[Node, list[Node]] = {n: [] for n in (*self.inputs, *self.nodes)}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs):
                users[value].append(node)
        return users

    @staticmethod
    def parse(text: str) -> Graph:
        """The graph that prints as `text`."""
        from eagerjit.compiler.text import parse_graph

        return parse_graph(text)

    def run(self, *arrays: Any) -> list[Any]:
        """The outputs, then the values written, computed by NumPy on arrays for the inputs."""
        from eagerjit.compiler.evaluate import evaluate_graph

        return list(evaluate_graph(self, arrays))

    def __str__(self) -> str:
        from eagerjit.compiler.text import print_graph

        return print_graph(self)


def rebuild(graph: Graph, nodes: Iterable[Node], replaced: Mapping[Node, Node]) -> Graph:
    """The graph with these nodes, its outputs and writes mapped through `replaced`."""
    return Graph(
        graph.name,
        graph.inputs,
        list(nodes),
        [replaced.get(n, n) for n in graph.outputs],
        [(target, replaced.get(value, value)) for target, value in graph.writes],
    )


def ancestors(nodes: list[Node]) -> set[Node]:
    """The nodes and all that they are computed from."""
    found: set[Node] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += node.inputs
    return found
