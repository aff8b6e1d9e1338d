"""Compiled calls on the tape: a jitted call is one node, its gradient, where that has a history, another one."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Sequence
from typing import Any

from eagerjit.autograd import engine
from eagerjit.autograd.expansion import EXPANDED, made_again, replace
from eagerjit.autograd.node import GradNode, refresh_all, used_up, versions_of
from eagerjit.autograd.release import sources
from eagerjit.autograd.saved import operations
from eagerjit.autograd.stale import stale_value
from eagerjit.compiled.gradient_tape import Compiled, GradientOp, present_among, results_again, unwritten
from eagerjit.compiled.joint import Backward, compile_part
from eagerjit.compiled.known import as_known
from eagerjit.compiled.parts import Part
from eagerjit.compiled.second_gradients import Twice, hidden_values
from eagerjit.compiled.visits import visit_of
from eagerjit.compiled.walks import cotangent, leaves_with_gradients, walk
from eagerjit.runtime import mode
from eagerjit.runtime.connections import connects
from eagerjit.runtime.execute import MISS
from eagerjit.runtime.native.agreed import KIND_CALL
from eagerjit.runtime.source import here
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor, version_of


class CallOp(Compiled):
    """The op of a node that is a compiled call."""

    walked_as = KIND_CALL
    __slots__ = ("differentiable",)

    def __init__(self, backward: Backward, arguments: tuple[Any, ...]):
        self.differentiable, self.arguments, self.known = backward, arguments, backward.known
        self.kept = self.values = self.freed = ()
        self.last = self.overwritten = None

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
        self.kept = tuple([flat[i] for i in backward.kept])
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
            backward.known.forget()
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
        return results_again(self.differentiable, self.arguments)

    def release(self, node: GradNode, gone: Collection[GradNode]) -> bool:
        """Note the part of the call that was walked last, and drop its values where nothing is left to be walked."""
        visit, backward = self.last, self.differentiable
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
        ends = backward.ends(visit, freed)
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
        begun = {key: starts[key] for key in part.summed(starts)}
        if not create_graph:
            found = part.totals(assumed, self.kept, self.arguments, starts)
            self._teach(part, present, wanted, tuple(begun))
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
            GradientOp(self, node, twice, [*assumed, *begun.values()], keeps).connect(found)
        self._teach(part, present, wanted, tuple(begun), twice)
        for key, start in starts.items():
            if start is not None and key in found and key not in begun:
                found[key] = start + found[key]
        return tuple([found.get(key) for key in self.keys])

    def _teach(
        self,
        part: Part,
        present: tuple[int, ...],
        wanted: tuple[Hashable, ...],
        summed: tuple[Hashable, ...],
        twice: Twice | None = None,
    ) -> None:
        """Let native code know a gradient, by itself or with its history."""
        key = present, wanted, summed, None if twice is None else twice.flags
        if not self.known.knows(key) and connects(CallOp, GradientOp):
            made = as_known(part, self.differentiable, self.keys, *key[:3], twice=twice)
            self.known.add(key, made)

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
            self.differentiable.describe()
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
