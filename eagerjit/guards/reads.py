"""What one recording has read before it wrote there, and when: as an input, or as what each call has to find again."""

from __future__ import annotations

from typing import Any

from eagerjit.effects.lru_cached_calls import Memoized
from eagerjit.guards.dictionary_items import Keyed
from eagerjit.guards.sliding_lists import Windows

KEYS = object()
"""What stands for the keys of a dictionary and their order, where all of them are read and no item is."""


class Reads:
    """The part of a journal that knows reads. `step` counts the instructions that were looked at."""

    windows: Windows
    keyed: Keyed
    memoized: Memoized
    written: dict[tuple[int, Any], str]
    _alive: list[Any]

    def __init__(self) -> None:
        self.read_first: set[tuple[int, Any]] = set()
        self.step = 0
        self.tables: dict[int, int] = {}  # dictionaries of attributes that code has seen, by the objects whose they are
        self.whole: set[int] = set()  # Modules of which something reads all there is, unseen
        self._read_at: dict[tuple[int, Any], int] = {}

    def note_read(self, holder: Any, key: Any) -> None:
        """Code is about to read an attribute, an item or a variable; with None all there is."""
        if type(key) is not str or not self.windows.histories.knows(holder):  # a method is called after it is read
            self.windows.touch(holder)
        self.keyed.settle(holder)
        if self.memoized.recording is not None:
            self.memoized.note_read(holder, key)
        slot = id(holder), key
        self._read_at.setdefault(slot, self.step)
        if slot not in self.written and slot not in self.read_first:
            self.read_first.add(slot)
            self._alive.append(holder)

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
