"""Sizes that a call found equal become one symbol, so that loops over them can be one loop."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node, TensorType

Replacements = dict[str, sizes.Expr]


def replacements(guards: Sequence[sizes.Guard], measured: Container[str] = ()) -> Replacements:
    """Symbols to replace, from the guards that say a symbol equals something not made of it.

    Symbols that are measured in the course of the call are known late: nothing known before is replaced by them.
    """
    found: Replacements = {}
    for g in guards:
        if g.relation != "==" or not g.holds:
            continue
        a, b = sizes.substitute(g.a, found), sizes.substitute(g.b, found)
        if a == b:
            continue
        pairs = [sizes.solved(a, b), sizes.solved(b, a)]
        pair = next((p for p in pairs if p is not None and not _is_late(p, measured)), None)
        if pair is None:
            continue
        name, value = pair
        found = {k: sizes.substitute(v, {name: value}) for k, v in found.items()}
        found[name] = value
    return found


def _is_late(pair: tuple[str, sizes.Expr], measured: Container[str]) -> bool:
    """Whether the value is known later than the symbol."""
    name, value = pair
    late = [s for s in sizes.symbols(value) if s in measured]
    return any(name not in measured or sizes.order(s) > sizes.order(name) for s in late)


def unify(graph: Graph, values: Replacements) -> tuple[Graph, dict[Node, Node]]:
    """The graph with symbols replaced, and what every node became."""
    new: dict[Node, Node] = {}
    for node in (*graph.inputs, *graph.nodes):
        shape = tuple(sizes.substitute(d, values) for d in node.type.shape)
        attributes = {k: _substituted(v, values) for k, v in node.attributes.items()}
        inputs = tuple(new[i] for i in node.inputs)
        new[node] = Node(node.op, inputs, attributes, TensorType(node.type.dtype, shape), node.source)
    out = Graph(
        graph.name,
        [new[n] for n in graph.inputs],
        [new[n] for n in graph.nodes],
        [new[n] for n in graph.outputs],
        [(new[a], new[b]) for a, b in graph.writes],
    )
    return out, new


def _substituted(value: Any, values: Replacements) -> Any:
    if isinstance(value, sizes.Size):
        return sizes.substitute(value, values)
    if isinstance(value, tuple):
        return tuple(_substituted(v, values) for v in value)
    return value
