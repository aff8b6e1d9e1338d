"""What a walk backwards comes to: the nodes that results depend on, their edges, and which of these lead somewhere."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from eagerjit.autograd.expansion import EXPANDED, beginning, current, expand_calls, expand_gradients
from eagerjit.autograd.node import GradNode, edge, used_up
from eagerjit.state import state
from eagerjit.tensors.tensor import Parameter, Tensor
from eagerjit.watching.observation import TraceBreak, user_line

Key = int | GradNode | tuple[GradNode, int]
Nodes = dict[GradNode, list[Any]]
_SEQUENCES = (tuple, list)
_CONSTANTS = frozenset({type(None), bool, int, float, str})
_TENSORS = frozenset({Tensor, Parameter})  # those that need no look at what they derive from
_sequence = operator.attrgetter("sequence")
_expanded = EXPANDED.data  # type: ignore[attr-defined]  # a plain container: asked at every walk whether it is empty


def _edges(
    node: GradNode, first: float, before: dict[int, tuple[float, Tensor]] | None = None
) -> tuple[list[Any], bool]:
    """Per input the tensor that a gradient flows to, None, or a list of these; whether a saved value may be stale."""
    inputs, sequence = node.inputs, node.sequence
    if inputs is None:
        raise used_up(node)
    out: list[Any] = []
    written = node.overwritten is not None
    for x in inputs:
        kind = type(x)
        if kind in _CONSTANTS:
            out.append(None)
        elif kind in _TENSORS or isinstance(x, Tensor):
            if x._storage is not None:
                written = True
            if x._requires_grad:
                if _expanded:
                    x = current(x, first)
                made_by = x._node
                out.append(x if made_by is None or made_by.sequence < sequence else edge(x, node, before))
            else:
                out.append(None)
        elif kind in _SEQUENCES and any(isinstance(e, Tensor) and e._requires_grad for e in x):
            out.append([edge(current(e, first), node) if e._requires_grad else None for e in x])
        else:
            out.append(None)
    return out, written


def flat(edges: Sequence[Any]) -> list[Tensor]:
    """The tensors that gradients flow to, of edges as `collect` gives them."""
    out: list[Tensor] = []
    for e in edges:
        if isinstance(e, list):
            out += [x for x in e if x is not None]
        elif e is not None:
            out.append(e)
    return out


def edges_of(node: GradNode) -> list[Tensor]:
    """The tensors that gradients flow to from a node."""
    return flat(_edges(node, beginning())[0])


def collect(
    roots: Sequence[Tensor], wanted: set[Key] | None, again: bool = False, first: float = 0
) -> tuple[Nodes, set[GradNode], set[GradNode]]:
    """Every node that the roots depend on, with its edges, last executed first; and those to check for stale values.

    The third result are those among them that stand for several operations.

    `again`: what is found is to be differentiated in turn, so that gradients of compiled calls are taken apart.

    A node that a walk before has used up has no edges: it is an error only where a gradient reaches it.
    A walk that is recorded ends at wanted tensors that were made before the recording began; it must not go beyond.
    """
    first = max(first, beginning())
    if _expanded:
        roots = [current(t, first) for t in roots]
    found: Nodes = {}
    stale: set[GradNode] = set()
    several: set[GradNode] = set()
    stack: list[Any] = [t._node for t in roots if t._node is not None]
    ordered = len(stack) == 1
    looked_into: list[GradNode] = []
    before: dict[int, tuple[float, Tensor]] = {}
    while stack:
        node = stack.pop()
        if node in found:
            continue
        if node.sequence < first:
            _outside(node, wanted, first)
            continue
        ordered = ordered and not stack
        if getattr(node.op, "partial", False):
            several.add(node)
            if (node.hooks is not None or wanted is not None) and node.inputs is not None and node.op.inner:
                looked_into.append(node)
        if node.inputs is None:
            found[node] = []
            continue
        edges, written = _edges(node, first, before)
        found[node] = edges
        if written:
            stale.add(node)
        for e in edges:
            if e is None:
                continue
            if type(e) is list:
                stack += [t._node for t in e if t is not None and t._node is not None]
            elif e._node is not None:
                stack.append(e._node)
    if looked_into and expand_calls(looked_into, wanted, found):
        return collect(roots, wanted, again, first)
    if several and (again or _expanded) and expand_gradients(several, found, again):
        return collect(roots, wanted, again, first)
    if not ordered:
        found = {node: found[node] for node in sorted(found, key=_sequence, reverse=True)}
    return found, stale, several


def _outside(node: GradNode, wanted: set[Key] | None, first: float) -> None:
    """Refuse a recorded walk into the history of a call's arguments: the next call's will be another one.

    What was done before the call does not lead to tensors that are made in it: where only those are wanted, it is left.
    """
    outputs = [node] if type(node.output) is not tuple else [(node, i) for i in range(node.n_outputs)]
    if wanted is not None and (any(key in wanted for key in outputs) or all(_made(key) >= first for key in wanted)):
        return
    raise TraceBreak("a gradient flows to operations done before the call", user_line())


def _made(key: Key) -> float:
    """When what a key stands for was made; -1 for a leaf from outside."""
    if isinstance(key, int):
        return state.tracer.leaf_made(key) if state.tracer is not None else -1
    return (key[0] if isinstance(key, tuple) else key).sequence


def key_of(tensor: Tensor) -> Key:
    """What gradients of a tensor are collected under: its node, with the position among several results, or its id."""
    node = tensor._node
    if node is None:
        return id(tensor)
    return node if type(node.output) is not tuple else (node, tensor._index)


def first_wanted(targets: Sequence[Tensor]) -> float:
    """The node executed first of those whose results are targets: nothing before it leads to one; -1 with a leaf."""
    return min([-1 if t._node is None else t._node.sequence for t in targets], default=-1)


def relevant(nodes: Nodes, targets: set[Key], earliest: float = -1) -> Nodes:
    """Edges that lead to a target, for the nodes executed after `earliest` that have any.

    Where a node that is used up leads is not known: it is an error where a gradient reaches it.
    """
    kept: Nodes = {}
    leading: set[GradNode | None] = set()
    for node, edges in reversed(nodes.items()):
        useful: list[Any] = []
        leads = node.inputs is None and node.sequence > earliest
        for e in edges:
            if type(e) is list:
                e = [x if x is not None and (x._node in leading or key_of(x) in targets) else None for x in e]
                leads = leads or any(x is not None for x in e)
            elif e is not None:
                if e._node in leading or key_of(e) in targets:
                    leads = True
                else:
                    e = None
            useful.append(e)
        if leads:
            leading.add(node)
            kept[node] = useful
    return dict(reversed(kept.items()))
