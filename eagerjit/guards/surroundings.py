"""What a traced function read from its surroundings: found in the code that ran.

While a function is traced, every instruction of the user's code that runs is noted. They say which globals, closure
cells and attributes were read; each becomes a guard of the compiled call.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from types import CodeType, FunctionType, MethodType
from typing import Any

from eagerjit.effects.journal import Journal
from eagerjit.guards.comparing import (
    MUTABLE,
    PLAIN,
    Unchanged,
    holds_containers,
    is_flat,
    needs_guard,
    unchanged,
)
from eagerjit.guards.definitions import guard_definitions
from eagerjit.guards.lookup_guards import guard_builtins, guard_contexts, guard_kinds, guard_library, guard_methods
from eagerjit.guards.value_guards import guard_method, guard_value
from eagerjit.recording.trace import Tracer
from eagerjit.runtime.program import Op
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching import lookup
from eagerjit.watching.bytecode import BLIND, Access, accesses
from eagerjit.watching.containers import CHANGING
from eagerjit.watching.observation import is_internal
from eagerjit.watching.observer import Observer

_VIEWS = frozenset({"T", "mT", "H", "mH", "real", "imag"})
"""Attributes of tensors that every reading makes anew: reading them here would record one more operation."""

_MISSING = object()


def unwrap(function: Any) -> tuple[FunctionType | None, Any]:
    """The Python function behind a callable, and the object it is bound to."""
    owner = None
    while True:
        if isinstance(function, MethodType):
            owner, function = function.__self__, function.__func__
        elif isinstance(function, FunctionType):
            return function, owner
        elif isinstance(function, functools.partial):
            function = function.func
        elif isinstance(getattr(type(function), "__call__", None), FunctionType):  # noqa: B004
            owner, function = function, type(function).__call__
        else:
            return None, owner


@dataclass
class Surroundings:
    """Everything that the observed code of a function read, that function, and those that it found or called."""

    functions: dict[int, FunctionType] = field(default_factory=dict)
    owners: list[Any] = field(default_factory=list)
    reads: list[tuple[str, Any, Any, tuple[str, ...], str]] = field(default_factory=list)
    """("global", dictionary, name, attributes, use), ("cell", cell, None, ...) or ("object", object, None, ...)."""

    def values(self, changing: Set[tuple[int, Any]]) -> list[Any]:
        """Every object that was read, along all chains of attributes as far as none of `changing` holds it."""
        out: list[Any] = []
        for kind, container, name, path, _ in self.reads:
            out += _along(container, _KEYS.get(kind, name), _BASES[kind](container, name), path, changing)
        return out


def _along(holder: Any, key: Any, value: Any, path: tuple[str, ...], changing: Set[tuple[int, Any]]) -> Iterator[Any]:
    """The objects along a chain of attributes, from what a holder holds to what is missing or in `changing`."""
    for attribute in (*path, None):
        if (id(holder), key) in changing or value is _MISSING:
            return
        yield value
        holder, key = value, attribute
        value = _MISSING if attribute is None else _value(value, (attribute,))


def _value(base: Any, attributes: tuple[str, ...]) -> Any:
    for name in attributes:
        if lookup.is_computed(base, name) or lookup.is_cached_later(base, name):
            return _MISSING  # the code that computes it is watched itself, and may keep what it gives
        if name in _VIEWS and isinstance(base, Tensor):
            return _MISSING
        try:
            base = getattr(base, name)
        except Exception:
            return _MISSING
    return base


def _root(access: Access, globals_: dict[str, Any], cells: dict[str, Any]) -> Any:
    if access.kind == "global":
        if access.name in globals_:
            return globals_[access.name]
        return getattr(builtins, access.name, _MISSING)
    if access.kind == "free" and access.name in cells:
        try:
            return cells[access.name].cell_contents
        except ValueError:
            return _MISSING
    return _MISSING


class _Inspection:
    """Finds what code read. `known` are the objects that were there before the call."""

    def __init__(self, observed: Observer, outside: Sequence[Any]):
        self.observed, self.out = observed, Surroundings()
        self.changing = observed.journal.changing()
        self.known = {id(x): x for x in outside}
        self.pending: list[FunctionType] = []
        self.scanned: set[CodeType] = set()
        self.followed: set[tuple[int, tuple[str, ...], str]] = set()
        self.wrappers: set[int] = set()

    def run(self, function: FunctionType | None) -> Surroundings:
        """Everything about a function and what it reaches."""
        self.pending += [] if function is None else [function]
        self._drain()
        self.pending += self.observed.journal.called.values()
        self._drain()
        self._follow_locals()
        for (_, name), kind in self.observed.journal.classes_read.items():
            if self.observed.journal.is_made(kind):
                continue
            held = lookup.own(kind, name)
            found = getattr(held, "__func__", held)
            if isinstance(found, FunctionType) and found.__code__ in self.observed.ran:
                self.pending.append(found)
        self._drain()
        for code in self.observed.ran:
            if code not in self.scanned:
                self._scan(code)
        self._follow_locals()
        return self.out

    def _drain(self) -> None:
        while self.pending:
            current = self.pending.pop()
            code = current.__code__
            if is_internal(code) or self.observed.journal.is_made(current):
                self.pending += self._held_by(current) if is_internal(code) else ()
                continue
            self.out.functions[id(current)] = current
            if code in self.scanned:
                continue
            if code in self.observed.ran:
                closure = dict(zip(code.co_freevars, current.__closure__ or (), strict=False))
                if closure and not self.observed.closures.get(code):
                    self.observed.closures[code] = [closure]
                self._scan(code)

    def _held_by(self, function: FunctionType) -> list[FunctionType]:
        """The functions that one of the library's calls, as those of `vmap` and `grad` do."""
        cells = () if id(function) in self.wrappers else function.__closure__ or ()
        self.wrappers.add(id(function))
        return [f for cell in cells if (f := unwrap(getattr(cell, "cell_contents", None))[0]) is not None]

    def _scan(self, code: CodeType) -> None:
        """Note what was read, for every set of cells that the code ran with."""
        self.scanned.add(code)
        globals_ = self.observed.globals[code]
        for cells in self.observed.closures.get(code, [{}]):
            for access in accesses(code, self.observed.ran[code]):
                root = _root(access, globals_, cells)
                made_inside = access.kind == "free" and self.observed.journal.is_made(cells.get(access.name))
                if root is _MISSING or access.name == "__class__" or made_inside:
                    continue
                holder, key = (cells[access.name], "contents") if access.kind == "free" else (globals_, access.name)
                if access.kind == "global" and access.name in globals_:
                    self.out.reads.append(("global", globals_, access.name, access.attributes, access.use))
                elif access.kind == "free":
                    self.out.reads.append(("cell", holder, None, access.attributes, access.use))
                self._visit(_along(holder, key, root, access.attributes, self.changing))

    def _visit(self, values: Iterator[Any]) -> None:
        """Note every object along a chain of attributes."""
        for value in values:
            self.known[id(value)] = value
            found, bound = unwrap(value)
            if found is not None:
                self.pending.append(found)
            if bound is not None:
                self.out.owners.append(bound)

    def _follow_locals(self) -> None:
        """Attributes that were read, through local variables, from objects of outside."""
        progress = True
        while progress:
            progress = False
            for code in list(self.scanned):
                for access in accesses(code, self.observed.ran[code]):
                    for value in self._local_values(code, access):
                        key = id(value), access.attributes, access.use
                        if key in self.followed or not (access.attributes and needs_guard(value, access.attributes[0])):
                            continue
                        self.followed.add(key)
                        self.out.reads.append(("object", value, None, access.attributes, access.use))
                        self._visit(_along(None, None, value, access.attributes, self.changing))
                        progress = True
            self._drain()

    def _local_values(self, code: CodeType, access: Access) -> list[Any]:
        if access.kind == "global":
            return []
        return [v for k, v in self.observed.locals.get((code, access.name), {}).items() if k in self.known]


