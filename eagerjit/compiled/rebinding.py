"""Versions for calls that find other Modules and optimizers, which are like those that were recorded.

What a program knows by identity are its constant objects. So the same program serves others, loaded for these, where
nothing else that the version keeps leads to an object that has another one in its place.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from eagerjit.compiled.variants import FAILED, Call, Variant
from eagerjit.compiler.signature import Load, Object, ObjectGuard, Trace
from eagerjit.guards.comparing import MUTABLE, Hooks, Unchanged, has_state
from eagerjit.guards.epochs import Table
from eagerjit.guards.likeness import Likeness, is_optimizer, share_memory
from eagerjit.guards.structures import structure_of
from eagerjit.recording.leaves import key_of, kinds_that_vary
from eagerjit.recording.reached import Memory
from eagerjit.runtime import mode, records
from eagerjit.runtime.execute import MISS
from eagerjit.runtime.program import Op
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import WATCHED
from eagerjit.watching.slots import ABSENT, Path, Slot, look

_LOOKED_INTO = (FunctionType, CellType, *MUTABLE)
"""Constants that may hold something else in a later call: programs, or guards, compare what was found there."""

_ENDS = (Tensor, type, ModuleType, CodeType, BuiltinFunctionType, str, bytes, int, float)
_CONTAINERS = (list, tuple, dict, set, frozenset, deque, functools.partial)
_LIBRARIES = frozenset("eagerjit builtins functools operator weakref".split())

_MOST_BOUND = 4
"""Versions of one program that are kept."""


def served(function: Any, structure: Any, leaves: list[Any], call: Call) -> tuple[Variant, Any] | None:
    """A version bound to what a call finds, and what came of its run; None where no program serves the call."""
    programs = {id(v.report.traced): v for v in reversed(function.variants) if v.structure == structure}
    for variant in programs.values():
        with _States() as states:
            made = rebound(variant, leaves, states)
            if made is None or not made.guards_hold(leaves):
                continue
            made.begin()
            outcome = made.run(leaves, call)
            if outcome is FAILED:
                return made, FAILED
            if outcome is not MISS:
                states.made.clear()
                function.publish(made, _replaced(function.variants, made))
                function.info.hits += 1
                return made, outcome
    return None


class _States:
    """States of optimizers that have taken no step, made as the first one does; taken back but for those of a call."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, list[Tensor]]] = []

    def __enter__(self) -> _States:
        return self

    def begin(self, owners: Iterable[Any]) -> None:
        """Let optimizers have what their first step makes, as recordings find it."""
        self.made += [(owner.state, owner.begin_states()) for owner in owners if is_optimizer(owner)]

    def values(self) -> set[int]:
        """What was made, by identity."""
        tables = [states[parameter] for states, parameters in self.made for parameter in parameters]
        return {id(value) for table in tables for value in table.values()}

    def __exit__(self, *error: object) -> None:
        for states, parameters in self.made:
            for parameter in parameters:
                states.pop(parameter, None)


def _replaced(known: Sequence[Variant], made: Variant) -> list[Variant]:
    """The versions of the same program that a new one replaces: for the same objects as they were, or used long ago."""
    alike = [v for v in known if v.report.traced is made.report.traced]
    same = [v for v in alike if _roots(v) == _roots(made)]
    others = [v for v in alike if not any(v is one for one in same)]
    return same + others[_MOST_BOUND - 1 :]


def _roots(variant: Variant) -> list[int]:
    return [] if variant.likeness is None else [*map(id, variant.likeness[0])]


def rebound(variant: Variant, leaves: Sequence[Any], states: _States) -> Variant | None:
    """A version with the same program for what a call with these leaves finds; None where it takes another program."""
    report = variant.report
    if variant.likeness is None or variant.backward is not None or report.load is None:
        return None
    roots, before = variant.likeness
    found = [_found_now(variant, root, leaves) for root in roots]
    if [*map(type, found)] != [*map(type, roots)]:
        return None
    if before.has_states:
        states.begin(found)
    epoch = mode.epoch()  # read first: later changes by other threads count
    now = Likeness(found, frozenset(), before.marked)
    if now.form != before.form:
        return None
    constants, begun = set(map(id, report.objects)), states.values()
    if any(id(new) in begun and old not in constants for old, new in zip(before.ids, now.met, strict=True)):
        return None  # of a parameter without a gradient, of which the first step makes none
    others = {old: new for old, new in zip(before.ids, now.met, strict=True) if old != id(new)}
    copies = _compared(report.trace)
    objects = [_other(value, others, i in copies) for i, value in enumerate(report.objects)]
    changing = {(id(others[place]) if place in others else place, key) for place, key in variant.state.changing}
    guards: list[Any] = [g.of_others(others) if isinstance(g, Unchanged) else g for g in variant.guards]
    if not others or any(g is None for g in guards) or not _is_bound_to(variant, others, objects, copies):
        return None
    state = structure_of([_other_owner(owner, others) for owner in variant.state.owners], changing)
    if not _is_as_before(variant, state, roots):
        return None
    state.epoch = epoch
    now.met.clear()  # what is no constant is not to be kept
    return replace(
        variant, executable=report.load(objects), report=records.replace(report, objects=objects), state=state,
        key=key_of(leaves, kinds_that_vary(variant.structure)), likeness=(found, now), entered=False, guards=guards,
        commit=[(action, others.get(id(target), target)) for action, target in variant.commit],
        slots=[Slot(others.get(id(s.holder), s.holder), s.key, s.kind, s.path) for s in variant.slots],
    )  # fmt: skip


