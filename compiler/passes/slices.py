"""Sums of values that each fill a part of zeros, as gradients of a split tensor are: the parts side by side."""

from __future__ import annotations

from collections import Counter

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node, rebuild
from eagerjit.compiler.ops import elementwise, indexing
from eagerjit.compiler.passes.simplify import is_number, with_inputs
from eagerjit.runtime.records import record


@record
class Run:
    """Slices of zeros that are added, and how much of their dimension they take together."""

    parts: list[Node]
    covered: sizes.Expr


def join_slices(graph: Graph) -> Graph:
    """Concatenate slices that cover zeros without a gap or an overlap, instead of filling and adding them.

    A zero is added to each: of -0.0 and of what is no number the sum makes the same as before.
    """
    uses = Counter([n for node in graph.nodes for n in node.inputs] + graph.results())
    runs: dict[Node, Run] = {}
    replaced: dict[Node, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        run = _run(node, runs, uses)
        parts = _in_order(run) if run is not None else []
        current = with_inputs(node, replaced)
        if parts:
            zero = _zero(parts[0])
            values = [replaced.get(part.inputs[1], part.inputs[1]) for part in parts]
            sums = [Node(elementwise.add, (v, zero), {}, v.type, node.source) for v in values]
            attributes = {"dim": parts[0].attributes["dim"]}
            current = Node(indexing.cat, tuple(sums), attributes, node.type, node.source)
            nodes += sums
        elif run is not None:
            runs[node] = run
        if current is not node:
            replaced[node] = current
        nodes.append(current)
    return rebuild(graph, nodes, replaced)


def _run(node: Node, runs: dict[Node, Run], uses: Counter[Node]) -> Run | None:
    """What a node adds: a slice, or the slices of two sums that nobody else needs."""
    if node.op is indexing.slice_scatter and node.attributes["step"] == 1 and is_number(node.inputs[0], 0.0):
        length = sizes.add(node.attributes["stop"], sizes.mul(-1, node.attributes["start"]))
        return Run([node], length) if _zero(node).shape == () else None
    if node.op is not elementwise.add or not all(n in runs and uses[n] == 1 for n in node.inputs):
        return None
    larger, other = sorted((runs[n] for n in node.inputs), key=lambda run: len(run.parts), reverse=True)
    a, b = larger.parts[0], other.parts[0]
    if a.shape != b.shape or a.attributes["dim"] != b.attributes["dim"]:
        return None
    larger.parts += other.parts
    return Run(larger.parts, sizes.add(larger.covered, other.covered))


def _in_order(run: Run) -> list[Node]:
    """The slices by where they begin; none if they do not cover all of their dimension once."""
    first = run.parts[0]
    extent = first.shape[first.attributes["dim"]]
    if len(run.parts) < 2 or run.covered != extent:
        return []
    by_start = {part.attributes["start"]: part for part in run.parts}
    found: list[Node] = []
    place: sizes.Expr = 0
    while place in by_start:
        found.append(by_start.pop(place))
        place = found[-1].attributes["stop"]
    return found if len(found) == len(run.parts) and place == extent else []


def _zero(part: Node) -> Node:
    """The number that a slice's base repeats."""
    return part.inputs[0].base
