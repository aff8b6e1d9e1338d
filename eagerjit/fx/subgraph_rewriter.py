"""`torch.fx.subgraph_rewriter`: what computes a pattern in a GraphModule is replaced."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from eagerjit.fx.graph import Graph
from eagerjit.fx.module import GraphModule
from eagerjit.fx.node import Node
from eagerjit.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from eagerjit.fx.tracer import symbolic_trace
from eagerjit.nn.module import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """Where a pattern was: its last Node, and what stood for each of its Nodes."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """The same, and the Nodes that have come in its place."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace all that computes what a function, Module or GraphModule does; returns where that was.

    Both have as many inputs; those of the pattern stand for any values, and matches share no Nodes.
    """
    replaced = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(found.anchor, found.nodes_map) for found in replaced]


def replace_pattern_with_filters(
    gm: GraphModule, pattern: Any, replacement: Any = None, match_filters: Iterable[Callable[..., bool]] | None = None,
    ignore_literals: bool = False, replacement_callback: Callable[..., Graph] | None = None, node_name_match: str = "",
) -> list[ReplacedPatterns]:  # fmt: skip
    """Replace those matches for which all filters hold; each is called with the match, the graph and the pattern.

    ignore_literals         numbers and the like in the pattern stand for any others
    replacement_callback    gives the graph that comes in a match's place, of the filters' arguments
    """
    graph, wanted = gm.graph, _graph_of(pattern)
    if replacement is None and replacement_callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    matcher = SubgraphMatcher(wanted, ignore_literals=ignore_literals)
    filters = list(match_filters or ())
    matches = [m for m in matcher.match(graph, node_name_match) if all(f(m, graph, wanted) for f in filters)]
    common = None if replacement is None else _graph_of(replacement)
    changed: dict[Node, Node] = {}
    done = []
    for match in matches:
        other = common if replacement_callback is None else replacement_callback(match, graph, wanted)
        assert other is not None
        made = _replace(graph, match, other, changed)
        for node in reversed(wanted.nodes):
            if node.op not in ("placeholder", "output"):
                graph.erase_node(match.nodes_map[node])
        done.append(ReplacedPatterns(match.anchors[0], match.nodes_map, made))
    gm.recompile()
    if isinstance(replacement, Module):
        _adopt(gm, replacement)
    return done


def _graph_of(given: Any) -> Graph:
    if isinstance(given, Graph):
        return given
    return given.graph if isinstance(given, GraphModule) else symbolic_trace(given).graph


def _replace(graph: Graph, match: InternalMatch, replacement: Graph, changed: dict[Node, Node]) -> list[Node]:
    """Put a copy of the replacement before what uses the match, and use its results; returns the copies."""
    inputs = replacement.find_nodes(op="placeholder")
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError(f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(inputs)}")
    for place, node in enumerate(match.placeholder_nodes):
        if isinstance(node, Node) and node in changed:
            match.placeholder_nodes[place] = changed[node]
            match.nodes_map.update({key: changed[node] for key, value in match.nodes_map.items() if value is node})
    copies: dict[Node, Any] = dict(zip(inputs, match.placeholder_nodes, strict=True))
    with graph.inserting_before(_first_after(graph, match.returning_nodes)):
        results = graph.graph_copy(replacement, copies)
    results = results if isinstance(results, (tuple, list)) else (results,)
    if len(match.returning_nodes) != len(results):
        raise AssertionError(f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}")
    for node, result in zip(match.returning_nodes, results, strict=True):
        node.replace_all_uses_with(result)
        changed[node] = result
    given = [node for node in match.placeholder_nodes if isinstance(node, Node)]
    return [made for made in copies.values() if isinstance(made, Node) and made not in given]


def _first_after(graph: Graph, results: list[Node]) -> Node:
    """The first Node that uses one of these; without, the one after the last of these."""
    users = {user for node in results for user in node.users}
    if users:
        return next(node for node in graph.nodes if node in users)
    return next(node for node in reversed(graph.nodes) if node in results).next


def _adopt(gm: GraphModule, replacement: Module) -> None:
    """Let the GraphModule have what the replacement's graph names; and nothing that its own no longer does."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _found(gm, node.target) is not None:
            continue
        value = _found(replacement, node.target)
        if value is None:
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target {node.target}, but the '
                "referenced attribute does not exist in the replacement GraphModule"
            )
        own = copy.deepcopy(value)
        if isinstance(own, Module):
            gm.add_submodule(node.target, own)
        else:
            gm._adopt({node.target: own}, node.target)
    gm.graph.lint()


def _found(owner: Any, path: str) -> Any:
    for part in path.split("."):
        owner = getattr(owner, part, None)
    return owner
