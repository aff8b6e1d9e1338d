"""Compiled calls on the tape: a jitted call is one node, its gradient, where that has a history, another one."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from eagerjit.autograd import engine
from eagerjit.autograd.expansion import EXPANDED, GRADIENTS, made_again, replace
from eagerjit.autograd.node import GradNode, refresh_all, used_up, versions_of
from eagerjit.autograd.release import sources
from eagerjit.autograd.saved import operations
from eagerjit.autograd.stale import stale_value
from eagerjit.compiled.gradient_tape import Compiled, GradientOp, present_among, unwritten
from eagerjit.compiled.joint import Backward, Part, compile_part
from eagerjit.compiled.second_gradients import Twice, hidden_values
from eagerjit.compiled.visits import Numbers, Visit, visit_of
from eagerjit.compiled.walks import cotangent, leaves_with_gradients, walk
from eagerjit.runtime import mode
from eagerjit.runtime.execute import MISS
from eagerjit.runtime.source import here
from eagerjit.state import state, untraced
from eagerjit.tensors.tensor import Tensor, version_of


class CallOp(Compiled):
    """The op of a node that is a compiled call. Native code makes them too (`runtime/connections.py`).

    whole       the gradient that native code computes by itself
    freed       what walks have freed of the call, each
    last        what the last one has gone through
    """

    walked_alone = True
    __slots__ = ("arguments", "differentiable", "freed", "last", "whole")

    def __init__(self, backward: Backward, arguments: tuple[Any, ...]):
        self.differentiable, self.arguments = backward, arguments
        self.kept, self.overwritten = (), None
        self.freed: tuple[Numbers, ...] = ()
        self.last: Visit | None = None
        self.whole = None

    @property
    def name(self) -> str:
        """What the function is called."""
        return self.differentiable.name

    @property
    def keys(self) -> Sequence[Hashable]:
        """The leaves of the call that are its node's inputs."""
        return self.differentiable.leaves

    @property
    def inner(self) -> tuple[int, ...]:
        """Which of its results others depend on."""
        return self.differentiable.inner

    @property
    def end(self) -> tuple[str, str]:
        """The name and line of its last operation."""
        return self.differentiable.end

    def connect(self, flat: Sequence[Any]) -> None:
        """Put the call on the tape as one node."""
        backward, arguments = self.differentiable, self.arguments
        tensors = tuple(backward.tensors.values(arguments))
        if backward.apart:
            pairs = zip(backward.leaves, tensors, strict=True)
            tensors = tuple([t.detach() if leaf in backward.apart else t for leaf, t in pairs])
        refresh_all(tensors)
        node = object.__new__(GradNode)
        node.op = self
        node.inputs = tensors
        node.output = tuple([flat[i]._data for i in backward.roots])
        node.sequence = mode.next_sequence()
        node.versions = versions_of(tensors)
        node.code, node.offset = here() or (None, None)
        node.hooks = node.overwritten = node.replaced = None
        self.kept = [flat[i] for i in backward.kept]
        for position, index in enumerate(backward.roots):
            out = flat[index]
            out._node, out._index, out._requires_grad = node, position, True

    def n_outputs(self, node: GradNode) -> int:
        """The results that have gradients, then the values inside that gradients of gradients reach."""
        return len(self.differentiable.roots) + len(self.differentiable.hidden)

    def check(self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...]) -> None:
        """Refuse values that were overwritten after the plain call would have saved them, or that this one reads."""
        if not self.overwritten and unwritten(node):
            return
        backward = self.differentiable
        part = self.part(present_among(grads), self.wanted(needs))
        inputs, versions = node.inputs or (), node.versions or itertools.repeat(0)
        stale = {
            leaf: (tensor, version)
            for leaf, tensor, version in zip(backward.leaves, inputs, versions, strict=False)
            if version_of(tensor) != version
        }
        for saved in part.saved:
            if saved.result >= 0:
                position = backward.roots.index(saved.result) if saved.result in backward.roots else -1
                if self.overwritten and position in self.overwritten and saved.is_read():
                    raise saved.error(node.outputs()[position], 0, self.overwritten[position])
            elif saved.leaf in stale and saved.is_read():
                tensor, version = stale[saved.leaf]
                raise saved.error(tensor, version, tensor._storage.source)
        for leaf in part.plain.read:
            if leaf in stale:
                tensor, version = stale[leaf]
                raise stale_value(node, backward.leaves.index(leaf), tensor, version)

    def part(self, present: tuple[int, ...], wanted: tuple[Hashable, ...]) -> Part:
        """The gradients of these results for these leaves, compiled when first asked for.

        And again where code in them reads something else by now, and the call cannot be made again instead.
        """
        backward = self.differentiable
        found = backward.parts.get((present, wanted))
        if found is not None and not (self.repeatable or found.holds()):
            backward.twice.clear()
            found = None
        if found is None:
            with backward.record(self.arguments) as (tracer, results):
                roots = [results[i] for i in backward.roots]
                values = roots + hidden_values(tracer, roots, list(backward.hidden))
                chosen = [values[i] for i in present]
                leaves = leaves_with_gradients(tracer)
                visit = visit_of(operations(tracer, roots), roots, chosen, operations(tracer, chosen), leaves, wanted)
                incoming = [cotangent(tracer, r) for r in chosen]
                walked = walk(tracer, chosen, incoming, leaves, results, wanted)
                found = compile_part(backward, tracer, results, walked)
                found.visit = visit
            backward.parts[present, wanted] = found
        return found

    @property
    def repeatable(self) -> bool:
        """Whether the call may run again: it has changed nothing that cannot be put back."""
        return not self.differentiable.changes

    def again(self) -> list[Tensor]:
        """The results that have gradients, by the plain call."""
        return _results_again(self.differentiable, self.arguments)

    def release(self, node: GradNode, gone: Collection[GradNode]) -> bool:
        """Note the part of the call that was walked last, and drop its values where nothing is left to be walked."""
        visit = self.last
        if visit is None:  # the walk went through the plain call's operations
            EXPANDED.pop(node, None)
            self.arguments = self.kept = ()
            return True
        ended: frozenset[Hashable] = frozenset()
        if gone and visit.lasting:
            pairs = zip(self.keys, node.inputs or (), strict=True)
            ended = frozenset(key for key, t in pairs if any(s._node in gone for s in sources((t,), node)))
        freed = visit.freed(ended)
        self.freed = (*self.freed, freed)
        ends = visit.results <= freed and all(number in freed for number, _ in self.differentiable.hidden)
        if ends:
            self.arguments = self.kept = ()
        return ends

    def backward_onto(
        self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], known: list[Any], create_graph: bool
    ) -> Any:
        """Run the compiled gradient; one that is to be differentiated in turn goes on the tape as a node."""
        if state.tracer is not None:
            return self._by_operations(node, grads, needs, known, mode.grad_mode())
        present, wanted = present_among(grads), self.wanted(needs)
        part, assumed = self.part(present, wanted), [g.contiguous() for g in grads if g is not None]
        assert part.visit is not None
        if any(freed & part.visit.reached for freed in self.freed):
            raise used_up(node)
        if not part.holds():
            self.last = None
            return self._by_operations(node, grads, needs, known, create_graph)
        self.last = part.visit
        starts = dict(zip(self.keys, known, strict=True))
        begun = {key: starts[key] for key in part.repeated if starts[key] is not None}
        if not create_graph:
            found = part.totals(assumed, self.kept, self.arguments, starts)
            return tuple([found.get(key) for key in self.keys])
        twice = self._twice(present, wanted, assumed, begun)
        if twice.asks:
            self.last = None
            return self._by_operations(node, grads, needs, known, create_graph)
        keeps: Sequence[Tensor] = ()
        computed: Any = None
        before = mode.set_grad_mode(False)
        try:
            if twice.keeping is None:
                found = part.totals(assumed, self.kept, self.arguments, begun)
            else:
                computed = twice.keeping.run(assumed, self.kept, self.arguments)
        finally:
            mode.set_grad_mode(before)
        if computed is MISS:
            self.last = None
            return self._by_operations(node, grads, needs, known, create_graph)
        if computed is not None:
            keeps = computed[len(twice.targets) :]
            found = dict(zip(twice.targets, computed, strict=False))
        if twice.outputs:
            op = GradientOp(self, twice, keeps)
            op.connect(node, [*assumed, *begun.values()], found)
            again = functools.partial(_results_again, self.differentiable, self.arguments)
            gradients = functools.partial(_gradients_again, node, self, twice, assumed, begun)
            op.apart = again, gradients
            GRADIENTS.add(found[twice.outputs[0]]._node)  # type: ignore[arg-type]  # just connected
        for key, start in starts.items():
            if start is not None and key in found and key not in begun:
                found[key] = start + found[key]
        return tuple([found.get(key) for key in self.keys])

    def _twice(
        self,
        present: tuple[int, ...],
        wanted: tuple[Hashable, ...],
        grads: list[Tensor],
        starts: dict[Hashable, Tensor],
    ) -> Twice:
        """The history of the gradients of these results for these leaves."""
        flags = tuple([t._requires_grad for t in (*grads, *starts.values())])
        key = present, wanted, flags, tuple(starts)
        found = self.differentiable.twice.get(key)
        if found is None:
            found = self.differentiable.twice[key] = Twice(self.differentiable, self.arguments, *key)
        return found

    def _by_operations(
        self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], known: list[Any], create_graph: bool
    ) -> Any:
        """The gradient by the plain call's operations: as part of a trace, or where code in it reads something else.

        Where it has a history, that is the history of the values inside the call, of which there is one each.
        """
        lasts = create_graph and state.tracer is None
        roots = made_again(node) if lasts else self.again()
        present = present_among(grads)
        targets = list(node.inputs or ())
        needed = list(itertools.compress(targets, needs))
        given, starts = [grads[i] for i in present], list(itertools.compress(known, needs))
        found = engine.run([roots[i] for i in present], given, needed, True, create_graph, None, 0, starts)
        if lasts:
            replace(node, roots)
        by_id = {id(t): g for t, g in zip(needed, found, strict=True)}
        return tuple(map(by_id.get, map(id, targets)))


