"""Where the objects of a recording are from: each is *outside*, *given* or *made*, one of the three.

outside     it was there before: what code reads of it is an input or a guard, what it writes is put back
given       the copy of a container or object of the call's: a part of it is a part of the call, what is done to it
            every call does to its own
made        the code has made it: nobody else has seen it, and what is done to it needs no repeating

The garbage collector knows the age of objects: a recording begins with an empty youngest generation, and none is
collected until it ends. What is given was copied then.
"""

from __future__ import annotations

import gc
import operator
import sys
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from types import GeneratorType
from typing import Any

import numpy as np

from eagerjit.pytree import ONLY_ADDED_TO, Attribute, Structure, is_record, parts_in
from eagerjit.runtime import holders
from eagerjit.runtime.own_attributes import dictionary_of
from eagerjit.watching.observation import TraceBreak, user_line
from eagerjit.watching.slots import Path

_FROZEN_BY_PYTHON = gc.get_freeze_count() if sys.version_info[:2] == (3, 12) else 0  # as it starts

_SEEN_OR_CONSTANT = (dict, tuple, str, bytes, int, float, complex, np.generic)
"""Classes of untracked objects that others hold in sight of the collector, or that nobody changes."""

_FEW = 4
"""Objects that are sooner looked for one by one than among all at once."""

_THERE_ALREADY = frozenset((bool, np.bool, type(None)))
"""Classes of which no objects are ever made: nobody has to look for the modules that hold them."""


