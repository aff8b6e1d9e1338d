"""The autograd engine: walks the tape backwards. Rules are ops, so under a trace the walk is recorded."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

from eagerjit.autograd import node_hooks, plain
from eagerjit.autograd.accumulation import add_to_grad, leaf_hooked
from eagerjit.autograd.callbacks import with_callbacks
from eagerjit.autograd.expansion import EXPANDED, GRADIENTS, current, expand_calls, expand_gradients, joined_calls
from eagerjit.autograd.node import AFTER_ALL_HOOKS, GradNode, edge, filled, used_up
from eagerjit.autograd.placed import Placed
from eagerjit.autograd.release import release
from eagerjit.autograd.stale import check_versions
from eagerjit.runtime import mode
from eagerjit.state import set_casting, state
from eagerjit.tensors.placement import beside
from eagerjit.tensors.tensor import Parameter, Tensor
from eagerjit.watching.observation import TraceBreak, pause_observation, resume_observation, user_line

Key = int | GradNode | tuple[GradNode, int]
Nodes = dict[GradNode, list[Any]]
Trail = dict[Key, list[Tensor]]
_SEQUENCES = (tuple, list)
_CONSTANTS = frozenset({type(None), bool, int, float, str})
_TENSORS = frozenset({Tensor, Parameter})  # those that need no look at what they derive from
_sequence = operator.attrgetter("sequence")
_expanded, _gradients = EXPANDED.data, GRADIENTS.data  # type: ignore[attr-defined]  # plain containers: asked at every walk whether they are empty


def _edges(node: GradNode) -> tuple[list[Any], bool]:
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
                    x = current(x)
                made_by = x._node
                out.append(x if made_by is None or made_by.sequence < sequence else edge(x, node))
            else:
                out.append(None)
        elif kind in _SEQUENCES and not _CONSTANTS.issuperset(map(type, x)) and any(isinstance(e, Tensor) for e in x):
            out.append([edge(current(e), node) if e._requires_grad else None for e in x])
        else:
            out.append(None)
    return out, written


def _flat(edges: list[Any]) -> list[Tensor]:
    out: list[Tensor] = []
    for e in edges:
        if isinstance(e, list):
            out += [x for x in e if x is not None]
        elif e is not None:
            out.append(e)
    return out


def edges_of(node: GradNode) -> list[Tensor]:
    """The tensors that gradients flow to from a node."""
    return _flat(_edges(node)[0])


def collect(
    roots: Sequence[Tensor], wanted: set[Key] | None, again: bool = False, first: float = 0
) -> tuple[Nodes, set[GradNode], set[GradNode]]:
    """Every node that the roots depend on, with its edges, last executed first; and those to check for stale values.

    The third result are those among them that stand for several operations.

    `again`: what is found is to be differentiated in turn, so that gradients of compiled calls are taken apart.

    A node that a walk before has used up has no edges: it is an error only where a gradient reaches it.
    A walk that is recorded ends at wanted tensors that were made before the recording began; it must not go beyond.
    """
    tracer = state.tracer
    first = first if tracer is None else tracer.first_sequence
    if _expanded:
        roots = [current(t) for t in roots]
    found: Nodes = {}
    stale: set[GradNode] = set()
    several: set[GradNode] = set()
    stack: list[Any] = [t._node for t in roots if t._node is not None]
    ordered = len(stack) == 1
    looked_into: list[GradNode] = []
    while stack:
        node = stack.pop()
        if node in found:
            continue
        if node.sequence < first:
            _outside(node, wanted)
            continue
        ordered = ordered and not stack
        if getattr(node.op, "partial", False):
            several.add(node)
            if (node.hooks is not None or wanted is not None) and node.inputs is not None and node.op.inner:
                looked_into.append(node)
        if node.inputs is None:
            found[node] = []
            continue
        edges, written = _edges(node)
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
    if looked_into and expand_calls(looked_into, wanted):
        return collect(roots, wanted, again, first)
    if _gradients and (again or _expanded) and expand_gradients(found, again):
        return collect(roots, wanted, again, first)
    if not ordered:
        found = {node: found[node] for node in sorted(found, key=_sequence, reverse=True)}
    return found, stale, several


def _outside(node: GradNode, wanted: set[Key] | None) -> None:
    """Refuse a recorded walk into the history of a call's arguments: the next call's will be another one."""
    outputs = [node] if type(node.output) is not tuple else [(node, i) for i in range(node.n_outputs)]
    if wanted is None or not any(key in wanted for key in outputs):
        raise TraceBreak("a gradient flows to operations done before the call", user_line())


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


@with_callbacks
def run(
    roots: Sequence[Tensor],
    grads: Sequence[Tensor],
    targets: Sequence[Tensor] | None,
    retain_graph: bool,
    create_graph: bool,
    trail: Trail | None = None,
    first: float = 0,
) -> list[Tensor | None]:
    """Propagate gradients of the roots: into `.grad` of the leaves, or, given targets, back as a list.

    `trail` is filled with the gradients that were added up for each of its keys, in order: so the gradient of a jitted
    call is made, and the leaves' hooks are left to the walk that the call is part of. The walk ends at wanted tensors
    that were made before `first`.
    """
    if trail is None and not first and not mode.tracing() and not _expanded and not (create_graph and _gradients):
        before = mode.set_modes(bool(create_graph), True)
        try:
            found = plain.walk(roots, grads, targets, retain_graph, create_graph)
        finally:
            mode.set_modes(*before)
        if found is not plain.DECLINED:
            return found or []
    wanted = None if targets is None else {key_of(t) for t in targets}
    nodes, stale, several = collect(roots, wanted, create_graph or state.tracer is not None, first)
    if _expanded:
        roots = [current(t) for t in roots]
        targets = None if targets is None else [current(t) for t in targets]
        wanted = None if targets is None else {key_of(t) for t in targets}
    if wanted is not None:
        nodes = relevant(nodes, wanted, first_wanted(targets or ()))
        several &= nodes.keys()
    buffers: dict[Key, Tensor] = {}
    leaves: dict[int, Tensor] = {}
    captured: dict[Key, Tensor] = {}
    shared = set(map(id, grads))
    untouched: set[GradNode] = set()
    before = mode.set_modes(bool(create_graph), True)
    if (casting := state.casting) is not None:
        set_casting(None)  # gradients have the dtypes of what was converted
    tracer = state.tracer
    placed = Placed() if tracer is None and trail is None and not create_graph else None
    joined = joined_calls(nodes, several, wanted) if len(several) > 1 and tracer is None and not create_graph else {}
    gradient: tuple[GradNode, tuple[Any, ...]] | None = None
    incoming: tuple[Any, ...] | None
    source = tracer.source if tracer is not None else None
    observation = pause_observation() if tracer is not None else None
    if tracer is not None and observation is not None:
        tracer.observation = observation
    try:
        for position, root in enumerate(roots):
            _deposit(buffers, leaves, root, grads[position], trail)
        for node, edges in nodes.items():
            partial_ = node in several
            if type(node.output) is tuple or node.hooks is not None:
                incoming = _incoming(node, buffers, wanted, captured)
            else:
                single = buffers.pop(node, None)
                incoming = None if single is None else (single,)
                if wanted is not None and single is not None and node in wanted:
                    captured[node] = single
            if gradient is not None:
                incoming = incoming or (None,)
            elif incoming is None:
                untouched.add(node)
                continue
            elif node in joined:
                gradient = node, incoming  # its call comes next
                continue
            if node.inputs is None:
                raise used_up(node)
            if tracer is not None:
                tracer.source = node.source
            needs = tuple([e is not None for e in edges])
            if stale and node in stale and gradient is None:
                node.op.check(node, incoming, needs) if partial_ else check_versions(node, edges)
            if partial_:
                keys = [None if e is None else key_of(e) for e in edges]
                known = [None if key is None else buffers.pop(key, None) for key in keys]
                if gradient is None:
                    results = node.op.backward_onto(node, incoming, needs, known, create_graph)
                else:
                    made, received = gradient
                    results = made.op.backward_with_call(received, incoming, needs, known)
                    gradient = None
                if tracer is not None:
                    shared.update(map(id, incoming))  # in a trace, what comes in may be what goes out
                _replace(buffers, leaves, keys, edges, known, results, trail)
                continue
            part = placed if placed is not None and node.hooks is None and getattr(node.op, "span", None) else None
            if part is not None and _add_part(part, buffers, leaves, node, edges[0], incoming[0]):
                continue
            results = node.op.backward(node, incoming, needs, create_graph)
            if create_graph and (formal := getattr(node.op, "formal", None)) is not None:
                results = formal.noted(node, results)
                shared.update(map(id, results))  # they may be what came in
            if node.hooks is not None:
                results = node_hooks.after(node, results, incoming)
                shared.update(map(id, results))  # hooks may have kept them
            for position, target in enumerate(edges):
                if target is None or (grad := results[position]) is None:
                    continue
                if type(target) is list:
                    for t, g in zip(target, grad, strict=True):
                        if t is not None and g is not None:
                            _deposit(buffers, leaves, t, g, trail)
                    continue
                if grad is incoming[0] or (len(incoming) > 1 and any(map(partial(operator.is_, grad), incoming))):
                    shared.add(id(grad))
                made_by = target._node
                if made_by is None or made_by in buffers or trail is not None or type(made_by.output) is tuple:
                    _deposit(buffers, leaves, target, grad, trail)
                else:
                    buffers[made_by] = beside(grad, target)
            if part is not None and edges[0] is not None and buffers[key_of(edges[0])] is results[0]:
                part.begin(key_of(edges[0]), node, results[0])
        if wanted is None:
            for key, leaf in leaves.items():
                add_to_grad(leaf, buffers[key], shared, create_graph)
        else:
            for k, g in buffers.items():
                if k in wanted:
                    captured.setdefault(k, _seen(k, g, leaves if trail is None else None))  # type: ignore[arg-type]
    finally:
        mode.set_modes(*before)
        if casting is not None:
            set_casting(casting)
        if tracer is not None:
            tracer.source = source
            resume_observation(observation)
    found = [] if targets is None else [captured.get(key_of(t)) for t in targets]
    if not retain_graph:
        # Results of a compiled call that have no gradient may depend on operations that the plain call's graph has not.
        release(nodes, several, untouched if several else set())
    return found


def _deposit(
    buffers: dict[Key, Tensor], leaves: dict[int, Tensor], tensor: Tensor, grad: Tensor, trail: Trail | None
) -> None:
    """Add a gradient to what has reached a tensor; leaves and the trail are in order of what reached them last."""
    node = tensor._node
    key: Key
    if node is None:
        key = id(tensor)
        leaves.pop(key, None)
        leaves[key] = tensor
    else:
        key = node if type(node.output) is not tuple else (node, tensor._index)
    known = buffers.get(key)
    grad = beside(grad, tensor)
    buffers[key] = grad if known is None else known + grad
    if trail is not None and key in trail:
        trail[key] = [*trail.pop(key), grad]


def _add_part(
    placed: Placed, buffers: dict[Key, Tensor], leaves: dict[int, Tensor], node: GradNode, base: Any, grad: Any
) -> bool:
    """Add the gradient of a slice where it belongs, if the sum for its base lets it; whether it did."""
    if base is None or grad is None or not placed.add(key := key_of(base), node, buffers.get(key), grad):
        return False
    if base._node is None:
        leaves[id(base)] = leaves.pop(id(base))
    return True


def _replace(
    buffers: dict[Key, Tensor],
    leaves: dict[int, Tensor],
    keys: list[Any],
    edges: list[Any],
    known: list[Tensor | None],
    totals: Sequence[Tensor | None],
    trail: Trail | None,
) -> None:
    """Put totals in the place of what was known before, where a compiled gradient gives any; else that back."""
    for key, tensor, start, total in zip(keys, edges, known, totals, strict=True):
        if tensor is None:
            continue
        if total is not None:
            _deposit(buffers, leaves, tensor, total, trail)
        elif start is not None:
            buffers[key] = start


def _incoming(
    node: GradNode, buffers: dict[Key, Tensor], wanted: set[Key] | None, captured: dict[Key, Tensor]
) -> tuple[Tensor | None, ...] | None:
    """The gradients that reached a node's results, zeros for those that none reached; None if none did at all."""
    partial_ = getattr(node.op, "partial", False)
    count = node.op.n_outputs(node) if partial_ else node.n_outputs
    keys: list[Key] = [(node, i) for i in range(count)] if type(node.output) is tuple else [node]
    received = [buffers.pop(key, None) for key in keys]
    absent = [g is None for g in received]
    if False not in absent:
        return None
    if node.hooks is not None:
        received = [node_hooks.result_hooked(node, i, g) for i, g in enumerate(received)]
    if wanted is not None:
        for key, g in zip(keys, received, strict=True):
            if g is not None and key in wanted:
                captured[key] = g
    if node.hooks is not None:
        received = list(node_hooks.before(node, received))
    return tuple(received) if partial_ else filled(node, received)


def _seen(key: Key, grad: Tensor, leaves: dict[int, Tensor] | None) -> Tensor | None:
    """A wanted gradient that the walk has ended at, as hooks leave it; what is retained is the caller's to add."""
    if type(key) is int:
        return grad if leaves is None else leaf_hooked(leaves[key], grad)
    node, index = key if type(key) is tuple else (key, 0)
    return node_hooks.result_hooked(node, index, grad, AFTER_ALL_HOOKS)  # type: ignore[arg-type]

