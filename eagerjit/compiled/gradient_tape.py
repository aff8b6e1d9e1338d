"""Compiled gradients of compiled calls on the tape, where these have a history in turn."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.autograd import engine
from eagerjit.autograd.expansion import EXPANDED
from eagerjit.autograd.node import GradNode, Several, refresh_all, versions_of
from eagerjit.autograd.stale import stale_value
from eagerjit.compiled.joint import Backward
from eagerjit.compiled.known import as_known
from eagerjit.compiled.parts import Part
from eagerjit.compiled.second_gradients import Twice
from eagerjit.compiled.visits import Numbers, Visit
from eagerjit.runtime import mode
from eagerjit.runtime.connections import KnownGradients, connects
from eagerjit.runtime.native.agreed import KIND_GRADIENT
from eagerjit.state import untraced
from eagerjit.tensors.tensor import Tensor, new_tensor, version_of

if TYPE_CHECKING:
    from eagerjit.compiled.tape import CallOp


class Compiled(Several):
    """The op of a node that is compiled: gradients come from a Part, one for those that come in and those wanted.

    Native code makes such ops too, and runs the gradients that it knows (`runtime/connections.py`).

    arguments   what the call was given
    kept        what it has kept for its gradient
    values      what else the node was made from that gradients are computed with
    known       the gradients that native code finds by itself
    freed       what walks have freed of the call, each
    last        what the last one has gone through
    """

    __slots__ = ("arguments", "freed", "kept", "known", "last", "overwritten", "values")
    arguments: tuple[Any, ...]
    kept: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    known: KnownGradients
    freed: tuple[Numbers, ...]
    last: Visit | None
    overwritten: dict[int, Any] | None

    @property
    def name(self) -> str:
        """What the node is called."""
        raise NotImplementedError

    @property
    def keys(self) -> Sequence[Hashable]:
        """What the node's inputs are to a Part."""
        raise NotImplementedError

    def note_overwritten(self, index: int, place: Any) -> None:
        """Note where a result was overwritten first."""
        self.overwritten = {index: place} | (self.overwritten or {})

    def n_outputs(self, node: GradNode) -> int:
        """How many results gradients may reach, hidden ones included."""
        return len(node.output)

    def part(self, present: tuple[int, ...], wanted: tuple[Hashable, ...]) -> Part:
        """The gradients of these results for the inputs with these keys."""
        raise NotImplementedError

    def wanted(self, needs: tuple[bool, ...]) -> tuple[Hashable, ...]:
        """The keys of the inputs that need a gradient."""
        return tuple(itertools.compress(self.keys, needs))


