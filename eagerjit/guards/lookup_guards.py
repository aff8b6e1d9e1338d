"""Guards for what code found elsewhere than where it looked first: in classes, among builtins, in libraries."""

from __future__ import annotations

import gc
import sys
from collections.abc import Set
from types import FunctionType, ModuleType
from typing import Any

from eagerjit.effects.journal import Journal
from eagerjit.guards.comparing import Unchanged, has_own_attributes, is_plain
from eagerjit.pytree import Structure, fields_in
from eagerjit.recording.trace import Tracer
from eagerjit.runtime.own_attributes import dictionary_of
from eagerjit.runtime.program import Op
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching import lookup
from eagerjit.watching.slots import DELETE, STORE, Path

_HEAP_TYPE = 1 << 9  # of a class's `__flags__`: made when the program runs, by a `class` statement for one
_ASSIGNING = {STORE["attribute"]: "__setattr__", DELETE["attribute"]: "__delattr__"}


def guard_kinds(tracer: Tracer, journal: Journal) -> None:
    """Guard the classes of objects that were asked for, or where methods were found that the objects do not have."""
    leaves: dict[int, int] = {}

    def known(owner: Any) -> int:
        if id(owner) not in leaves:
            leaf = leaves[id(owner)] = tracer.new_leaf()
            tracer.load(leaf, Op.LOAD_OBJECT, tracer.object(owner))
            tracer.guard_object(leaf, Op.TYPE_IS, type(owner))
        return leaves[id(owner)]

    for owner in journal.kinds_read.values():
        if _may_change_class(owner) and journal.is_outside(owner):
            known(owner)
    tables: dict[int, int] = {}
    for (key, name), owner in journal.inherited.items():
        found = lookup.inherited(owner, name)
        method = callable(found) or isinstance(found, classmethod)
        if not (method and has_own_attributes(owner) and journal.is_outside(owner)):
            continue
        holder = known(owner)
        if dictionary_of(owner) is None:
            continue
        if key not in tables:
            tables[key] = tracer.new_leaf()
            tracer.load(tables[key], Op.LOAD_ATTRIBUTE, holder, tracer.object("__dict__"))
        tracer.guard_object(tables[key], Op.LACKS, name)


def guard_methods(tracer: Tracer, journal: Journal) -> None:
    """Guard methods that code found in classes of libraries: programs may replace them there, or in classes between.

    So are what assigns attributes in any class, and what deletes them.
    """
    changing, known = journal.changing(), set[tuple[type, str]]()

    def guard(kind: type, name: str, found: Any) -> None:
        if (kind, name) in known:
            return
        known.add((kind, name))
        holder, leaf = tracer.new_leaf(), tracer.new_leaf()
        tracer.load(holder, Op.LOAD_OBJECT, tracer.object(kind))
        tracer.load(leaf, Op.LOAD_ATTRIBUTE, holder, tracer.object(name))
        tracer.guard_object(leaf, Op.IS, found)

    def guard_inherited(kind: type, name: str, found: Any) -> None:
        if not any((id(base), name) in changing for base in kind.__mro__):
            guard(kind, name, found)

    for (_, name), owner in journal.objects_read.items():  # `super().forward`, `nn.Linear.forward`
        held = vars(owner).get(name) if isinstance(owner, type) and not has_own_attributes(owner) else None
        if isinstance(held, FunctionType) and not issubclass(owner, Tensor) and (id(owner), name) not in changing:
            guard(owner, name, held)
    for (_, name), owner in journal.inherited.items():
        kind, found = type(owner), lookup.inherited(owner, name)
        holding = next((base for base in kind.__mro__ if name in vars(base)), object)
        if isinstance(found, FunctionType) and not (has_own_attributes(holding) or isinstance(owner, Tensor)):
            guard_inherited(kind, name, found)
    for operation in journal.operations:
        method, kind = _ASSIGNING.get(operation.apply), type(operation.target)
        if method is not None and kind.__flags__ & _HEAP_TYPE and kind is not Path and not issubclass(kind, Tensor):
            guard_inherited(kind, method, getattr(kind, method))


def _may_change_class(owner: Any) -> bool:
    """Whether `__class__` can be assigned: not where the class is one of Python's own, but for modules."""
    return bool(type(owner).__flags__ & _HEAP_TYPE) or isinstance(owner, ModuleType)


