"""Compiled calls on the tape: a jitted call is one node, and its gradient, where that has a history, another one."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from eagerjit.autograd import engine
from eagerjit.autograd.expansion import EXPANDED, GRADIENTS, Expand, made_again, replace
from eagerjit.autograd.node import GradNode, Several, refresh_all, used_up
from eagerjit.autograd.release import sources
from eagerjit.autograd.saved import operations
from eagerjit.autograd.stale import stale_value
from eagerjit.compiled.joint import Backward, Part, compile_part
from eagerjit.compiled.second_gradients import Twice, hidden_values
from eagerjit.compiled.visits import Numbers, Visit, visit_of
from eagerjit.compiled.walks import cotangent, leaves_with_gradients, walk
from eagerjit.runtime import mode
from eagerjit.runtime.source import here
from eagerjit.state import state, untraced
from eagerjit.tensors.tensor import Tensor, new_tensor, version_of


class Compiled(Several):
    """The op of a node that is compiled: gradients come from a Part, one for those that come in and those wanted."""

    accumulates = True
    name: str
    keys: list[Hashable]
    """What the node's inputs are to a Part."""

    def __init__(self) -> None:
        self.overwritten: dict[int, Any] = {}

    def n_outputs(self, node: GradNode) -> int:
        """How many results gradients may reach, hidden ones included."""
        return len(node.output)

    def part(self, present: tuple[int, ...], wanted: tuple[Hashable, ...]) -> Part:
        """The gradients of these results for the inputs with these keys."""
        raise NotImplementedError

    def wanted(self, needs: tuple[bool, ...]) -> tuple[Hashable, ...]:
        """The keys of the inputs that need a gradient."""
        return tuple(itertools.compress(self.keys, needs))


class CallOp(Compiled):
    """The op of a node that is a compiled call."""

    walked_alone = True

    def __init__(self, backward: Backward, arguments: tuple[Any, ...]):
        super().__init__()
        self.differentiable, self.arguments = backward, arguments
        self.name, self.keys = backward.name, list(backward.leaves)
        self.kept: list[Tensor] = []
        self.inner, self.end = backward.inner, backward.end
        self.freed: list[Numbers] = []
        self.last: Visit | None = None

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
        node.versions = tuple([0 if t._storage is None else t._storage.version for t in tensors])
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
        if not self.overwritten and _unwritten(node):
            return
        backward = self.differentiable
        part = self.part(_present(grads), self.wanted(needs))
        assert node.inputs is not None and node.versions is not None
        stale = {
            leaf: (tensor, version)
            for leaf, tensor, version in zip(backward.leaves, node.inputs, node.versions, strict=True)
            if version_of(tensor) != version
        }
        for saved in part.saved:
            if saved.result >= 0:
                position = backward.roots.index(saved.result) if saved.result in backward.roots else -1
                if position in self.overwritten and saved.is_read():
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
        """Note the part of the call that was walked last."""
        visit = self.last
        if visit is None:  # the walk went through the plain call's operations
            EXPANDED.pop(node, None)
            return True
        ended: frozenset[Hashable] = frozenset()
        if gone and visit.lasting:
            pairs = zip(self.keys, node.inputs or (), strict=True)
            ended = frozenset(key for key, t in pairs if any(s._node in gone for s in sources((t,), node)))
        freed = visit.freed(ended)
        self.freed.append(freed)
        return visit.results <= freed and all(number in freed for number, _ in self.differentiable.hidden)

    def backward_onto(
        self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], known: list[Any], create_graph: bool
    ) -> Any:
        """Run the compiled gradient; one that is to be differentiated in turn goes on the tape as a node."""
        if state.tracer is not None:
            return self._by_operations(node, grads, needs, known, mode.grad_mode())
        present, wanted = _present(grads), self.wanted(needs)
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
        before = mode.set_grad_mode(False)
        try:
            if twice.keeping is None:
                found = part.totals(assumed, self.kept, self.arguments, begun)
            else:
                computed = twice.keeping.run(assumed, self.kept, self.arguments)
                keeps = computed[len(twice.targets) :]
                found = dict(zip(twice.targets, computed, strict=False))
        finally:
            mode.set_grad_mode(before)
        if twice.outputs:
            op = GradientOp(self, twice, keeps)
            op.connect(node, [*assumed, *begun.values()], found)
            again = functools.partial(_results_again, self.differentiable, self.arguments)
            gradients = functools.partial(_gradients_again, node, self, present, assumed, begun, twice.outputs)
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
        present = _present(grads)
        targets = list(node.inputs or ())
        needed = list(itertools.compress(targets, needs))
        given, starts = [grads[i] for i in present], list(itertools.compress(known, needs))
        found = engine.run([roots[i] for i in present], given, needed, True, create_graph, None, 0, starts)
        if lasts:
            replace(node, roots)
        by_id = {id(t): g for t, g in zip(needed, found, strict=True)}
        return tuple(map(by_id.get, map(id, targets)))


