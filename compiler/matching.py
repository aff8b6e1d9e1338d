"""Which values of one graph are values of another: the same operations on the same inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eagerjit.compiler.ir import Node
from eagerjit.compiler.text import print_attributes


class Numbering:
    """Gives nodes numbers that are equal where the values are, in any graph over the same leaves."""

    def __init__(self) -> None:
        self._numbers: dict[Node, int] = {}
        self._known: dict[Any, int] = {}

    def number(self, node: Node) -> int:
        """The number of a node's value."""
        stack = [node]
        while stack:
            current = stack[-1]
            missing = [i for i in current.inputs if i not in self._numbers]
            if current in self._numbers or not missing:
                if current not in self._numbers:
                    self._numbers[current] = self._known.setdefault(self._key(current), len(self._known))
                stack.pop()
            else:
                stack += missing
        return self._numbers[node]

    def _key(self, node: Node) -> Any:
        if node.op.family == "argument":
            leaf, cotangent = node.attributes.get("leaf"), node.attributes.get("cotangent")
            if cotangent is not None:
                return "cotangent", cotangent, str(node.type)
            return "input", node if leaf is None else leaf
        inputs = tuple(self._numbers[i] for i in node.inputs)
        return node.op, inputs, tuple(print_attributes(node.attributes)), str(node.type)


def matches(values: Sequence[Node], nodes: Iterable[Node]) -> dict[int, Node]:
    """For each position in `values` the first of `nodes` that is the same value, where there is one."""
    numbering = Numbering()
    found: dict[int, Node] = {}
    for node in nodes:
        found.setdefault(numbering.number(node), node)
    return {i: found[number] for i, v in enumerate(values) if (number := numbering.number(v)) in found}


def is_same_recording(a: Sequence[Node], b: Sequence[Node]) -> bool:
    """Whether two recordings did the same, one operation after the other."""
    pairs: dict[Node, Node] = {}
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):
        if x.op is not y.op or x.type != y.type or len(x.inputs) != len(y.inputs):
            return False
        if not all(pairs.get(i) is j or _is_same_input(i, j) for i, j in zip(x.inputs, y.inputs, strict=True)):
            return False
        if [*print_attributes(x.attributes)] != [*print_attributes(y.attributes)]:
            return False
        pairs[x] = y
    return True


def _is_same_input(a: Node, b: Node) -> bool:
    family = a.op.family
    return family == b.op.family == "argument" and a.attributes.get("leaf") == b.attributes.get("leaf")
