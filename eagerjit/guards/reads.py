"""What one recording has read before it wrote there, and when: as an input, or as what each call has to find again."""

from __future__ import annotations

from collections.abc import Callable, Set
from types import CellType, ModuleType
from typing import Any

import numpy as np

from eagerjit.effects.lru_cached_calls import Memoized
from eagerjit.guards.comparing import MUTABLE, contents
from eagerjit.guards.dictionary_items import Keyed
from eagerjit.guards.sliding_lists import Windows
from eagerjit.watching.slots import look

KEYS = object()
"""What stands for the keys of a dictionary and their order, where all of them are read and no item is."""


class _Options:
    """Whether an optimizer's options are as they were when code read them all, but for those that it had `changed`."""

    def __init__(self, options: dict[str, Any], changed: Set[str]):
        self.options, self.changed, self.kept = options, changed, list[Any]()
        self.before = self._contents(self.kept)

    def _contents(self, kept: list[Any] | None) -> Any:
        found = {key: value for key, value in self.options.items() if key not in self.changed}
        return contents(found, kept, frozenset(), True)

    def __call__(self) -> bool:
        return bool(self._contents(None) == self.before)


def _held(holder: Any, key: str) -> Any:
    """What a dictionary or a variable of a function or module holds, None if nothing; attributes are not looked at."""
    if type(holder) is CellType:
        return look(holder, key, "cell")
    table = holder.__dict__ if type(holder) is ModuleType else holder
    return table.get(key) if type(table) is dict else None


class Reads:
    """The part of a journal that knows reads. `step` counts the instructions that were looked at."""

    windows: Windows
    keyed: Keyed
    memoized: Memoized
    written: dict[tuple[int, Any], str]
    checks: list[Any]
    is_outside: Callable[[Any], bool]
    is_given: Callable[[Any], bool]
    refuse: Callable[..., Any]
    _alive: list[Any]

    def __init__(self) -> None:
        self.read_first: set[tuple[int, Any]] = set()
        self.step = 0
        self.tables: dict[int, int] = {}  # dictionaries of attributes that code has seen, by the objects whose they are
        self.whole: set[int] = set()  # Modules of which something reads all there is, unseen
        self.told_apart: dict[int, Any] = {}  # tuples and containers of which code asks which ones they are
        self._read_at: dict[tuple[int, Any], int] = {}
        self._places: dict[int, tuple[Any, str]] = {}  # where objects were read that the collector may not track

    def note_read(self, holder: Any, key: Any) -> None:
        """Code is about to read an attribute, an item or a variable; with None all there is."""
        if type(key) is not str or not self.windows.histories.knows(holder):  # a method is called after it is read
            self.windows.touch(holder)
        self.keyed.settle(holder)
        if self.memoized.recording is not None:
            self.memoized.note_read(holder, key)
        slot = id(holder), key
        options = key is None and hasattr(type(holder), "holds_options") and self.is_outside(holder)
        if options and slot not in self._read_at:
            self.checks.append(_Options(holder, {k for k in holder if (id(holder), k) in self.written}))
        self._read_at.setdefault(slot, self.step)
        if slot not in self.written and slot not in self.read_first:
            self.read_first.add(slot)
            self._alive.append(holder)
            if type(key) is str and type(value := _held(holder, key)) in (dict, tuple, np.ndarray):
                self._places[id(value)] = holder, key

    def is_held_outside(self, value: Any) -> bool:
        """Whether an object lies where code has read it first, in one from before the call: so it is from before."""
        holder, key = self._places.get(id(value), (None, ""))
        if holder is None or _held(holder, key) is not value:
            return False
        owners = id(holder), id(vars(holder)) if type(holder) is ModuleType else 0
        written = any((owner, k) in self.written for owner in owners for k in (key, None))
        return not written and self.is_outside(holder)

    def note_asked(self, container: Any, name: str, key: Any) -> None:
        """Code is about to call a method that tells what a container holds, maybe under a key."""
        asks_keys = isinstance(container, dict) and name in ("keys", "__iter__", "__len__")
        if isinstance(container, dict) and name in ("values", "items", "copy"):
            self.keyed.read_all(container)
        self.note_read(container, KEYS if asks_keys else key if type(key) in (str, int, bool) else None)

    def was_read(self, holder: Any, key: Any) -> bool:
        """Whether an earlier instruction has read a slot, or all that its holder holds."""
        places = id(holder), self.tables.get(id(holder), 0)
        found = (self._read_at.get((place, k), self.step) for place in places for k in (key, None))
        return any(step != self.step for step in found)

    def is_read_whole(self, holder: Any) -> bool:
        """Whether all that an object holds was read."""
        return any((place, None) in self._read_at for place in (id(holder), self.tables.get(id(holder))))

    def are_keys_read(self, holder: Any) -> bool:
        """Whether the keys of a dictionary were read, or all it holds."""
        return (id(holder), KEYS) in self._read_at or self.is_read_whole(holder)

    def tell_tuples_apart(self, values: Any, source: str) -> None:
        """Code asks whether these are one object. Tuples among the arguments are copies of the caller's."""
        alike = len(set(map(type, values))) == 1  # others can never be
        self.told_apart |= {id(x): x for x in values if type(x) is tuple or (alike and isinstance(x, MUTABLE))}
        copied = any(map(self.is_given, values))
        if copied and all(isinstance(x, tuple) for x in values) and values[0] is not values[-1]:
            self.refuse("it asks which tuple an argument is", source)
