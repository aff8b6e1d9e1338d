"""Containers and records that calls find replaced: what lies in them are inputs, and their form is compared.

The recorded code gets copies, as it does of arguments; what it does to these every call does to those that it finds.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from eagerjit.compiler.ir import Node
from eagerjit.guards.forms import Form, keys_of, made_like
from eagerjit.guards.value_guards import guard_value
from eagerjit.pytree import part_of
from eagerjit.recording.varying import Varying, tensors_of
from eagerjit.runtime.program import Op
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.slots import STORE, Path, Slot

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal

_MOST_FORMS = 8


class Forms:
    """The guard: whether the values in slots look as they did, and none is or holds one of these other containers."""

    def __init__(self) -> None:
        self.forms: dict[Slot, Any] = {}
        self.others: Set[int] = frozenset()

    def __call__(self) -> bool:
        met = Form()
        same = all(met.of(slot.read()) == form and met.is_whole for slot, form in self.forms.items())
        return same and self.others.isdisjoint(met.containers)


class Opened:
    """The slots of one recording whose values were taken apart."""

    def __init__(self, journal: Journal):
        self.journal = journal
        self.guard = Forms()
        self.tensors: list[tuple[int, Tensor]] = []
        self._varying = Varying()
        self._met = Form()
        self._made: list[Any] = []

    def begin(self, varying: Varying) -> None:
        """Begin with what is known of the recordings before."""
        self._varying = varying
        varying.is_outside = self._is_outside

    def _is_outside(self, holder: Any, value: Any) -> bool:
        """Whether what a holder holds was there before the call."""
        if not self.journal.is_given(value):
            self.journal.find_in(holder, value)
        return self.journal.is_outside(value)

    def keep_apart(self, others: Set[int]) -> None:
        """None of them may be one of these containers. Where one is, their slots are left as they are from here on."""
        self.guard.others = others
        if not others.isdisjoint(self._met.containers):
            self._varying.left |= {(id(slot.holder), slot.key) for slot in self.guard.forms}
            begins = self.journal.tracer.begins
            raise self.journal.refuse("it reaches a container that it replaces in several ways", begins)

    def open(self, holder: Any, key: Any, kind: str, value: Any) -> Any:
        """What code gets that reads a container: a copy of inputs, or where this cannot be the container itself."""
        slot, name, before = Slot(holder, key, kind), (id(holder), key), self._met
        if name in self._varying.left or not (name in self._varying.slots or tensors_of(value)):
            return value
        met = before.copy()
        form, tracer = met.of(value), self.journal.tracer
        new = [t for key, t in met.tensors.items() if key not in before.tensors]
        known = any(id(t) in tracer.leaf_of or type(t._data) is Node for t in new)
        if not met.is_whole or known or self._is_strange(name, form):
            return value
        self._met, self.guard.forms[slot] = met, form
        if len(self.guard.forms) == 1:
            self.journal.checks.append(self.guard)
        leaf = self.journal.load(holder, key, kind)
        tracer.slots[leaf], tracer.begun[leaf] = slot, value
        made = self._part(slot, value, leaf)
        self.journal.inputs.add(name)
        self.journal.save(holder, key, kind)
        STORE[kind](holder, key, made)
        return made

    def _is_strange(self, name: tuple[int, Any], form: Any) -> bool:
        """Whether a slot has held values of so many forms that the next one will be of another."""
        forms = self._varying.forms.setdefault(name, set())
        forms.add(form)
        if len(forms) > _MOST_FORMS:
            self._varying.left.add(name)
        return len(forms) > _MOST_FORMS

    def _part(self, slot: Slot, value: Any, leaf: int) -> Any:
        """Make what lies at a place an input: tensors and numbers, and those within; of the rest, what it is."""
        tracer, kind = self.journal.tracer, type(value)
        if isinstance(value, Tensor):
            if id(value) not in tracer.leaf_of:
                tracer.slots[leaf], tracer.begun[leaf] = slot, value
                tracer.tensor_leaf(value, leaf, symbolic=True)
                self.tensors.append((leaf, value))
            return value
        if kind is float or (kind is int and -(2**63) <= value < 2**63):
            tracer.slots[leaf], tracer.begun[leaf] = slot, value
            return tracer.float_leaf(value, leaf) if kind is float else tracer.int_leaf(value, leaf)
        keys = keys_of(value, not slot.path)
        if keys is None:
            guard_value(tracer, leaf, value)
            return value
        parts = []
        for key in keys:
            inner = tracer.new_leaf()
            tracer.load(inner, Op.LOAD_ITEM if isinstance(value, (list, tuple, dict)) else Op.LOAD_ATTRIBUTE, leaf,
                        tracer.object(key))  # fmt: skip
            place = Slot(slot.holder, slot.key, slot.kind, (*slot.path, key))
            parts.append(self._part(place, part_of(value, key), inner))
        made = made_like(value, keys, parts)
        if not isinstance(value, tuple):
            base = Slot(slot.holder, slot.key, slot.kind)
            self.journal.paths[id(made)] = Path((base, *slot.path))
            self._made.append(made)
        return made
