"""Compiled gradients of compiled calls on the tape, where these have a history in turn."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from eagerjit.autograd.expansion import Expand
from eagerjit.autograd.node import GradNode, Several, refresh_all, versions_of
from eagerjit.autograd.stale import stale_value
from eagerjit.compiled.joint import Part
from eagerjit.compiled.second_gradients import Twice
from eagerjit.runtime import mode
from eagerjit.tensors.tensor import Tensor, new_tensor, version_of

if TYPE_CHECKING:
    from eagerjit.compiled.tape import CallOp


class Compiled(Several):
    """The op of a node that is compiled: gradients come from a Part, one for those that come in and those wanted."""

    accumulates = True
    __slots__ = ("kept", "overwritten")
    kept: Sequence[Tensor]
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

    `apart` makes the results of the plain call, and those of its gradient.
    """

    apart: tuple[Expand, Expand]

    def __init__(self, call: CallOp, twice: Twice, keeps: Sequence[Tensor]):
        self.kept, self.overwritten = [*call.kept, *keeps], None
        self.call, self.twice, self.arguments = call, twice, call.arguments

    @property
    def name(self) -> str:
        """What the gradient is called."""
        return self.twice.name

    @property
    def keys(self) -> Sequence[Hashable]:
        """What its node's inputs are to a Part."""
        return self.twice.keys

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
        made.versions = versions_of(made.inputs)
        made.code, made.offset = node.code, node.offset
        made.hooks = made.overwritten = made.replaced = None
        self.values = given
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
        part = self.part(present_among(grads), self.wanted(needs))
        found = part.totals(values, self.kept, self.arguments, starts)
        return tuple([found.get(key) for key in self.keys])

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
        found = part.totals(values, self.kept, self.arguments, dict(zip(call.keys, known, strict=True)))
        return tuple([found.get(key) for key in call.keys])


def unwritten(node: GradNode, count: int | None = None) -> bool:
    """Whether no input, or none of the first, was written since the node was made."""
    for tensor, version in zip((node.inputs or ())[:count], node.versions or itertools.repeat(0), strict=False):
        if tensor._storage is not None and tensor._storage.version != version:
            return False
    return True


def present_among(grads: Sequence[Any]) -> tuple[int, ...]:
    """The positions of the gradients that are there."""
    return tuple([i for i, g in enumerate(grads) if g is not None])