class GradientOp(Compiled):
    """The op of a node that is the gradient of a compiled call: it depends on values inside that call too.

    Its values are the gradients that came in, and what these were added to.
    """

    walked_as = KIND_GRADIENT
    __slots__ = ("call", "call_node", "twice")

    def __init__(self, call: CallOp, node: GradNode, twice: Twice, values: Sequence[Tensor], keeps: Sequence[Tensor]):
        self.kept, self.values, self.overwritten = (*call.kept, *keeps), tuple(values), None
        self.call, self.call_node, self.twice, self.arguments = call, node, twice, call.arguments
        self.known, self.freed, self.last = twice.known, (), None

    @property
    def name(self) -> str:
        """What the gradient is called."""
        return self.twice.name

    @property
    def keys(self) -> Sequence[Hashable]:
        """What its node's inputs are to a Part."""
        return self.twice.keys

    def connect(self, found: dict[Hashable, Tensor]) -> None:
        """Put the gradient on the tape."""
        twice, node, hidden = self.twice, self.call_node, []
        for position in twice.hidden:
            value = new_tensor(None)
            value._node, value._index, value._requires_grad = node, position, True
            hidden.append(value)
        refresh_all(node.inputs or ())
        made = object.__new__(GradNode)
        made.op = self
        made.inputs = (*self.values, *hidden, *(node.inputs or ()))
        made.output = tuple([found[key]._data for key in twice.outputs])
        made.sequence = mode.next_sequence()
        made.versions = versions_of(made.inputs)
        made.code, made.offset = node.code, node.offset
        made.hooks = made.overwritten = made.replaced = None
        for index, key in enumerate(twice.outputs):
            found[key]._node, found[key]._index, found[key]._requires_grad = made, index, True

    def check(self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...]) -> None:
        """Refuse tensors that were overwritten since, where the gradient reads them."""
        if unwritten(node):
            return
        read = set(self.part(present_among(grads), self.wanted(needs)).plain.read)
        triples = zip(self.keys, node.inputs or (), node.versions or itertools.repeat(0), strict=False)
        for index, (key, tensor, version) in enumerate(triples):
            if version_of(tensor) != version and (key in read or isinstance(key, tuple)):
                raise stale_value(node, index, tensor, version)

    def part(self, present: tuple[int, ...], wanted: tuple[Hashable, ...]) -> Part:
        """The gradient of these gradients, compiled when first asked for."""
        return self.twice.part(present, wanted, self.arguments)

    def backward_onto(
        self, node: GradNode, grads: Sequence[Any], needs: tuple[bool, ...], known: list[Any], create_graph: bool
    ) -> Any:
        """Run the compiled gradient of the gradient."""
        values = [*(v.contiguous() for v in self.values), *(g.contiguous() for g in grads if g is not None)]
        starts = dict(zip(self.keys, known, strict=True))
        present, wanted = present_among(grads), self.wanted(needs)
        part = self.part(present, wanted)
        found = part.totals(values, self.kept, self.arguments, starts)
        key = present, wanted, part.summed(starts)
        if not self.known.knows(key) and self.is_native():
            made = as_known(part, self.twice.backward, self.keys, *key, n_values=len(self.values))
            self.known.add(key, made)
        return tuple([found.get(key) for key in self.keys])

    def is_native(self) -> bool:
        """Whether native code puts such calls on the tape."""
        return connects(type(self.call), type(self))

    def joins(self, node: GradNode, edges: list[Any], call: GradNode, call_edges: list[Any]) -> bool:
        """Whether one compiled gradient does for this node and its call's: all between them is inside the call."""
        if call.hooks is not None or call.overwritten is not None or self.call.overwritten or self.call.freed:
            return False
        given, leaves = edges[: len(self.values)], edges[-len(call_edges) :]
        inside = all(e is None for e in given) and all(map(operator.is_, leaves, call_edges))
        return inside and unwritten(call) and unwritten(node, len(given))

    def backward_with_call(
        self, grads: Sequence[Any], call_grads: Sequence[Any], needs: tuple[bool, ...], known: list[Any]
    ) -> Any:
        """Gradients for the inputs of the call, from those of its gradient and of its results."""
        call = self.call
        present, of_call = present_among(grads), present_among(call_grads)
        part = self.twice.part_with_call(present, of_call, call.wanted(needs), self.arguments)
        call.last = part.visit
        values = [v.contiguous() for v in (*self.values, *grads, *call_grads) if v is not None]
        starts = dict(zip(call.keys, known, strict=True))
        found = part.totals(values, self.kept, self.arguments, starts)
        key = present, of_call, call.wanted(needs), part.summed(starts)
        if not self.known.knows(key, True) and self.is_native():
            made = as_known(
                part, self.twice.backward, call.keys, present, *key[2:], n_values=len(self.values), of_call=of_call
            )
            self.known.add(key, made, True)
        return tuple([found.get(key) for key in call.keys])

    def call_again(self) -> list[Tensor]:
        """The results of the call that have gradients, by the plain call."""
        return results_again(self.twice.backward, self.arguments)

    def again(self) -> list[Tensor]:
        """Its gradients, from the results that the plain call made."""
        twice, node = self.twice, self.call_node
        inputs = dict(zip(self.call.keys, node.inputs or (), strict=True))
        count = len(twice.present)
        starts = dict(zip(twice.started, self.values[count:], strict=True))
        known = [starts.get(key) for key in twice.wanted]
        roots = [EXPANDED[node][i] for i in twice.present]
        targets = [inputs[key] for key in twice.wanted]
        found = engine.run(roots, self.values[:count], targets, True, True, None, 0, known)
        gradients: dict[Hashable, Any] = dict(zip(twice.wanted, found, strict=True))
        return [gradients[key] for key in twice.outputs]


def unwritten(node: GradNode, count: int | None = None) -> bool:
    """Whether no input, or none of the first, was written since the node was made."""
    for tensor, version in zip((node.inputs or ())[:count], node.versions or itertools.repeat(0), strict=False):
        if tensor._storage is not None and tensor._storage.version != version:
            return False
    return True


def present_among(grads: Sequence[Any]) -> tuple[int, ...]:
    """The positions of the gradients that are there."""
    return tuple([i for i, g in enumerate(grads) if g is not None])


def results_again(backward: Backward, arguments: tuple[Any, ...]) -> list[Tensor]:
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