def inspect_code(function: FunctionType | None, observed: Observer, outside: Sequence[Any] = ()) -> Surroundings:
    """What the instructions of a function that ran read, and those of what it called.

    `outside` are objects that the call got: attributes that are read of them count as surroundings.
    """
    return _Inspection(observed, outside).run(function)


def add_guards(
    tracer: Tracer, surroundings: Surroundings, journal: Journal, given: Sequence[Any] = ()
) -> list[Callable[[], bool]]:
    """Guards for what was read: native ones in the tracer; those that need Python are returned.

    Containers in what is `given` away, as a result or in an object, are known by identity, as those are that it
    changes or tells apart.
    """
    python: list[Callable[[], bool]] = []
    changing = journal.changing()
    leaves: dict[tuple[int, Any, tuple[str, ...]], int] = {}
    watched: set[tuple[int, bool]] = set()
    covered: set[tuple[int, Any]] = set()
    python += guard_definitions(tracer, journal, surroundings.functions.values())
    for kind, container, name, attributes, use in chain(surroundings.reads, _others(journal, covered)):
        base = _BASES[kind](container, name)
        slot = (container, name, "item") if kind == "global" else (container, "contents", "cell")
        changes = kind != "object" and (id(container), slot[1]) in changing
        if base is _MISSING or changes or not journal.is_outside(container):
            continue
        if kind == "object" and id(base) in journal.array_inputs:
            continue  # what a variable of an enclosing function holds, which is an input
        covered.add((id(container), None))
        parent: int | None = None
        for depth in range(len(attributes) + 1):
            value = _value(base, attributes[:depth])
            if value is _MISSING:
                break
            if depth:
                covered.add((id(_value(base, attributes[: depth - 1])), attributes[depth - 1]))
            if _is_new(value, base, attributes[:depth]):
                if isinstance(value, MethodType) and isinstance(value.__self__, type) and parent is not None:
                    method = _load(tracer, kind, container, name, parent, attributes[:depth])
                    guard_method(tracer, method, value, ("__func__",))
                break
            if depth and (id(_value(base, attributes[: depth - 1])), attributes[depth - 1]) in changing:
                break
            key = (id(container), name, attributes[:depth])
            if key not in leaves:
                leaves[key] = _load(tracer, kind, container, name, parent, attributes[:depth])
                guard_value(tracer, leaves[key], value)
                if depth:
                    holder = _value(base, attributes[: depth - 1])
                    journal.beginning.note(holder, attributes[depth - 1], "attribute", value)
                elif kind != "object":
                    journal.beginning.note(slot[0], slot[1], slot[2], value)
            rest = attributes[depth:]
            blind = rest[0] in BLIND if rest else _changes_blindly(value, use)
            blind = blind or any(k.covers(value, rest, use) for k in (journal.keyed, journal.windows.histories))
            adds = use == "add" and depth == len(attributes)
            may_change = isinstance(value, MUTABLE) or holds_containers(value)
            if may_change and not blind and (id(value), adds) not in watched:
                watched.add((id(value), adds))
                journal.beginning.note_contents(value)
                if not adds and is_flat(value, changing):
                    tracer.guard_object(leaves[key], Op.EQUAL, type(value)(value))
                    journal.compared.add(id(value))
                    journal.keyed.settle(value)
                else:
                    python.append(Unchanged(value, changing, within=not adds))
            parent = leaves[key]
            if depth < len(attributes) and not needs_guard(value, attributes[depth]):
                break
    guard_library(tracer, journal, changing)
    guard_builtins(tracer, journal)
    guard_kinds(tracer, journal)
    guard_methods(tracer, journal)
    guard_contexts(tracer, journal)
    changed = frozenset(id(operation.target) for operation in journal.operations)
    changed |= {id(value) for value in given if isinstance(value, MUTABLE)} | journal.told_apart.keys()
    compared = [guard for guard in (*python, *journal.checks) if isinstance(guard, Unchanged)]
    for guard in compared if changed else ():
        guard.mark(changed)
    journal.keyed.settle_compared([guard.value for guard in compared], list(journal.handed_over.values()))
    return [*python, *journal.checks, *_handed_over(journal, changed)]


