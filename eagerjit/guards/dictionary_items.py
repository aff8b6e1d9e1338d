"""Dictionaries of which code reads items by their keys: compiled calls look at these items, not at all there are."""

from __future__ import annotations

import array
from collections import Counter, OrderedDict, defaultdict, deque
from enum import Enum
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.compiler.ir import Node
from eagerjit.guards.comparing import attributes_of, has_attributes, holds_containers
from eagerjit.guards.epochs import States, Table
from eagerjit.guards.value_guards import guard_value
from eagerjit.recording.traced_texts import at_present, tied
from eagerjit.runtime.program import Op
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.containers import items_of
from eagerjit.watching.slots import ABSENT

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal

_KINDS = (dict, OrderedDict, defaultdict, Counter, Table, States)
_MADE_WHEN_READ = (defaultdict, Counter, States)
_KEYS = (str, int, bool, type(None), bytes)
_HASHES_OF_MEMBERS = (Enum.__hash__, str.__hash__, int.__hash__)
_COMPARISONS_OF_MEMBERS = (Enum.__eq__, str.__eq__, int.__eq__)
_MOST_LOOKED_AT = 10_000
_CHANGEABLE = (list, dict, set, deque, bytearray, array.array, np.ndarray)


class Keyed:
    """The items that one recording reads."""

    def __init__(self, journal: Journal):
        self.journal = journal
        self.absent: set[tuple[int, Any]] = set()
        self._read: set[tuple[int, Any]] = set()
        self._known: dict[int, Any] = {}
        self._whole: set[int] = set()  # of which more was read than guards of items tell
        self._within: dict[int, list[Any]] = {}  # dictionaries in others, of which items were read at once
        self._numbered: list[tuple[Any, Any]] = []

    def covers(self, value: Any, attributes: tuple[str, ...], use: str) -> bool:
        """Whether code at the end of a chain of names reads nothing of a dictionary but items that have guards."""
        if attributes == ("__setitem__",) and isinstance(value, dict):
            return True
        direct = (not attributes and use in ("item", "add")) or (
            use == "got" and attributes in (("get",), ("setdefault",))
        )
        return direct and id(value) in self._known and not self._is_read_whole(value)

    def item(self, container: Any, key: Any, use: str) -> bool:
        """Code is about to read an item by its key; whether a guard tells of that.

        What `+=` and the like replace becomes an input as it is read, unless functions find it, which are watched in
        between: then calls compare all that the dictionary holds.
        """
        if use != "replaced":
            return self.read(container, key, use, makes=True)
        if not self._is_key(key) and _is_found_by_code(key):
            self.journal.handed_over[id(container)] = container
        return False

    def read(self, container: Any, key: Any, use: str = "read", makes: bool = False, opens: bool = True) -> bool:
        """Code is about to read an item by its key; whether a guard tells of that.

        use     how the item is used at once: see `use_of_result`
        makes   what is not there is made
        opens   a container may be taken apart that calls find replaced
        """
        journal, slot = self.journal, (id(container), key)
        if not self._is_known(container, key):
            return False
        if slot in journal.written or slot in self._read:
            return True
        value = dict.get(container, key, ABSENT)
        made = makes and value is ABSENT and type(container) in _MADE_WHEN_READ
        changeable = isinstance(value, _CHANGEABLE)
        unknown = changeable and not self._is_known_within(value, use)
        if unknown and opens and self._is_taken_apart(container, key, value):
            return True
        if made or holds_containers(value) or (unknown and not self._is_known_by_items(container, value, use)):
            self._whole.add(slot[0])
            return False
        if not changeable:
            self._read.add(slot)
        journal.note_read(container, key)
        journal.beginning.slots.append((container, key, "item", value))
        replaced = journal.varying.is_input(container, key, value) or self._is_replaced(container)
        if replaced and value is not ABSENT and not changeable:
            journal.input(container, key, value, "item")
        if slot not in journal.inputs:
            self._guard(container, key, value)
        return True

    def look_for(self, container: Any, key: Any) -> bool:
        """Code asks whether there is such a key; whether a guard tells of that."""
        if not self._is_known(container, key):
            return False
        slot, value = (id(container), key), dict.get(container, key, ABSENT)
        if value is ABSENT:
            return self.read(container, key)
        if slot not in self.journal.written and slot not in self._read:
            self._load(container, key)
        return True

    def method(self, name: str, container: Any, args: tuple[Any, ...], use: str, source: str) -> bool:
        """Code is about to call a dictionary's `get` or `setdefault`; whether that is known by items."""
        if not args or not self.read(container, args[0], use, opens=name != "setdefault"):
            return False
        if name == "setdefault" and dict.get(container, args[0], ABSENT) is ABSENT:
            self.journal.assign(container, args[0], args[1] if len(args) > 1 else None, "item", source)
        return True

    def read_all(self, container: Any) -> None:
        """Code is about to read all items at once: those that calls before have found replaced are inputs."""
        if self.journal.is_outside(container) and self._is_replaced(container):
            for key in list(container):
                self.read(container, key)

    def assigns(self, container: Any, name: str, args: Any, kwargs: dict[str, Any], source: str) -> bool:
        """Code is about to call a method; whether it assigns items and does nothing else, which is noted."""
        if type(container) not in _KINDS:
            return False
        if name == "__setitem__" and len(args) == 2:
            self.journal.assign(container, args[0], args[1], "item", source)
            return True
        if name not in ("update", "__ior__") or type(container) is Counter or len(args) > 1:
            return False
        given = [*args, kwargs]
        if not all(type(one) is dict and self.journal.is_made(one) and all(map(self._is_key, one)) for one in given):
            return False
        for one in given:
            for key, value in one.items():
                self.journal.assign(container, key, value, "item", source)
        return True

    # -- items under numbers and texts of the call ---------------------------------------------------------------------

    def assign(self, container: Any, key: Any, value: Any, source: str) -> int | str | None:
        """Code assigns an item under a number or text that is another one in other calls: that of this call.

        None where the recording has to be tied to it, as it is once the dictionary is read: see `settle`.
        """
        journal = self.journal
        number = at_present(key) if type(container) in _KINDS else None
        if number is None or not journal.is_outside(container):
            return None
        known = len(journal.operations)
        journal.assign(container, number, value, "item", source)
        if len(journal.operations) == known:
            return None
        journal.operations[-1].arguments = key, value
        self._numbered.append((container, key))
        return number

    def settle(self, container: Any) -> None:
        """Something depends on what a dictionary holds, and so on the numbers under which items were assigned."""
        keys = [key for holder, key in self._numbered if holder is container]
        self._numbered = [pair for pair in self._numbered if pair[0] is not container]
        for key in keys:
            tied(key)

    def settle_compared(self, containers: list[Any], objects: list[Any]) -> None:
        """Calls compare containers with the containers in them, and objects with all that they hold."""
        for container in [holder for holder, _ in self._numbered]:
            if any(_reaches(value, container, False) for value in containers) or any(
                _reaches(value, container, True) for value in objects
            ):
                self.settle(container)

    # -- guards --------------------------------------------------------------------------------------------------------

    def _is_known(self, container: Any, key: Any) -> bool:
        """Whether a dictionary can be known by its items."""
        journal = self.journal
        if not journal.is_outside(container):
            return False
        self._known[id(container)] = container
        self.settle(container)
        known = type(container) in _KINDS and self._is_key(key)
        if not known or (id(container), None) in journal.written:
            self._whole.add(id(container))
        return id(container) not in self._whole

    def _is_key(self, key: Any) -> bool:
        """Whether an item is found by what a key is, which no code of a program decides, and so in later calls."""
        kind = type(key)
        if kind in _KEYS or (kind is float and key == key):
            return True
        if kind is tuple:
            return all(map(self._is_key, key))
        if isinstance(key, Enum):
            return kind.__hash__ in _HASHES_OF_MEMBERS and kind.__eq__ in _COMPARISONS_OF_MEMBERS
        if isinstance(key, Tensor):
            return type(key._data) is not Node and kind.__hash__ is Tensor.__hash__ and kind.__eq__ is Tensor.__eq__
        return kind.__hash__ is object.__hash__ and kind.__eq__ is object.__eq__ and self.journal.is_outside(key)

    def _is_known_within(self, value: Any, use: str) -> bool:
        """Whether nothing depends on what a container holds, or calls look at that themselves."""
        histories = self.journal.windows.histories
        return use == "add" or (use in ("asked", "item") and histories.of(value) is not None)

    def _is_known_by_items(self, container: Any, value: Any, use: str) -> bool:
        """Whether what lies in a dictionary is one too of which code reads or replaces an item, and nothing else."""
        if type(value) not in _KINDS or use not in ("item", "augment"):
            return False
        if use == "item":  # of what `+=` replaces, more than that item is not read
            self._within.setdefault(id(container), []).append(value)
        return True

    def _is_read_whole(self, container: Any) -> bool:
        """Whether guards of items don't tell all that was read of a dictionary, or of those in it."""
        pending, seen = [container], set[int]()
        while pending:
            holder = id(pending.pop())
            if holder in self._whole or holder not in self._known:
                return True
            pending += [inner for inner in self._within.get(holder, ()) if id(inner) not in seen]
            seen.update(map(id, self._within.get(holder, ())))
        return False

    def _is_taken_apart(self, container: Any, key: Any, value: Any) -> bool:
        """Whether what lies in the container under a key are inputs: calls before have found it replaced."""
        journal, slot = self.journal, (id(container), key)
        if slot in journal.inputs:
            return True
        if not journal.varying.is_input(container, key, value):
            return False
        journal.note_read(container, key)
        journal.beginning.slots.append((container, key, "item", value))
        journal.input(container, key, value, "item")
        return slot in journal.inputs

    def _is_replaced(self, container: Any) -> bool:
        """Whether calls before have found items of a dictionary replaced."""
        return any(holder == id(container) and key is not None for holder, key in self.journal.varying.slots)

    def _guard(self, container: Any, key: Any, value: Any) -> None:
        if value is not ABSENT:
            return guard_value(self.journal.tracer, self._load(container, key), value)
        self.absent.add((id(container), key))
        self.journal.tracer.guard_object(self._holder(container), Op.LACKS, key)

    def _load(self, container: Any, key: Any) -> int:
        """The leaf of an item, which there has to be."""
        tracer, holder = self.journal.tracer, self._holder(container)
        leaf = tracer.new_leaf()
        tracer.load(leaf, Op.LOAD_ITEM, holder, tracer.object(key))
        return leaf

    def _holder(self, container: Any) -> int:
        tracer = self.journal.tracer
        leaf = tracer.new_leaf()
        tracer.load(leaf, Op.LOAD_OBJECT, tracer.object(container))
        return leaf


def _is_found_by_code(key: Any) -> bool:
    """Whether functions tell which key is another one."""
    if isinstance(key, (tuple, frozenset)) and any(map(_is_found_by_code, key)):
        return True
    return any(isinstance(found, FunctionType) for found in (type(key).__hash__, type(key).__eq__))


def _reaches(value: Any, container: Any, attributes: bool) -> bool:
    """Whether a container is a value, or lies in what that holds; so it seems where there is very much."""
    pending, seen = [value], set[int]()
    while pending and len(seen) < _MOST_LOOKED_AT:
        value = pending.pop()
        if value is container:
            return True
        if id(value) in seen or isinstance(value, (Tensor, type, ModuleType, FunctionType)):
            continue
        seen.add(id(value))
        if isinstance(value, (list, tuple, dict, set, frozenset, deque)):
            pending += items_of(value)
        if attributes and has_attributes(value):
            pending += attributes_of(value).values()
    return bool(pending)
