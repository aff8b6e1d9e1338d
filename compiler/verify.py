"""The rules that every Graph keeps, checked."""

from __future__ import annotations

from collections.abc import Mapping

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node
from eagerjit.compiler.ops import TABLE
from eagerjit.compiler.text import node_names, print_node

ARGUMENT_ATTRIBUTES = frozenset({"leaf", "strides", "number", "cotangent"})


class InvalidGraph(ValueError):
    """A graph breaks a rule; the message shows the node's line."""


def verify(graph: Graph, hints: Mapping[str, int] | None = None) -> None:
    """Raise InvalidGraph unless every value is defined once and before its use, and has the type that its op gives it.

    Sizes that the algebra can't compare are compared by `hints`, the sizes of the call that was traced.
    """
    names = node_names(graph)
    if len(names) != len(graph.inputs) + len(graph.nodes):
        repeated = next(n for n in names if [*graph.inputs, *graph.nodes].count(n) > 1)
        raise InvalidGraph(f"a node is listed twice: {print_node(repeated, names)}")
    defined: set[Node] = set()
    before = sizes.active.assumptions
    sizes.active.assumptions = None if hints is None else sizes.Assumptions(dict(hints))
    try:
        for node in graph.inputs:
            _require(_input_problem(node), node, names)
            defined.add(node)
        for node in graph.nodes:
            _require(_node_problem(node, defined), node, names)
            defined.add(node)
        _verify_results(graph, defined, names)
    finally:
        sizes.active.assumptions = before


def _require(problem: str, node: Node, names: Mapping[Node, str]) -> None:
    if problem:
        raise InvalidGraph(f"{problem}: {print_node(node, names)}")


def _input_problem(node: Node) -> str:
    """What is wrong with an input; nothing if it is sound."""
    if node.op.family != "argument":
        return "an input must be an argument"
    unknown = node.attributes.keys() - ARGUMENT_ATTRIBUTES
    if unknown:
        return f"an argument has no attribute {', '.join(sorted(unknown))}"
    strides = node.attributes.get("strides")
    return "as many strides as sizes are needed" if strides is not None and len(strides) != len(node.shape) else ""


def _node_problem(node: Node, defined: set[Node]) -> str:
    """What is wrong with a node; nothing if it is sound."""
    if TABLE.get(node.op.name) is not node.op:
        return "the operation is not in the table"
    if node.op.family == "argument":
        return "an argument must be an input"
    if not all(n in defined for n in node.inputs):
        return "an operand is not defined before"
    try:
        expected = node.op.type_rule(*(n.type for n in node.inputs), **node.attributes)
    except (ValueError, TypeError, IndexError, KeyError) as error:
        return str(error)
    return "" if expected == node.type else f"the type should be {expected}"


def _verify_results(graph: Graph, defined: set[Node], names: Mapping[Node, str]) -> None:
    """Outputs and written values are defined, and writes go to inputs of their type, once each."""
    for node in graph.results():
        _require("" if node in defined else "a result is not in the graph", node, names)
    inputs, written = set(graph.inputs), set[Node]()
    for target, value in graph.writes:
        line = f"write {names.get(target, '%?')} <- {names[value]}"
        if target not in inputs:
            raise InvalidGraph(f"only inputs can be written: {line}")
        if target in written:
            raise InvalidGraph(f"an input is written twice: {line}")
        if not _same_type(target, value):
            raise InvalidGraph(f"a value of type {value.type} for an input of type {target.type}: {line}")
        written.add(target)


def _same_type(a: Node, b: Node) -> bool:
    return a.dtype is b.dtype and len(a.shape) == len(b.shape) and all(map(sizes.equal, a.shape, b.shape))