def guard_modules(tracer: Tracer, journal: Journal, owners: Sequence[Any]) -> None:
    """Guard what the classes of Modules do when called: unlike what Modules hold, that changes unnoticed."""
    parts = list(chain.from_iterable(o.modules() for o in owners if hasattr(type(o), "modules")))
    for part in parts:
        journal.beginning.note_module(part)
    kinds: list[Any] = list(dict.fromkeys(map(type, parts)))
    for kind, name in ((kind, name) for name in ("forward", "__call__") for kind in kinds):
        holder, leaf = tracer.new_leaf(), tracer.new_leaf()
        tracer.load(holder, Op.LOAD_OBJECT, tracer.object(kind))
        tracer.load(leaf, Op.LOAD_ATTRIBUTE, holder, tracer.object(name))
        tracer.guard_object(leaf, Op.IS, getattr(kind, name))


def _others(journal: Journal, covered: set[tuple[int, Any]]) -> Iterator[tuple[str, Any, Any, tuple[str, ...], str]]:
    """Reads that no chain of names tells of: through results of calls and items, in functions that were arguments."""
    for cell in journal.cells_read.values():
        if (id(cell), None) not in covered and journal.is_outside(cell):
            yield "cell", cell, None, (), "read"
    journal.know_together(journal.objects_read.values())
    # What a class holds is read through its instance, where that is noted.
    found = [(*r, journal.uses.get(r[0], [((), "read")])) for r in journal.objects_read.items()]
    for (key, name), owner, uses in found + [(*r, [((), "store")]) for r in journal.classes_read.items()]:
        if (key, name) in covered or not needs_guard(owner, name) or not journal.is_outside(owner):
            continue
        if lookup.is_computed(owner, name):
            before = lookup.own(owner, name), lookup.inherited(owner, name)
            journal.checks.append(functools.partial(_finds, owner, name, before))
            if isinstance(before[0], MUTABLE) or holds_containers(before[0]):  # which a `__getattribute__` may give
                yield from (("object", before[0], None, rest, use) for rest, use in uses)
        elif _value(owner, (name,)) is _MISSING:
            journal.checks.append(functools.partial(_lacks, owner, name))
        else:
            yield from (("object", owner, None, (name, *rest), use) for rest, use in uses)


