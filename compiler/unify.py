"""Sizes that a call found equal become one size, so that loops over them can be one loop."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Graph, Node, TensorType
from eagerjit.compiler.layout import layout

Replacements = dict[str, sizes.Expr]
Products = dict[sizes.Monomial, sizes.Expr]


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


def equal_products(guards: Sequence[sizes.Guard], values: Replacements) -> Products:
    """Products of symbols to replace by others, from the guards that say that these are equal.

    A batch of targets has as many elements as the batch of inputs has, though each has dimensions of its own.
    """
    found: Products = {}
    for g in guards:
        if g.relation != "==" or not g.holds:
            continue
        a, b = (sizes.with_products(sizes.substitute(x, values), found) for x in (g.a, g.b))
        pair = sizes.solved_product(*sizes.without_common_factors(a, b)) if a != b else None
        if pair is not None:
            found[pair[0]] = pair[1]
    return found


def _is_late(pair: tuple[str, sizes.Expr], measured: Container[str]) -> bool:
    """Whether the value is known later than the symbol."""
    name, value = pair
    late = [s for s in sizes.symbols(value) if s in measured]
    return any(name not in measured or sizes.order(s) > sizes.order(name) for s in late)


def unify(graph: Graph, values: Replacements, products: Products | None = None) -> tuple[Graph, dict[Node, Node]]:
    """The graph with symbols replaced, and products but in arguments; what every node became."""
    new: dict[Node, Node] = {}
    for node in (*graph.inputs, *graph.nodes):
        new[node] = renewed(node, new, values, products)
    out = Graph(
        graph.name,
        [new[n] for n in graph.inputs],
        [new[n] for n in graph.nodes],
        [new[n] for n in graph.outputs],
        [(new[a], new[b]) for a, b in graph.writes],
    )
    return out, new


def unified(graph: Graph, values: Replacements, products: Products) -> tuple[Graph, dict[Node, Node]]:
    """The graph with symbols and products replaced, products only where views of memory remain views.

    BLAS adds in another order where a matrix lies in another one: a copy might have other bits.
    """
    found = unify(graph, values, products)
    return unify(graph, values) if products and _copies_views(found[1]) else found


def _copies_views(new: Mapping[Node, Node]) -> bool:
    """Whether a view has become a copy."""
    viewed = ((old, node) for old, node in new.items() if old.op.family == "view")
    return any(layout(node).root is node and layout(old).root is not old for old, node in viewed)


def renewed(node: Node, new: Mapping[Node, Node], values: Replacements, products: Products | None = None) -> Node:
    """A node on new inputs, with symbols replaced, and products but in arguments."""
    kept = {} if node.op.family == "argument" else products or {}
    shape = tuple(sizes.with_products(sizes.substitute(d, values), kept) for d in node.type.shape)
    attributes = {k: _substituted(v, values, kept) for k, v in node.attributes.items()}
    inputs = tuple(new[i] for i in node.inputs)
    return Node(node.op, inputs, attributes, TensorType(node.type.dtype, shape), node.source)


def _substituted(value: Any, values: Replacements, products: Products) -> Any:
    if isinstance(value, sizes.Size):
        return sizes.with_products(sizes.substitute(value, values), products)
    if isinstance(value, tuple):
        return tuple(_substituted(v, values, products) for v in value)
    return value


def symbols_in(value: Any) -> set[str]:
    """The symbols in sizes, however nested."""
    if isinstance(value, sizes.Size):
        return set(sizes.symbols(value))
    return set().union(*map(symbols_in, value)) if isinstance(value, tuple) else set()
