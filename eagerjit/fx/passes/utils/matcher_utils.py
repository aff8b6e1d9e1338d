"""`torch.fx.passes.utils.matcher_utils`: where a graph computes what another one, a pattern, does."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eagerjit.fx.graph import Graph
from eagerjit.fx.node import Node
from eagerjit.tensors.tensor import Tensor

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """A place where a graph computes what a pattern does.

    anchors             Nodes of the pattern that only its output uses
    nodes_map           Nodes of the pattern, and those of the graph; inputs may stand for numbers and the like too
    placeholder_nodes   what stands for the pattern's inputs
    returning_nodes     what stands for the pattern's results
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        lists = self.placeholder_nodes.copy(), self.returning_nodes.copy()
        return InternalMatch(self.anchors, self.nodes_map.copy(), *lists)


class SubgraphMatcher:
    """Finds a pattern in graphs.

    match_output, match_placeholder     whether outputs and inputs are parts of the pattern; inputs stand for anything
                                        otherwise
    remove_overlapping_matches          whether a Node is in one match alone
    ignore_literals                     whether numbers and the like stand for any others

    Raises ValueError for an empty pattern, AssertionError for one with Nodes that nothing uses.
    """

    def __init__(
        self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False,
        remove_overlapping_matches: bool = True, ignore_literals: bool = False,
    ):  # fmt: skip
        if not pattern.nodes:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        if any(n.op != "output" and not n.is_impure() and not n.users for n in pattern.nodes):
            raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        self.pattern_placeholder_nodes = pattern.find_nodes(op="placeholder")
        output = pattern.output_node()
        self.pattern_returning_nodes = output.all_input_nodes
        sinks = [n for n in self.pattern_returning_nodes if len(n.users) == 1]
        self.pattern_anchors = [output] if match_output else sinks

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The matches in a graph, whose Nodes are used by none outside of them but for those that are returned.

        Nodes whose names `node_name_match` is part of count as any Node of the pattern.
        """
        candidates = [
            (anchor, found)
            for anchor in self.pattern_anchors
            if (found := [n for n in graph.nodes if self._are_alike(anchor, n, node_name_match)])
        ]
        matches: list[InternalMatch] = []

        def search(position: int, match: InternalMatch) -> None:
            if position == len(candidates):
                match.placeholder_nodes = [match.nodes_map[n] for n in self.pattern_placeholder_nodes]
                match.returning_nodes = [match.nodes_map[n] for n in self.pattern_returning_nodes]
                matches.append(match)
                return
            anchor, found = candidates[position]
            for node in found:
                tried = copy.copy(match)
                if self._match_nodes(anchor, node, tried, node_name_match):
                    search(position + 1, tried)

        if candidates:
            search(0, InternalMatch(self.pattern_anchors))
        valid = [m for m in matches if self._is_contained(m) and not _forms_a_cycle(_computed(m))]
        return _apart(valid) if self.remove_overlapping_matches else valid

    def _are_alike(self, pattern: Node, node: Node, name: str = "") -> bool:
        if not self.match_placeholder and pattern.op == "placeholder":
            return True
        if name and name in node.name:
            return True
        if pattern.op != node.op:
            return False
        if pattern.op == "get_attr":
            return _are_alike_attributes(pattern, node)
        return pattern.op in ("placeholder", "output") or bool(pattern.target == node.target)

    def _match_nodes(self, pattern: Node, node: Node, match: InternalMatch, name: str = "") -> bool:
        """Whether a Node computes what the pattern's does; all found on the way is noted in the match."""
        if pattern in match.nodes_map:
            return match.nodes_map[pattern] is node
        if any(node is known for known in match.nodes_map.values()) or not self._are_alike(pattern, node, name):
            return False
        match.nodes_map[pattern] = node
        if pattern.op == "placeholder":
            return True
        if list(pattern.kwargs) != list(node.kwargs):
            return False
        given = [*pattern.args, *pattern.kwargs.values()], [*node.args, *node.kwargs.values()]
        return len(pattern.args) == len(node.args) and self._match_all(*given, match)

    def _match_all(self, patterns: Sequence[Any], given: Sequence[Any], match: InternalMatch) -> bool:
        if len(patterns) != len(given):
            return False
        return all(self._match_argument(p, g, match) for p, g in zip(patterns, given, strict=True))

    def _match_argument(self, pattern: Any, given: Any, match: InternalMatch) -> bool:
        if isinstance(pattern, Node) and isinstance(given, Node):
            return self._match_nodes(pattern, given, match)
        if isinstance(pattern, (list, tuple)) and isinstance(given, (list, tuple)):
            return self._match_all(pattern, given, match)
        return self._match_literal(pattern, given, match) or self.ignore_literals

    def _match_literal(self, pattern: Any, given: Any, match: InternalMatch) -> bool:
        if not isinstance(pattern, Node):
            return type(given) is type(pattern) and bool(given == pattern)
        if pattern.op != "placeholder":
            return False
        return bool(match.nodes_map.setdefault(pattern, given) == given)

    def _is_contained(self, match: InternalMatch) -> bool:
        """Whether no Node outside uses one inside that is not returned."""
        inside = {node: pattern for pattern, node in match.nodes_map.items() if pattern.op != "placeholder"}
        hidden = [node for node, pattern in inside.items() if pattern not in self.pattern_returning_nodes]
        return all(user in inside for node in hidden for user in node.users)


def _computed(match: InternalMatch) -> list[Node]:
    return [node for pattern, node in match.nodes_map.items() if pattern.op not in ("placeholder", "output")]


def _are_alike_attributes(pattern: Node, node: Node) -> bool:
    """Whether both are tensors of a class, whatever their values. Raises RuntimeError for other attributes alike."""
    first, second = (_attribute(n.graph.owning_module, n.target) for n in (pattern, node))
    if type(first) is not type(second):
        return False
    if not isinstance(first, Tensor):
        raise RuntimeError(f"Unsupported type {first} when matching attributes")
    return True


def _attribute(owner: Any, path: str) -> Any:
    for part in path.split("."):
        owner = getattr(owner, part)
    return owner


def _forms_a_cycle(nodes: list[Node]) -> bool:
    """Whether what is computed from some Nodes outside of them is an argument of others of them."""
    inside, seen = set(nodes), set(nodes)
    waiting = [user for node in nodes for user in node.users if user not in inside]
    while waiting:
        node = waiting.pop()
        if node in inside:
            return True
        if node not in seen:
            seen.add(node)
            waiting += node.users
    return False


def _apart(matches: list[InternalMatch]) -> list[InternalMatch]:
    """The matches that share no Node with one before."""
    taken: set[Node] = set()
    kept = []
    for match in matches:
        nodes = _computed(match)
        if taken.isdisjoint(nodes):
            kept.append(match)
            taken.update(nodes)
    return kept