def _changes_blindly(value: Any, use: str) -> bool:
    """Whether code at the end of a chain of names changes a container whatever it holds."""
    by_operator = (use == "augment" and isinstance(value, dict)) or (use == "change" and type(value) in CHANGING)
    return use == "store" or by_operator


def _lacks(owner: Any, name: str) -> bool:
    return not hasattr(owner, name)


def _finds(owner: Any, name: str, before: tuple[Any, Any]) -> bool:
    return lookup.own(owner, name) is before[0] and lookup.inherited(owner, name) is before[1]


def _handed_over(journal: Journal, changed: frozenset[int]) -> Iterator[Callable[[], bool]]:
    """Guards for objects that libraries got, which may read anything of them."""
    for value in journal.handed_over.values():
        if journal.is_outside(value):
            slots = journal.changing() if isinstance(value, dict) and journal.are_keys_read(value) else ()
            yield unchanged(value, changed, {key for holder, key in slots if holder == id(value)})


def _is_new(value: Any, base: Any, attributes: tuple[str, ...]) -> bool:
    """Whether reading an attribute makes a new object each time, as bound methods do, whose code was observed."""
    return not isinstance(value, PLAIN) and _value(base, attributes) is not value


def _global(container: dict[str, Any], name: str) -> Any:
    return container.get(name, _MISSING)


def _contents(cell: Any, name: None) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _itself(value: Any, name: None) -> Any:
    return value


_KEYS = {"cell": "contents"}
_BASES: dict[str, Callable[[Any, Any], Any]] = {"global": _global, "cell": _contents, "object": _itself}


def _load(tracer: Tracer, kind: str, container: Any, name: Any, parent: int | None, attributes: tuple[str, ...]) -> int:
    leaf = tracer.new_leaf()
    if attributes:
        assert parent is not None
        tracer.load(leaf, Op.LOAD_ATTRIBUTE, parent, tracer.object(attributes[-1]))
    elif kind == "global":
        holder = tracer.new_leaf()
        tracer.load(holder, Op.LOAD_OBJECT, tracer.object(container))
        tracer.load(leaf, Op.LOAD_ITEM, holder, tracer.object(name))
    elif kind == "object":
        tracer.load(leaf, Op.LOAD_OBJECT, tracer.object(container))
    else:
        tracer.load(leaf, Op.LOAD_CELL, tracer.object(container))
    return leaf