def _found_now(variant: Variant, root: Any, leaves: Sequence[Any]) -> Any:
    """What a call finds where the recording found a Module or an optimizer; that itself where no name leads to it."""
    trace, objects = variant.report.trace, variant.report.objects
    loads = {b.leaf: b for b in trace.bindings if isinstance(b, Load)}

    def value(leaf: int) -> Any:
        if leaf < len(leaves):
            return leaves[leaf]
        if leaf not in loads:  # what NumPy computes
            return ABSENT
        load = loads[leaf]
        constant = objects[load.operands[-1]]
        match load.op:
            case Op.LOAD_OBJECT:
                return constant
            case Op.LOAD_CELL:
                return look(constant, None, "cell")
            case Op.LOAD_ITEM:
                return look(value(load.operands[0]), constant, "item")
            case Op.LOAD_ATTRIBUTE:
                return look(value(load.operands[0]), constant, "attribute")
        return ABSENT

    for b in trace.bindings:
        if not isinstance(b, ObjectGuard) or (b.leaf in loads and loads[b.leaf].op is Op.LOAD_OBJECT):
            continue
        expected = objects[b.object]
        if b.op is Op.IS and expected is root:
            return value(b.leaf)
        if b.op is Op.EQUAL and type(expected) in (list, dict):
            keys = range(len(expected)) if type(expected) is list else expected
            for key in keys:
                if expected[key] is root:
                    return look(value(b.leaf), key, "item")
    return root


def _compared(trace: Trace) -> set[int]:
    """The objects that are nothing but compared: copies of what was found."""
    guards = [b for b in trace.bindings if isinstance(b, ObjectGuard)]
    used = {b.operands[-1] for b in trace.bindings if isinstance(b, Load)}
    used |= {b.object for b in guards if b.op is not Op.EQUAL}
    used |= {output.object for output in trace.outputs if isinstance(output, Object)}
    return {b.object for b in guards if b.op is Op.EQUAL} - used


def _other(value: Any, others: dict[int, Any], is_copy: bool) -> Any:
    """The object in the place of another one; copies of lists and dictionaries with those in place of their items."""
    if not is_copy:
        return others.get(id(value), value)
    if type(value) is list:
        return [others.get(id(item), item) for item in value]
    if type(value) in (dict, Table):
        return type(value)({others.get(id(k), k): others.get(id(v), v) for k, v in dict.items(value)})
    return value


def _items(value: Any) -> Sequence[Any]:
    if type(value) is list:
        return value
    return [*dict.keys(value), *dict.values(value)] if type(value) in (dict, Table) else ()


def _other_owner(owner: Any, others: dict[int, Any]) -> Any:
    if isinstance(owner, Hooks):
        return Hooks([others.get(id(tensor), tensor) for tensor in owner.tensors])
    return others.get(id(owner), owner)


def _is_bound_to(variant: Variant, others: dict[int, Any], objects: list[Any], copies: set[int]) -> bool:
    """Whether a version knows what has another one in its place by its program's objects alone, and none of these."""
    new = {id(other) for other in others.values()}
    known = {id(value) for value in variant.report.objects}
    known |= {id(item) for i in copies for item in _items(variant.report.objects[i])}
    if any(id(other) in known and id(other) not in others for other in others.values()):
        return False
    if share_memory(objects) or any(isinstance(owner, Memory) for owner in variant.state.owners):
        return False
    kept = [
        [guard for guard in variant.guards if not isinstance(guard, Unchanged)],
        [action for action, _ in variant.commit], [(slot.key, slot.path) for slot in variant.slots],
        [target for _, target in variant.commit if isinstance(target, (Path, MethodType, functools.partial))],
        *(variant.before, variant.after, variant.notes, variant.clocks),
        *(variant.calls, variant.inquiries, variant.attributes, variant.host, variant.asked),
        *(variant.result, variant.structure, variant.freed, variant.apart, variant.gradients),
    ]
    constants = [value for i, value in enumerate(variant.report.objects) if i not in copies and id(value) not in others]
    kept += [value for value in constants if not isinstance(value, _LOOKED_INTO)]
    return _reaches_none(kept, {*others, *new})


def _reaches_none(values: Iterable[Any], wanted: set[int]) -> bool:
    """Whether nothing that these values keep is one of the wanted objects; objects of programs are not looked into."""
    pending, seen = list(values), set[int]()
    while pending:
        value = pending.pop()
        if id(value) in wanted:
            return False
        if id(value) in seen or isinstance(value, _ENDS) or has_state(value):
            continue
        seen.add(id(value))
        if isinstance(value, FunctionType):
            pending += [value.__closure__, value.__defaults__, value.__kwdefaults__]
        elif isinstance(value, weakref.ReferenceType):
            pending.append(value())
        elif isinstance(value, _CONTAINERS) or not _is_of_program(type(value)):
            pending += gc.get_referents(value)
    return True


def _is_of_program(kind: type) -> bool:
    """Whether programs compare themselves what they read of the instances of a class."""
    library = kind.__module__.partition(".")[0]
    return kind.__module__ in WATCHED or library not in _LIBRARIES


def _is_as_before(variant: Variant, state: Any, roots: Sequence[Any]) -> bool:
    """Whether all else that a version compares when something has changed is as it was."""
    before, known = variant.state, set(map(id, roots))
    settings = ("dtype", "casting", "device", "methods")
    if any(getattr(state, name) != getattr(before, name) for name in settings):
        return False
    if len(state.owners) != len(before.owners):
        return False
    return all(
        id(owner) in known or old == new
        for owner, old, new in zip(before.owners, before.states, state.states, strict=True)
    )