class GradientOp(Compiled):
    """The op of a node that is the gradient of a compiled call: it depends on values inside that call too.

    `apart` makes the results of the plain call, and those of its gradient.
    """

    apart: tuple[Expand, Expand]

    def __init__(self, call: CallOp, twice: Twice, keeps: Sequence[Tensor]):
        super().__init__()
        self.kept = [*call.kept, *keeps]
        self.call, self.twice, self.name, self.keys = call, twice, twice.name, twice.keys

    def connect(self, node: GradNode, given: list[Tensor], found: dict[Hashable, Tensor]) -> None:
        """Put the gradient on the tape."""
        twice, self.call_node = self.twice, node
        hidden = []
        for position in twice.hidden:
            value = new_tensor(None)
            value._node, value._index, value._requires_grad = node, position, True
            hidden.append(value)
        refresh_all(node.inputs or ())
        made = object.__new__(GradNode)
        made.op = self
        made.inputs = (*given, *hidden, *(node.inputs or ()))
        made.output = tuple([found[key]._data for key in twice.outputs])
        made.sequence = mode.next_sequence()
        made.versions = tuple([0 if t._storage is None else t._storage.version for t in made.inputs])
        made.code, made.offset = node.code, node.offset
        made.hooks = made.overwritten = made.replaced = None
        self.values = given
        for index, key in enumerate(twice.outputs):
            found[key]._node, found[key]._index, found[key]._requires_grad = made, index, True

    def check(self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...]) -> None:
        """Refuse tensors that were overwritten since, where the gradient reads them."""
        if _unwritten(node):
            return
        read = set(self.part(_present(grads), self.wanted(needs)).plain.read)
        assert node.inputs is not None and node.versions is not None
        for index, (key, tensor, version) in enumerate(zip(self.keys, node.inputs, node.versions, strict=True)):
            if version_of(tensor) != version and (key in read or isinstance(key, tuple)):
                raise stale_value(node, index, tensor, version)

    def part(self, present: tuple[int, ...], wanted: tuple[Hashable, ...]) -> Part:
        """The gradient of these gradients, compiled when first asked for."""
        return self.twice.part(present, wanted, self.call.arguments)

    def backward_onto(
        self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], known: list[Any], create_graph: bool
    ) -> Any:
        """Run the compiled gradient of the gradient."""
        values = [*(v.contiguous() for v in self.values), *(g.contiguous() for g in grads if g is not None)]
        starts = dict(zip(self.keys, known, strict=True))
        part = self.part(_present(grads), self.wanted(needs))
        found = part.totals(values, self.kept, self.call.arguments, starts)
        return tuple([found.get(key) for key in self.keys])

    def joins(self, node: GradNode, edges: list[Any], call: GradNode, call_edges: list[Any]) -> bool:
        """Whether one compiled gradient does for this node and its call's: all between them is inside the call."""
        if call.hooks is not None or call.overwritten is not None or self.call.overwritten or self.call.freed:
            return False
        given, leaves = edges[: len(self.values)], edges[-len(call_edges) :]
        inside = all(e is None for e in given) and all(map(operator.is_, leaves, call_edges))
        return inside and _unwritten(call) and _unwritten(node, len(given))

    def backward_with_call(
        self, grads: Sequence[Any], call_grads: Sequence[Any], needs: tuple[bool, ...], known: list[Any]
    ) -> Any:
        """Gradients for the inputs of the call, from those of its gradient and of its results."""
        call = self.call
        part = self.twice.part_with_call(_present(grads), _present(call_grads), call.wanted(needs), call.arguments)
        call.last = part.visit
        values = [v.contiguous() for v in (*self.values, *grads, *call_grads) if v is not None]
        found = part.totals(values, self.kept, call.arguments, dict(zip(call.keys, known, strict=True)))
        return tuple([found.get(key) for key in call.keys])


def _unwritten(node: GradNode, count: int | None = None) -> bool:
    """Whether no input, or none of the first, was written since the node was made."""
    for tensor, version in zip((node.inputs or ())[:count], node.versions or (), strict=False):
        if tensor._storage is not None and tensor._storage.version != version:
            return False
    return True


def _present(grads: Sequence[Any]) -> tuple[int, ...]:
    return tuple([i for i, g in enumerate(grads) if g is not None])


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
    node: GradNode,
    call: CallOp,
    present: tuple[int, ...],
    grads: list[Tensor],
    starts: dict[Hashable, Tensor],
    outputs: list[Hashable],
) -> list[Tensor]:
    """Its gradients, from the results that the plain call made."""
    wanted = {key: t for key, t in zip(call.keys, node.inputs or (), strict=True) if t._requires_grad}
    known = [starts.get(key) for key in wanted]
    roots = [EXPANDED[node][i] for i in present]
    found: list[Any] = engine.run(roots, grads, list(wanted.values()), True, True, None, 0, known)
    return [found[list(wanted).index(key)] for key in outputs]
