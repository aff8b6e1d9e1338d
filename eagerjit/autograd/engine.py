"""The autograd engine: walks the tape backwards. Rules are ops, so under a trace the walk is recorded."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

from eagerjit.autograd import node_hooks, plain
from eagerjit.autograd.accumulation import add_to_grad, leaf_hooked
from eagerjit.autograd.callbacks import with_callbacks
from eagerjit.autograd.expansion import (
    CHECKPOINTS,
    EXPANDED,
    beginning,
    current,
    expand_checkpoints,
    joined_calls,
)
from eagerjit.autograd.node import AFTER_ALL_HOOKS, GradNode, filled, refresh_all, used_up
from eagerjit.autograd.placed import Placed
from eagerjit.autograd.release import release
from eagerjit.autograd.stale import check_versions
from eagerjit.autograd.walk_graph import Key, collect, first_wanted, key_of, relevant
from eagerjit.runtime import mode
from eagerjit.runtime.native.agreed import PART_SHOWN
from eagerjit.state import set_casting, state
from eagerjit.tensors.placement import beside
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import pause_observation, resume_observation

Trail = dict[Key, list[Tensor]]
_expanded, _checkpoints = EXPANDED.data, CHECKPOINTS.data  # type: ignore[attr-defined]  # plain containers: asked at every walk whether they are empty


@with_callbacks
def run(
    roots: Sequence[Tensor],
    grads: Sequence[Tensor],
    targets: Sequence[Tensor] | None,
    retain_graph: bool,
    create_graph: bool,
    trail: Trail | None = None,
    first: float = 0,
    starts: Sequence[Tensor | None] | None = None,
    ends: Sequence[Tensor] = (),
) -> list[Tensor | None]:
    """Propagate gradients of the roots: into `.grad` of the leaves, or, given targets, back as a list.

    `trail` is filled with the gradients that were added up for each of its keys, in order: so the gradient of a jitted
    call is made. The walk ends at wanted tensors that were made before `first`. `starts` are what has reached the
    targets before, to which each use is added, as one walk would add it; None comes back for what is not used. With
    either the targets' hooks are left to the walk that this one is part of. A walk that is recorded ends at `ends` as
    well, to which no gradient is taken.
    """
    refresh_all(roots)
    if not first:  # otherwise part of another walk, whose edges lead through the histories that targets have
        refresh_all(targets or ())
    alone = trail is None and starts is None and not first
    if alone and not mode.tracing() and not _expanded and not (create_graph and _checkpoints):
        before = mode.set_modes(bool(create_graph), True)
        try:
            found = plain.walk(roots, grads, targets, retain_graph, create_graph)
        finally:
            mode.set_modes(*before)
        if found is not plain.DECLINED:
            return found or []
    wanted = None if targets is None else {key_of(t) for t in targets}
    ending = wanted if wanted is None else wanted | {key_of(t) for t in ends}
    nodes, stale, several = collect(roots, ending, create_graph or state.tracer is not None, first)
    while create_graph and _checkpoints and expand_checkpoints(nodes):
        nodes, stale, several = collect(roots, ending, True, first)
    if _expanded:
        earliest = max(first, beginning())
        roots = [current(t, earliest) for t in roots]
        targets = None if targets is None else [current(t, earliest) for t in targets]
        wanted = None if targets is None else {key_of(t) for t in targets}
    if wanted is not None:
        nodes = relevant(nodes, wanted, first_wanted(targets or ()))
        several &= nodes.keys()
    walk = _Walk(grads, wanted, stale, several, create_graph, trail)
    if starts is not None:
        walk.begin_from(targets or (), starts)
    before = mode.set_modes(bool(create_graph), True)
    if (casting := state.casting) is not None:
        set_casting(None)  # gradients have the dtypes of what was converted
    tracer = state.tracer
    source = tracer.source if tracer is not None else None
    observation = pause_observation() if tracer is not None else None
    if tracer is not None and observation is not None:
        tracer.observation = observation
    try:
        if len(several) > 1 and tracer is None and trail is None and not create_graph:
            walk.joins = joined_calls(nodes, several, wanted)
        for position, root in enumerate(roots):
            walk.deposit(root, grads[position])
        for node, edges in nodes.items():
            walk.visit(node, edges)
        if tracer is not None and alone:
            tracer.guard_ends(walk.leaves.values() if targets is None else targets)
        walk.end()
    finally:
        mode.set_modes(*before)
        if casting is not None:
            set_casting(casting)
        if tracer is not None:
            tracer.source = source
            resume_observation(observation)
    found = [] if targets is None else [walk.captured.get(key_of(t)) for t in targets]
    if not retain_graph:
        # Results of a compiled call that have no gradient may depend on operations that the plain call's graph has not.
        release(nodes, several, walk.untouched if several else set())
    return found


class _Walk:
    """One walk over the nodes, last executed first.

    buffers     the gradients that have reached tensors from which the walk has not yet gone on
    leaves      the leaves among these tensors, in the order of what reached them last
    captured    the gradients of wanted tensors that the walk has passed
    shared      the ids of gradients that something else holds too: they do not become a `.grad`
    noted       these gradients in a recording, which is the same each time: no later one may get such an id
    untouched   the nodes that no gradient has reached
    joins       compiled gradients that are called together with that of the next node
    joined      such a one, with what has reached it, while the next node is visited
    starts      what had reached the targets before this walk, if it is part of another
    """

    def __init__(
        self, grads: Sequence[Tensor], wanted: set[Key] | None, stale: set[GradNode], several: set[GradNode],
        create_graph: bool, trail: Trail | None,
    ):  # fmt: skip
        self.wanted, self.stale, self.several = wanted, stale, several
        self.create_graph, self.trail, self.tracer = create_graph, trail, state.tracer
        self.buffers: dict[Key, Tensor] = {}
        self.leaves: dict[int, Tensor] = {}
        self.captured: dict[Key, Tensor] = {}
        self.shared = set(map(id, grads))
        self.noted: list[Any] = []
        self.untouched: set[GradNode] = set()
        self.joins: Any = {}
        self.joined: tuple[GradNode, tuple[Any, ...]] | None = None
        self.starts: dict[Key, Tensor] | None = None
        self.placed = Placed() if self.tracer is None and trail is None and not create_graph else None

    def begin_from(self, targets: Sequence[Tensor], starts: Sequence[Tensor | None]) -> None:
        """Go on from what has reached the targets."""
        self.starts = {key_of(t): start for t, start in zip(targets, starts, strict=True) if start is not None}
        self.buffers.update(self.starts)
        self.placed = None  # it writes to sums, which would be another walk's

    def visit(self, node: GradNode, edges: list[Any]) -> None:
        """Take what has reached a node's results on to what they were computed from."""
        incoming = self._incoming(node)
        if self.joined is not None:
            incoming = incoming or (None,)
        elif incoming is None:
            self.untouched.add(node)
            return
        elif node in self.joins:
            self.joined = node, incoming  # its call comes next
            return
        if node.inputs is None:
            raise used_up(node)
        if self.tracer is not None:
            self.tracer.source = node.source
        needs = tuple([e is not None for e in edges])
        of_several = node in self.several
        if node in self.stale and self.joined is None:
            node.op.check(node, incoming, needs) if of_several else check_versions(node, edges)
        through = self._through_several if of_several else self._through_one
        through(node, edges, incoming, needs)

    def _incoming(self, node: GradNode) -> tuple[Tensor | None, ...] | None:
        """The gradients that reached a node's results, zeros for those that none reached; None if none did at all."""
        if type(node.output) is not tuple and node.hooks is None:
            single = self.buffers.pop(node, None)
            if single is not None and self.wanted is not None and node in self.wanted:
                self.captured[node] = single
            return None if single is None else (single,)
        partial_ = getattr(node.op, "partial", False)
        count = node.op.n_outputs(node) if partial_ else node.n_outputs
        keys: list[Key] = [(node, i) for i in range(count)] if type(node.output) is tuple else [node]
        received = [self.buffers.pop(key, None) for key in keys]
        if all(g is None for g in received):
            return None
        if node.hooks is not None:
            received = [node_hooks.result_hooked(node, i, g) for i, g in enumerate(received)]
        if self.wanted is not None:
            for key, g in zip(keys, received, strict=True):
                if g is not None and key in self.wanted:
                    self.captured[key] = g
        if node.hooks is not None:
            received = list(node_hooks.before(node, received))
        return tuple(received) if partial_ else filled(node, received)

    def _through_several(self, node: GradNode, edges: list[Any], incoming: Any, needs: tuple[bool, ...]) -> None:
        """Through a node that stands for several operations: it adds to what has reached its inputs before."""
        self._share(incoming)  # what comes in may be what goes out
        if self.trail is not None:
            found = node.op.uses(node, incoming, needs, self.create_graph)
            for tensor, uses in zip(edges, found, strict=True):
                for use in uses if tensor is not None else ():
                    self.deposit(tensor, use)
            return
        keys = [None if e is None else key_of(e) for e in edges]
        known = [None if key is None else self.buffers.pop(key, None) for key in keys]
        if self.joined is None:
            results = node.op.backward_onto(node, incoming, needs, known, self.create_graph)
        else:
            (made, received), self.joined = self.joined, None
            results = made.op.backward_with_call(received, incoming, needs, known)
        for key, tensor, start, total in zip(keys, edges, known, results, strict=True):
            if tensor is not None and total is not None:
                self.deposit(tensor, total)
            elif tensor is not None and start is not None:
                self.buffers[key] = start  # type: ignore[index]

    def _through_one(self, node: GradNode, edges: list[Any], incoming: Any, needs: tuple[bool, ...]) -> None:
        """Through a node that stands for one operation."""
        placed = self.placed if node.hooks is None and (parts := getattr(node.op, "parts", 0)) else None
        if placed is not None and parts == PART_SHOWN and self._add_part(placed, node, edges[0], incoming[0]):
            return
        results = node.op.backward(node, incoming, needs, self.create_graph)
        if self.create_graph and (formal := getattr(node.op, "formal", None)) is not None:
            results = formal.noted(node, results)
            self._share(results)  # they may be what came in
        if node.hooks is not None:
            results = node_hooks.after(node, results, incoming)
            self._share(results)  # hooks may have kept them
        self._pass_on(edges, results, incoming)
        if placed is not None and edges[0] is not None and self.buffers[key_of(edges[0])] is results[0]:
            placed.begin(key_of(edges[0]), node, results[0], incoming[0])

    def _share(self, grads: Sequence[Any]) -> None:
        self.shared.update(map(id, grads))
        if self.tracer is not None:
            self.noted += grads

    def _pass_on(self, edges: list[Any], results: Any, incoming: Any) -> None:
        buffers, trail = self.buffers, self.trail
        for position, target in enumerate(edges):
            if target is None or (grad := results[position]) is None:
                continue
            if type(target) is list:
                for t, g in zip(target, grad, strict=True):
                    if t is not None and g is not None:
                        self.deposit(t, g)
                continue
            if grad is incoming[0] or (len(incoming) > 1 and any(map(partial(operator.is_, grad), incoming))):
                self._share((grad,))
            made_by = target._node
            if made_by is None or made_by in buffers or trail is not None or type(made_by.output) is tuple:
                self.deposit(target, grad)
            else:
                buffers[made_by] = beside(grad, target)

    def deposit(self, tensor: Tensor, grad: Tensor) -> None:
        """Add a gradient to what has reached a tensor; leaves and the trail are in order of what reached them last."""
        node = tensor._node
        key: Key
        if node is None:
            key = id(tensor)
            self.leaves.pop(key, None)
            self.leaves[key] = tensor
        else:
            key = node if type(node.output) is not tuple else (node, tensor._index)
        known = self.buffers.get(key)
        grad = beside(grad, tensor)
        self.buffers[key] = grad if known is None else known + grad
        if self.trail is not None and key in self.trail:
            self.trail[key] = [*self.trail.pop(key), grad]

    def _add_part(self, placed: Placed, node: GradNode, base: Any, grad: Any) -> bool:
        """Add the gradient of a slice where it belongs, if the sum for its base lets it; whether it did."""
        if base is None or grad is None or not placed.add(key := key_of(base), node, self.buffers.get(key), grad):
            return False
        if base._node is None:
            self.leaves[id(base)] = self.leaves.pop(id(base))
        return True

    def end(self) -> None:
        """Add what has reached the leaves to their `.grad`; with wanted tensors, note those the walk has ended at."""
        if self.wanted is None:
            for key, leaf in self.leaves.items():
                add_to_grad(leaf, self.buffers[key], self.shared, self.create_graph)
            return
        for key, grad in self.buffers.items():  # type: ignore[assignment]
            if self.starts is not None and grad is self.starts.get(key):
                continue
            if key in self.wanted:
                self.captured.setdefault(key, self._seen(key, grad))  # type: ignore[arg-type]

    def _seen(self, key: Key, grad: Tensor) -> Tensor | None:
        """A wanted gradient that the walk has ended at, as hooks leave it; what is retained is the caller's to add."""
        if self.starts is not None or self.trail is not None:
            return grad
        if type(key) is int:
            return leaf_hooked(self.leaves[key], grad)
        node, index = key if type(key) is tuple else (key, 0)
        return node_hooks.result_hooked(node, index, grad, AFTER_ALL_HOOKS)  # type: ignore[arg-type]