def guard_library(tracer: Tracer, journal: Journal, changing: Set[tuple[int, Any]]) -> None:
    """Guard what code read from modules of libraries, and modules that it imported: programs may replace them."""
    tables = _Tables(tracer)
    for (_, name), owner in journal.objects_read.items():
        if not isinstance(owner, ModuleType) or has_own_attributes(owner) or name not in vars(owner):
            continue
        value = vars(owner)[name]
        if (id(owner), name) in changing or isinstance(value, ModuleType) or _is_fixed(owner, value):
            continue
        tables.guard_item(vars(owner), name, value)
        if isinstance(value, (list, dict, set)) and value is not sys.modules:
            journal.checks.append(Unchanged(value, changing))
    for name, module in journal.imported.items():
        tables.guard_item(sys.modules, name, module)


def guard_contexts(tracer: Tracer, journal: Journal) -> None:
    """Guard how contexts of the library were made that code from outside has entered."""
    for context, settings in journal.entered.values():
        if journal.is_made(context):
            continue
        holder = tracer.new_leaf()
        tracer.load(holder, Op.LOAD_OBJECT, tracer.object(context))
        for name, value in settings.items():
            if vars(context).get(name) is value:  # nothing that entering it has left there
                leaf = tracer.new_leaf()
                tracer.load(leaf, Op.LOAD_ATTRIBUTE, holder, tracer.object(name))
                tracer.guard_object(leaf, Op.IS, value)


def guard_builtins(tracer: Tracer, journal: Journal) -> None:
    """Guard names that globals did not have when code read them, the builtins that it found instead, and special
    methods that classes did not have."""
    tables = _Tables(tracer)
    for name, names, builtins in journal.not_global.values():
        tables.guard_lack(names, name)
        if name in builtins:
            tables.guard_item(builtins, name, builtins[name])
        else:
            tables.guard_lack(builtins, name)
    for (_, name), kind in journal.lacked.items():
        if journal.is_outside(kind):
            tables.guard_lack(_names(kind), name)


def guard_records(tracer: Tracer, journal: Journal, structure: Structure) -> None:
    """Guard that the classes of objects that were taken apart let them answer for themselves."""
    tables, changing = _Tables(tracer), journal.changing()
    for kind, names in dict.fromkeys(fields_in(structure)):
        for name in ("__getattribute__", *names):
            for base in kind.__mro__:
                if not base.__flags__ & _HEAP_TYPE or (id(base), name) in changing:
                    continue
                if name in vars(base):
                    tables.guard_item(_names(base), name, vars(base)[name])
                    break
                tables.guard_lack(_names(base), name)


def _names(kind: type) -> dict[str, Any]:
    """The dictionary behind what `vars` shows of a class."""
    [names] = gc.get_referents(vars(kind))
    return names  # type: ignore[no-any-return]


def _is_fixed(owner: ModuleType, value: Any) -> bool:
    """Whether a module of ours holds a constant, such as a dtype, rather than a setting or a function."""
    return owner.__name__.partition(".")[0] == "eagerjit" and not (is_plain(value) or callable(value))


class _Tables:
    """Dictionaries of names, each of them one leaf."""

    def __init__(self, tracer: Tracer):
        self.tracer = tracer
        self.leaves: dict[int, int] = {}

    def _leaf(self, table: dict[str, Any]) -> int:
        if id(table) not in self.leaves:
            self.leaves[id(table)] = self.tracer.new_leaf()
            self.tracer.load(self.leaves[id(table)], Op.LOAD_OBJECT, self.tracer.object(table))
        return self.leaves[id(table)]

    def guard_item(self, table: dict[str, Any], name: str, value: Any) -> None:
        leaf, holder = self.tracer.new_leaf(), self._leaf(table)
        self.tracer.load(leaf, Op.LOAD_ITEM, holder, self.tracer.object(name))
        self.tracer.guard_object(leaf, Op.EQUAL if type(value) in (int, float, str) else Op.IS, value)

    def guard_lack(self, table: dict[str, Any], name: str) -> None:
        self.tracer.guard_object(self._leaf(table), Op.LACKS, name)