def _results_again(backward: Backward, arguments: tuple[Any, ...]) -> list[Tensor]:
    """The results of a compiled call that have gradients, by the plain call."""
    if backward.changes:
        needed = "this gradient needs the function to run again"
        raise RuntimeError(f"{backward.name}: {needed}, and it changes {backward.changes}")
    before = mode.set_grad_mode(True)
    try:
        with untraced(), _put_back(backward.written.values(arguments)):
            outputs = backward.rerun(arguments)
    finally:
        mode.set_grad_mode(before)
    return [outputs[i] for i in backward.roots]


@contextmanager
def _put_back(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Afterwards the tensors are what they were, and have been written as often."""
    kept = [(t, t.detach().clone(), version_of(t)) for t in tensors]
    try:
        yield
    finally:
        for tensor, value, version in kept:
            if isinstance(tensor._data, np.ndarray):
                tensor._data[...] = value._data
            else:
                tensor.detach().copy_(value)
            if tensor._storage is not None:
                tensor._storage.version = version


def _gradients_again(
    node: GradNode, call: CallOp, twice: Twice, grads: list[Tensor], starts: dict[Hashable, Tensor]
) -> list[Tensor]:
    """Its gradients, from the results that the plain call made."""
    inputs = dict(zip(call.keys, node.inputs or (), strict=True))
    known = [starts.get(key) for key in twice.wanted]
    roots = [EXPANDED[node][i] for i in twice.present]
    found = engine.run(roots, grads, [inputs[key] for key in twice.wanted], True, True, None, 0, known)
    gradients: dict[Hashable, Any] = dict(zip(twice.wanted, found, strict=True))
    return [gradients[key] for key in twice.outputs]
