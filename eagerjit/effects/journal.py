"""What a traced function does to Python objects: done while it is traced, undone afterwards, and repeated by calls."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from eagerjit.compiler.ir import Node
from eagerjit.effects.clocks import Readings
from eagerjit.effects.context_variables import ContextVariables
from eagerjit.effects.lru_cached_calls import Memoized
from eagerjit.effects.presence import lies_there, tie_presence
from eagerjit.effects.unseen import is_read_unseen
from eagerjit.guards.comparing import is_pythons
from eagerjit.guards.dictionary_items import Keyed
from eagerjit.guards.reads import Reads
from eagerjit.guards.replaced_containers import Opened
from eagerjit.guards.sliding_lists import Windows
from eagerjit.recording.arrays import TracedNumber
from eagerjit.recording.initial_state import Beginning
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.recording.snapshots import Snapshots
from eagerjit.recording.traced_texts import plain_key
from eagerjit.runtime.own_attributes import dictionary_of
from eagerjit.runtime.program import Op
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.ages import Ages
from eagerjit.watching.containers import (
    CONTAINERS,
    as_taken,
    behind,
    call_method,
    containers_in,
    copy_of,
    is_memory,
    restore_contents,
    same_contents,
)
from eagerjit.watching.observation import TraceBreak, user_line
from eagerjit.watching.slots import ABSENT, DELETE, LOOK, STORE, Path, Slot, classes_of, found_at, table_of

if TYPE_CHECKING:
    from eagerjit.recording.trace import Tracer
    from eagerjit.recording.varying import Varying

@record
class Operation:
    """One change: `apply(target, *arguments)`. The target is an object from outside, or the Path of an argument."""

    apply: Callable[..., Any]
    target: Any
    arguments: tuple[Any, ...]
    source: str


class Journal(Ages, Reads):
    """The changes of one recording."""

    def __init__(self, tracer: Tracer):
        Ages.__init__(self)
        Reads.__init__(self)
        self.tracer = tracer
        self.operations: list[Operation] = []
        self.problem: TraceBreak | None = None
        self.inputs: set[tuple[int, Any]] = set()
        self.found: list[tuple[int, Tensor]] = []
        self.arrays: dict[tuple[int, Any], Any] = {}
        self.array_inputs: set[int] = set()
        self.written: dict[tuple[int, Any], str] = {}
        self.unseen: dict[tuple[int, Any], Slot] = {}  # what the library may have read before
        self.clocks = Readings()
        self.world: Any = None  # the questions that the function asks
        self.variables = ContextVariables(self)
        self.memoized = Memoized(self)
        self.keyed = Keyed(self)
        self.windows = Windows(self)
        self.opened = Opened(self)
        self.switched: dict[int, tuple[Any, bool, str]] = {}
        self.probed: list[tuple[Any, Any, str]] = []
        self.checks: list[Callable[[], bool]] = []
        self.owners: list[Any] = []
        self.objects_read: dict[tuple[int, str], Any] = {}
        self.uses: dict[tuple[int, str], dict[tuple[tuple[str, ...], str], None]] = {}  # of what is in `objects_read`
        self.classes_read: dict[tuple[int, str], Any] = {}
        self.kinds_read: dict[int, Any] = {}
        self.cells_read: dict[int, Any] = {}
        self.called: dict[int, FunctionType] = {}
        self.partials: dict[int, Any] = {}
        self.entered: dict[int, tuple[Any, dict[str, Any]]] = {}  # contexts of the library, and how they were made
        self.imported: dict[str, ModuleType] = {}
        self.not_global: dict[tuple[int, str], tuple[str, dict[str, Any], dict[str, Any]]] = {}
        self.inherited: dict[tuple[int, str], Any] = {}
        self.lacked: dict[tuple[int, str], type] = {}
        self.handed_over: dict[int, Any] = {}
        self.compared: set[int] = set()  # containers that native guards compare with copies
        self.beginning = Beginning()
        self.tells_apart = False  # whether it asks which of the containers of its arguments are the same
        self.handled = sys.exc_info()[1]  # by who has made the call
        self.catches = False  # whether an error may end inside of the function
        self._undo: list[tuple[Any, Callable[[], None]]] = []
        self._saved: set[tuple[int, Any]] = set()
        self.snapshots = Snapshots(tracer, self._alive)
        self.arrays_written: list[np.ndarray] = []

    def begin(self, varying: Varying) -> None:
        """Begin with what is known of the recordings before."""
        self.varying = varying
        self.windows.open(varying)
        self.opened.begin(varying)

    # -- reads --------------------------------------------------------------------------------------------------------

    def tell_apart(self, operands: Sequence[Any], source: str) -> None:
        """Code asks whether one object is another."""
        self.memoized.compare(operands, source)
        self.tell_tuples_apart(operands, source)
        self.tells_apart |= all(self.is_given(x) or isinstance(x, CONTAINERS) for x in operands)

    def note_module(self, name: str) -> None:
        """Code imports a module that is there, or asks whether it is."""
        if name in sys.modules:
            self.imported[name] = sys.modules[name]
        else:
            self.lacking(sys.modules, name)

    def note_table(self, owner: Any) -> None:
        """The attributes of an object are as old as the object, though their dictionary may be made only now."""
        table = dictionary_of(owner)
        if isinstance(table, dict) and self.is_outside(owner):
            self._outside.add(id(table))
            self._alive.append(table)
            self.tables[id(owner)] = id(table)

    def _refuse_table(self, holder: Any, source: str) -> None:
        if id(holder) in self.tables.values():
            self.refuse("it changes attributes through __dict__", source)

    def look_behind(self, value: Any) -> None:
        """Code of the standard library is about to read what an object wraps."""
        if isinstance(value, (WeakValueDictionary, WeakSet)) and self.is_outside(value):
            self.refuse("it reads weak references, whose objects it would keep alive", user_line())
        if is_memory(value) and self.is_outside(value):
            self.refuse(f"it reads a {type(value).__name__}, whose contents may change", user_line())
        if type(value).__module__ == "decimal":
            from decimal import getcontext

            context = repr(getcontext())
            self.checks.append(lambda: repr(getcontext()) == context)
        self.handed_over.update((id(inner), inner) for inner in behind(value))
        if is_pythons(value):
            self.handed_over[id(value)] = value

    def lacking(self, container: dict[Any, Any], key: Any) -> None:
        """Code has found that a dictionary does not have a key, which only this tells of."""
        if self.is_outside(container):
            self.checks.append(lambda: key not in container)

    def input(self, holder: Any, key: Any, value: Any, kind: str) -> Any:
        """A number, tensor or container that code reads where it also writes, made an input of the compiled call."""
        tracer, slot = self.tracer, (id(holder), key)
        changed = slot in self.written or (id(holder), None) in self.written  # by a method: items may be other ones
        changed = changed or (kind == "attribute" and any((id(c), key) in self.written for c in classes_of(holder)))
        if changed or slot in self.inputs or not self.is_outside(holder):
            return value
        if self.was_read(holder, key) or type(value) in (SymbolicInt, TracedFloat, TracedNumber):
            return value  # which calls have to find again, since code has acted on it; or which is an input already
        number = type(value) in (float, np.float64) or (type(value) is int and -(2**63) <= value < 2**63)
        if not number and not isinstance(value, Tensor):
            return self.opened.open(holder, key, kind, value)
        if not number and (id(value) in tracer.leaf_of or type(value._data) is Node or tracer.shares(value)):
            return value
        place = found_at(holder, key, kind, value, self.checks)
        leaf = self.load(place.holder, place.key, place.kind)
        self.inputs.add(slot)
        tracer.slots[leaf], tracer.begun[leaf] = place, value
        if not number:
            tracer.tensor_leaf(value, leaf, symbolic=True)
            self.found.append((leaf, value))
            return value
        made = tracer.number_leaf(value, leaf)
        self.save(holder, key, kind)
        STORE[kind](holder, key, made)
        return made

    def load(self, holder: Any, key: Any, kind: str) -> int:
        """A leaf that the compiled function finds there."""
        leaf = (tracer := self.tracer).new_leaf()
        if kind == "cell":
            tracer.load(leaf, Op.LOAD_CELL, tracer.object(holder))
            return leaf
        owner, leaf = leaf, tracer.new_leaf()
        if isinstance(holder, deque):
            tracer.load(owner, Op.LOAD_OBJECT, tracer.object(self.windows.listed(holder)))
            owner, listed = tracer.new_leaf(), owner
            tracer.load(owner, Op.LOAD_ATTRIBUTE, listed, tracer.object("items"))
        else:
            tracer.load(owner, Op.LOAD_OBJECT, tracer.object(holder))
        tracer.load(leaf, Op.LOAD_ATTRIBUTE if kind == "attribute" else Op.LOAD_ITEM, owner, tracer.object(key))
        return leaf

    # -- writes -------------------------------------------------------------------------------------------------------

    def assign(self, holder: Any, key: Any, value: Any, kind: str, source: str, made: bool = False) -> None:
        """Code is about to assign (or with ABSENT to delete) an attribute, an item or a variable, or has `made` it."""
        self._refuse_table(holder, source)
        self.windows.touch(holder)
        given, key = key, plain_key(key)
        if tie_presence(self, holder, key, kind, value is ABSENT):
            return
        if not made and lies_there(self, holder, key, value, kind):
            return
        self.save(holder, key, kind, value is ABSENT)
        if value is not ABSENT and value is self.arrays.get((id(holder), key), ABSENT):
            return  # what `array += 1` assigns is there already
        slot = id(holder), key
        if slot not in self.written and (self.is_read_whole(holder) or is_read_unseen(self, holder, key, kind)):
            self.read_first.add(slot)
        self.written.setdefault(slot, source)
        if value is ABSENT:
            self.operations.append(Operation(DELETE[kind], holder, (given,), source))
        else:
            self.operations.append(Operation(STORE[kind], holder, (given, value), source))

    def method(self, container: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], source: str) -> None:
        """Code is about to call a method that changes a container."""
        if self.keyed.assigns(container, name, args, kwargs, source):
            return
        self._refuse_table(container, source)
        self.windows.touch(container, name)
        self.save_contents(container)
        self.written.setdefault((id(container), None), source)
        arguments = name, as_taken(name, args), kwargs or self.own({})
        self.operations.append(Operation(call_method, container, arguments, source))

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], source: str) -> None:
        """A call to be made whenever the compiled function is called."""
        self.operations.append(Operation(_call, function, (args, kwargs or self.own({})), source))

    def switch(self, modules: list[Any], source: str) -> None:
        """Modules are about to be set to training, or to evaluation: done by calls that leave them otherwise."""
        for module in modules:
            self.save(module, "training", "attribute")
            self.switched.setdefault(id(module), (module, module.training, source))

    def refuse(self, reason: str, source: str, kind: type[TraceBreak] = TraceBreak) -> TraceBreak:
        """End the recording unsuccessfully, now or (where this cannot be) at its end."""
        if self.problem is None:
            self.problem = kind(reason, source)
        return self.problem

    def save_contents(self, container: Any) -> None:
        """Remember what a container holds, to put it back."""
        slot = id(container), ABSENT
        if slot in self._saved:
            return
        self._saved.add(slot)
        self._alive.append(container)
        self._decide(container)
        before = self.beginning.contents_of(container)
        self.beginning.containers.append((container, before))
        self._undo.append((container, lambda: restore_contents(container, before)))

    def probe(self, container: Any, source: str) -> None:
        """Something unknown gets a container: it may not change it, nor a copy of one that the caller gave."""
        self.windows.touch(container)
        self.keyed.settle(container)
        if not gc.is_tracked(container) or not self.is_made(container):
            self.save_contents(container)
            self.probed.append((container, copy_of(container), source))

    def keep(self, holder: Any, key: Any, value: Any, kind: str) -> None:
        """Remember what a part of a container holds, which is put back as a whole."""
        self._saved.add((id(holder), key))
        self.beginning.slots.append((holder, key, kind, value))

    def save(self, holder: Any, key: Any, kind: str, deleting: bool = False) -> None:
        """Remember what an attribute, an item or a variable holds, to put it back."""
        key = plain_key(key)
        slot = id(holder), key
        if isinstance(holder, list) and (id(holder), ABSENT) in self._saved:
            return  # a list whose items were saved is put back as a whole: it may be shorter when it is
        names = table_of(holder, key) if deleting else None
        known = slot in self._saved
        if known and names is None:
            return
        self._saved.add(slot)
        self._alive.append(holder)
        self._decide(holder)
        value = LOOK[kind](holder, key)
        if not known:
            self.beginning.slots.append((holder, key, kind, value))
        if names is not None:  # what is put back must also be in its place
            before = copy_of(names)
            self._undo.append((holder, lambda: restore_contents(names, before)))
            return
        store, delete, look = STORE[kind], DELETE[kind], LOOK[kind]

        def undo() -> None:
            if value is not ABSENT:
                store(holder, key, value)
            elif look(holder, key) is not ABSENT:
                delete(holder, key)

        self._undo.append((holder, undo))

    # -- the end ------------------------------------------------------------------------------------------------------

    def undo(self) -> None:
        """Put everything back as it was before the recording; what the recording made keeps what it was given."""
        self.variables.undo()
        while self._undo:
            holder, put_back = self._undo[-1]
            if not self._ended or self.is_outside(holder):
                put_back()
            del self._undo[-1]  # an interrupt before this lets it be put back once more

    def finished(self) -> None:
        """Look at what the function did: forget what concerns fresh objects; raises TraceBreak for what is refused."""
        self.variables.finished()
        self.windows.finished()
        self.memoized.finished()
        for container, before, source in self.probed:
            if not self.is_made(container) and not same_contents(container, before):
                self.arrays_written += [container] if isinstance(container, np.ndarray) else []
                self.refuse("it changes a container in a way that is not observed", source)
        if self.problem is not None:
            raise self.problem
        self._look_again()
        self._ended = True
        self.beginning.forget(lambda holder: not self.is_outside(holder))
        for module, before, source in self.switched.values():
            if module.training is not before or (id(module), "training") in self.written:
                self.operations.append(Operation(STORE["attribute"], module, ("training", module.training), source))
        if self.operations:
            kept, fresh = [], set()
            for operation in self.operations:
                path = self.paths.get(id(operation.target))
                if path is not None:
                    operation.target = path
                elif operation.apply is not _call and self.is_made(operation.target):
                    fresh.add(id(operation.target))
                    continue
                kept.append(operation)
            self.operations = kept
            self.written = {slot: source for slot, source in self.written.items() if slot[0] not in fresh}
        self.world.finished()

    def is_observed(self, slot: tuple[int, Any], guards: list[Any]) -> bool:
        """Whether compiled calls depend on what a slot held before the function changed it."""
        holder, key = slot
        if key is not None and slot not in self.inputs and slot in self.read_first and slot not in self.keyed.absent:
            return True
        seen = holder in self.compared or any(holder == id(getattr(g, "value", None)) for g in guards)
        return seen and slot not in self.inputs

    def keep_apart(self, tables: Any) -> dict[int, Any] | None:
        """The containers that the recording reaches, by their ids: neither arguments nor what calls find may be these.

        None where it does not matter which ones the arguments are: it changes none, and has not asked. `tables` are
        those of globals.
        """
        records = self.tracer.records
        targets = [o.target for o in self.operations]
        changes = any(type(x) is Path or type(x) in records or containers_in(x) for x in targets)
        if not self.opened.guard.forms and not (self.paths and (changes or self.tells_apart)):
            return None
        tables = set(map(id, tables))
        touched = {holder for holder, _ in (*self.read_first, *self.written)} | self.handed_over.keys()
        known = [x for x in self._alive if isinstance(x, (list, dict)) and id(x) in touched]
        known += [x for x in (*self._alive, *self.objects_read.values(), *self.owners) if type(x) in records]
        known = [x for x in (*known, *self.handed_over.values()) if self.is_outside(x)]
        known += [y for x in self.tracer.objects if id(x) not in tables for y in containers_in(x, self.inputs)]
        others = {id(x): x for x in known if not self.is_given(x) and id(x) not in tables}
        self.opened.keep_apart(others.keys() | {id(x) for x in self.tracer.objects if id(x) not in tables})
        return others

    def changing(self) -> set[tuple[int, Any]]:
        """The slots that compiled calls need not find as they were: inputs, and those written before they are read."""
        found = self.inputs | {slot for slot in self.written if slot not in self.read_first}
        return found | {(self.tables[owner], name) for owner, name in found if owner in self.tables}


def _call(function: Any, args: Any, kwargs: Any) -> None:
    function(*args, **kwargs)