class Ages:
    """The part of a journal that tells old objects from new ones."""

    checks: list[Callable[[], bool]]
    is_held_outside: Callable[[Any], bool]

    def __init__(self) -> None:
        self.paths: dict[int, Path] = {}
        self.added_to: set[int] = set()
        self._young: set[int] = set()
        self._made: set[int] = set()
        self._outside: set[int] = set()
        self._fresh: set[int] = set()
        self._alive: list[Any] = []
        self._unseen: set[int] | None = None
        self._ended = False

    def refuse(self, reason: str, source: str) -> TraceBreak:
        """End the recording unsuccessfully."""
        raise NotImplementedError

    def give(self, structure: Structure, value: Any, start: tuple[Any, ...] = ()) -> None:
        """Take what a call's (args, kwargs) are made of for given, or with a start an answer that lies there."""
        self._alive.append(value)
        for place, node, part in parts_in(structure, value, start):
            kind = node[0] if type(node) is tuple else node
            if len(place) < 2 or not isinstance(kind, type) or kind in (slice, str):
                continue
            self.paths[id(part)] = Path(place)
            if node == ONLY_ADDED_TO:
                self.added_to.add(id(part))
            if is_record(node) and isinstance(table := dictionary_of(part), dict):
                self.paths[id(table)] = Path((*place, Attribute("__dict__")))

    def is_given(self, value: Any) -> bool:
        """Whether an object is the copy of one of the call's, which each call finds by its path."""
        return id(value) in self.paths

    def is_outside(self, value: Any) -> bool:
        """Whether an object was there before the call, and is none that calls give."""
        return id(value) not in self.paths and not self._is_young(value)

    def is_made(self, value: Any) -> bool:
        """Whether the code has made an object, so that nobody else has seen it."""
        return id(value) not in self.paths and self._is_young(value)

    def _is_young(self, value: Any) -> bool:
        """Whether an object was made since this recording began."""
        key = id(value)
        if key in self._outside:
            return False
        if key in self._fresh:
            return True
        if type(value) in _THERE_ALREADY:
            return False
        if isinstance(value, np.ndarray):
            if value.base is not None:  # what shows memory is no older than what owns it
                fresh = key in self._made or self._is_young(value.base)
            elif self.is_held_outside(value):
                fresh = False
            else:  # an old dictionary that holds nothing but arrays and numbers is not known to the collector either
                young = key not in self._made and self._only_young_know(value, at_least=1)
                fresh = key in self._made or (young and not self._is_held_unseen(value))
        elif not gc.is_tracked(value):  # a class that it does not track is one of an extension's
            fresh = not isinstance(value, type) and not self.is_held_outside(value) and self._only_young_know(value)
            fresh = fresh and (isinstance(value, _SEEN_OR_CONSTANT) or not self._is_held_unseen(value))
            if fresh:  # which stays so, whatever holds it later, and is not asked of all objects there are again
                self._fresh.add(key)
        else:
            fresh = key in self._young or (not self._ended and self._is_tracked_lately(value))
            if fresh and type(value) is GeneratorType:  # to keep it would put off what it does when it is closed
                return True
        self._alive.append(value)
        if not fresh:
            self._outside.add(key)
        return fresh

    def making(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function of NumPy's, and remember an array that nobody had before."""
        before, ignored = np.geterr(), list[Any]()
        traced = any(type(x).__module__.startswith("eagerjit") for x in (*args, *kwargs.values()))
        known = "ignore" if traced else "call"  # what is computed of inputs, calls compute themselves
        modes: Any = {kind: known if what == "ignore" else "raise" for kind, what in before.items()}
        try:
            with np.errstate(**modes, call=lambda *what: ignored.append(what)):
                made = [function(*args, **kwargs)]
        except FloatingPointError as error:
            raise self.refuse(f"NumPy warns: {error}", user_line()) from None
        if ignored:  # where calls must find it ignored, too
            self.checks.append(lambda: np.geterr() == before)
        # One reference is the list's, one the argument's: those of variables CPython 3.14 does not always count.
        if type(made[0]) is np.ndarray and made[0].base is None and sys.getrefcount(made[0]) == 2:
            self._made.add(id(made[0]))
            self._alive.append(made[0])
        return made[0]

    def own(self, made: Any) -> Any:
        """What the library has just made itself: nobody else holds it, so that nobody looks for holders."""
        self._fresh.add(id(made))
        self._alive.append(made)
        return made

    def young(self) -> dict[int, Any]:
        """The objects that were made in this recording so far, by their ids; none of these is given to another."""
        return {id(x): x for x in gc.get_objects(0)}

    def made_outside(self, function: Callable[[], Any]) -> Any:
        """Call a function that is no part of the recording: what it makes was there before."""
        before = self.young()
        result = function()
        made = [x for x in gc.get_objects(0) if id(x) not in before]
        self._alive += made
        self._outside.update(map(id, made))
        self._young.difference_update(map(id, made))
        return result

    def _decide(self, value: Any) -> None:
        """Settle whether a dictionary is fresh while the collector does not track it: a write may change that."""
        if isinstance(value, dict) and not gc.is_tracked(value):
            self._is_young(value)

    # Looking through what the collector tracks is one call of C's each, so that no other thread runs meanwhile: a tuple
    # that it is making must have one owner.

    def _look_again(self) -> set[int]:
        self._young = set(map(id, chain.from_iterable(map(gc.get_objects, (0,)))))
        self._young -= self._outside
        return self._young

    def _is_tracked_lately(self, value: Any) -> bool:
        """Whether the collector tracks an object since this recording began; what has just been made is found first."""
        # What holds the objects is made after they are listed: else it would be among them, and keep them all.
        newest = map(reversed, map(gc.get_objects, (0,)))
        found = next(map(any, map(map, repeat(operator.is_), newest, repeat(repeat(value)))))
        if found:
            self._young.add(id(value))
        return found

    def know_together(self, values: Iterable[Any]) -> None:
        """See whether dictionaries are fresh, all at once if so: who looks for holders looks at all objects."""
        known = self._outside | self._fresh
        unknown = [x for x in values if type(x) is dict and not gc.is_tracked(x) and id(x) not in known]
        if gc.get_freeze_count() <= _FROZEN_BY_PYTHON and unknown and self._only_young_know(*unknown):
            self._fresh.update(map(id, unknown))
            self._alive += unknown

    def find_in(self, holder: Any, value: Any) -> None:
        """See that a container is from before, as an object from before holds it: then nobody looks at all objects."""
        known = gc.is_tracked(value) or id(value) in self._outside or id(value) in self._fresh
        if known or not gc.is_tracked(holder) or gc.get_freeze_count() > _FROZEN_BY_PYTHON:
            return
        if self.is_outside(holder) and any(held is value for held in gc.get_referents(holder)):
            self._outside.add(id(value))
            self._alive.append(value)

    def _only_young_know(self, *values: Any, at_least: int = 0) -> bool:
        """Whether no object from before holds one that the collector does not track, and so many made since do."""
        if gc.get_freeze_count() > _FROZEN_BY_PYTHON:  # no frozen object is named among holders
            if isinstance(values[0], (dict, tuple, np.ndarray)):
                self.refuse("after gc.freeze() nobody knows since when an object is held", user_line())
            return False
        known = [holder for holder in gc.get_referrers(*values) if holder is not values]  # CPython 3.13 names it too
        if len(known) < at_least or not self._are_young(known):
            return False
        # The attributes of an old object may be in a dictionary only since somebody has asked for it.
        tables = [holder for holder in known if type(holder) is dict]
        others = gc.get_referrers(*tables) if tables else []
        return self._are_young([r for r in others if r is not known and r is not tables])

    def _is_held_unseen(self, value: Any) -> bool:
        """Whether an object from before holds one in a dictionary or tuple that the collector does not track.

        Such are those that hold nothing but what it does not track either: they are no holders to `gc.get_referrers`.
        """
        if self._unseen is None:
            self._unseen = holders.held_unseen([*gc.get_objects(1), *gc.get_objects(2)])
        return id(value) in self._unseen

    def _are_young(self, objects: list[Any]) -> bool:
        """Whether all have been made in this recording: an address once seen to be young stays so."""
        unknown = [x for x in objects if id(x) not in self._young]
        if len(unknown) > _FEW:
            return self._look_again().issuperset(map(id, unknown))
        return all(id(x) not in self._outside and self._is_tracked_lately(x) for x in unknown)
