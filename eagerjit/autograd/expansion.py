"""Compiled calls taken apart, where their gradients are differentiated a third time, or forward; and checkpoints.

A jitted call is one node of the tape, and its gradient, when that has a history, another one, which depends on values
inside the call; what is compiled ends there. A walk that goes further replaces both by the nodes that the plain call
would have recorded, at the same places in the order of execution. A checkpoint is replaced by the nodes of its part
where a gradient through it has a history: that is the history of the part's values, of which there is one each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from eagerjit.autograd.node import GradNode
from eagerjit.runtime import mode
from eagerjit.state import state, taken_apart, untraced
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line

EXPANDED: WeakKeyDictionary[GradNode, Sequence[Tensor]] = WeakKeyDictionary()
"""What the results of a node that was taken apart are now."""

CHECKPOINTS: WeakSet[GradNode] = WeakSet()
"""The nodes of checkpoints, whose ops run their parts again."""


def current(tensor: Tensor, first: float = 0) -> Tensor:
    """A tensor, or what stands for it since its node was taken apart; walks end before `first`."""
    node = tensor._node
    found = None if node is None or node.sequence < first else EXPANDED.get(node)
    return tensor if found is None or tensor._index >= len(found) else current(found[tensor._index], first)


def beginning() -> float:
    """What comes before the nodes that a walk may go through: those of the recording, if there is one."""
    return 0 if state.tracer is None else state.tracer.first_sequence


def is_gradient(node: GradNode) -> bool:
    """Whether a node is the gradient of a compiled call: its op has the call's node, and makes both again."""
    return getattr(node.op, "call_node", None) is not None


def expand_gradients(several: set[GradNode], nodes: Collection[GradNode], all_of_them: bool) -> bool:
    """Take apart the gradients of calls among nodes, and their calls: all, or those whose call is apart already.

    `several` are the nodes that stand for several operations. Returns whether there were any.
    """
    gradients = [n for n in several if is_gradient(n) and (all_of_them or n.op.call_node in EXPANDED)]
    for gradient in sorted(gradients, key=lambda n: n.sequence):
        call = gradient.op.call_node
        if call not in EXPANDED:
            _replace_by(call, gradient.op.call_again, nodes)
        if gradient not in EXPANDED:
            with _without_hooks(call):
                _replace_by(gradient, gradient.op.again, nodes)
    return bool(gradients)


def _replace_by(node: GradNode, make: Callable[[], Sequence[Tensor]], nodes: Collection[GradNode]) -> None:
    first = mode.next_sequence()
    with untraced(), taken_apart():
        results = make()
    _renumber(results, first, node.sequence, nodes)
    replace(node, results)


@contextmanager
def _without_hooks(node: GradNode) -> Iterator[None]:
    """A context in which a node that was taken apart has no hooks: they have seen the gradients that came in.

    Those that the function itself puts on its results stay.
    """
    registered = list((node.hooks or {}).items())
    tables = [_hooks_of(EXPANDED[node][index], table) for index, table in registered]
    before = [dict(table) for table in tables]
    for table, (_, others) in zip(tables, registered, strict=True):
        for number in list(others):
            table.pop(number, None)
    try:
        yield
    finally:
        for table, hooks in zip(tables, before, strict=True):
            table.update(hooks)


def _hooks_of(tensor: Tensor, table: dict[int, Any]) -> dict[int, Any]:
    """The hooks of a result of what a node was taken apart into: this table, unless the function itself made some."""
    made_by = tensor._node
    assert made_by is not None
    if made_by.hooks is None:
        made_by.hooks = {}
    return made_by.hooks.setdefault(tensor._index, table)


def joined_calls(nodes: dict[GradNode, list], several: set[GradNode], wanted: Any) -> dict[GradNode, GradNode]:
    """Gradients of calls that a walk meets right before their calls, where one compiled gradient does for both.

    `several` are the nodes that stand for several operations.
    """
    found: dict[GradNode, GradNode] = {}
    for (gradient, edges), (call, call_edges) in itertools.pairwise(nodes.items()):
        if gradient not in several or call not in several:
            continue
        if not is_gradient(gradient) or gradient.op.call_node is not call or not (gradient.inputs and call.inputs):
            continue
        captured = wanted is not None and any((call, i) in wanted for i in range(call.op.n_outputs(call)))
        if not captured and gradient.op.joins(gradient, edges, call, call_edges):
            found[gradient] = call
    return found


def expand_calls(calls: list[GradNode], wanted: Any, nodes: Collection[GradNode]) -> bool:
    """Take apart calls among nodes where a gradient is asked for that flows between two of their results; whether there
    were any.

    That is the gradient of a result on which others depend, if it has hooks or is wanted.
    """
    found = False
    for node in calls:
        hooks = node.hooks or {}
        if any(hooks.get(i) or (wanted is not None and (node, i) in wanted) for i in node.op.inner):
            expand_call(node, nodes)
            found = True
    return found


def expand_call(node: GradNode, nodes: Collection[GradNode]) -> None:
    """Take a call, or a checkpoint, among nodes apart."""
    with untraced(), taken_apart():
        _expand(node, nodes)


def expand_checkpoints(nodes: Collection[GradNode]) -> bool:
    """Take apart the checkpoints among nodes that are not used up; whether there were any."""
    checkpoints = [node for node in nodes if node in CHECKPOINTS and node.inputs is not None]
    if checkpoints and state.tracer is not None:
        raise TraceBreak("a gradient through a checkpoint that changes what lives on has a history", user_line())
    for node in checkpoints:
        _expand(node, nodes)
    return bool(checkpoints)


def made_again(node: GradNode) -> Sequence[Tensor]:
    """The results of a call that a walk has come to, by the nodes that the plain call would have recorded."""
    with untraced(), taken_apart():
        return _made_again(node, [t._node for t in node.inputs or () if t._node is not None])


def replace(node: GradNode, results: Sequence[Tensor]) -> None:
    """Let walks go through what made these results, and run the node's hooks there."""
    EXPANDED[node] = results
    for index, table in (node.hooks or {}).items():
        _hooks_of(results[index], table).update(table)


def _expand(node: GradNode, nodes: Collection[GradNode]) -> None:
    if node in CHECKPOINTS:
        node.op.check(node, (), ())
    replace(node, _made_again(node, nodes))


def _made_again(node: GradNode, nodes: Collection[GradNode]) -> Sequence[Tensor]:
    first = mode.next_sequence()
    results: Sequence[Tensor] = node.op.again()
    _renumber(results, first, node.sequence, nodes)
    return results


def _renumber(results: Sequence[Tensor], first: int, last: float, nodes: Collection[GradNode]) -> None:
    """Give those made after `first` places just before `last`, in their order: behind what nodes have before it, which
    is less than 1 away where these were made again themselves."""
    room = min([1.0, *(last - n.sequence for n in nodes if n.sequence < last)])
    found: dict[GradNode, None] = {}
    stack = [t._node for t in results]
    while stack:
        node = stack.pop()
        if node is None or node in found or node.sequence <= first:
            continue
        found[node] = None
        stack += [t._node for t in _given(node)]
    for position, node in enumerate(sorted(found, key=lambda n: n.sequence), 1):
        node.sequence = last - room + room * position / (len(found) + 1)


def _given(node: GradNode) -> Iterator[Tensor]:
    """The tensors that an operation was given, with what they were before they were written in place."""
    for x in node.inputs or ():
        for tensor in x if isinstance(x, (tuple, list)) else (x,):
            while isinstance(tensor, Tensor):
                yield tensor
                tensor = None if tensor._node is None else tensor._node.replaced
