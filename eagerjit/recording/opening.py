"""Which objects and texts among a function's arguments are inputs, so that calls with others are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eagerjit.guards.forms import has_items, is_its_attributes
from eagerjit.pytree import LEAF, NO_WAYS, Structure, nodes_in
from eagerjit.recording.leaves import key_of
from eagerjit.runtime.own_attributes import own_attributes
from eagerjit.watching.lookup import is_overridden
from eagerjit.watching.observation import ByIdentity, TraceBreak

if TYPE_CHECKING:
    from eagerjit.compiled.variants import Variant

_NAMESPACES = frozenset((("types", "SimpleNamespace"), ("argparse", "Namespace"), ("collections", "UserDict")))


_MOST_ITEMS, _MOST_LISTS = 1000, 4


class Opening:
    """What a function's calls have shown: objects are known by identity until a second one of their class is met."""

    def __init__(self) -> None:
        self.ways = NO_WAYS
        self._known: dict[int, list[Any]] = {}  # the lists of `ways`
        self._lists: dict[int, tuple[int, ...]] = {}
        self._reads_lists = False

    def learn(self, known: Sequence[Variant], structure: Structure, leaves: Sequence[Any], given: Any) -> bool:
        """Whether a call shows more: another object of a class that versions know, or another text, for the third time.

        Such classes are taken apart from here on, and such texts are those of each call.
        """
        if self._learn_of_lists(structure, given):
            return True
        told = self.ways.opened | self.ways.closed
        if str not in told and self._are_others(known, structure, key_of(leaves)):
            return self._open({str})
        met = {part for variant in known for part in variant.key if _is_object(part)}
        kinds = {kind for kind, _ in met} - told
        new = {type(x) for x in leaves if type(x) in kinds and (type(x), id(x)) not in met}
        new = {kind for kind in new if (kind.__module__, kind.__name__) in _NAMESPACES or _is_taken_apart(kind)}
        return self._open(new - {type(x) for x in leaves if type(x) in new and _hides(x)})

    def _open(self, kinds: set[type]) -> bool:
        """Take classes apart from here on; whether there are any."""
        self.ways = self.ways._replace(opened=self.ways.opened | kinds)
        return bool(kinds)

    def _learn_of_lists(self, structure: Structure, given: Any) -> bool:
        """Whether a list among the arguments has grown at its end since it was given to a call that was recorded.

        The function is taken to only add to it, until a recording finds it read: then it is known by identity.
        """
        if list in self.ways.closed:
            return False
        places = set(self.ways.added_to)
        for place, (kind, *_), each in nodes_in(structure, given):
            if kind is not list or not self._has_grown(each):
                continue
            if not self._reads_lists:
                places.add(place)
            elif len(self._known) < _MOST_LISTS:
                self._known[id(each)] = each
        found = self.ways._replace(lists=dict.fromkeys(self._known, LEAF), added_to=frozenset(places))
        if found == self.ways:
            return False
        self.ways = found
        return self._open({list})

    def _has_grown(self, each: list[Any]) -> bool:
        """Whether a list has more items than when it was given before, after the same ones."""
        items, before = tuple(map(id, each[:_MOST_ITEMS])), self._lists.get(id(each))
        self._lists[id(each)] = items
        return before is not None and len(before) < len(items) and items[: len(before)] == before

    def _are_others(self, known: Sequence[Variant], structure: Structure, key: tuple[Any, ...]) -> bool:
        """Whether several versions serve calls that differ from one in nothing but texts."""
        alike = [variant.key for variant in known if variant.structure == structure and len(variant.key) == len(key)]
        pairs = ([(a, b) for a, b in zip(one, key, strict=True) if a != b] for one in alike)
        return sum(1 for found in pairs if found and all(type(a) is type(b) is str for a, b in found)) > 1

    def replaced(self, known: Sequence[Variant], new: Variant) -> list[Variant]:
        """The versions that keep an object which they only read, where a new one serves all objects of its class."""
        if any(map(_is_object, new.key)):
            return []
        opened = self.ways.opened - {list}
        return [v for v in known if not v.commit and any(_is_object(part) and part[0] in opened for part in v.key)]

    def close(self, problem: TraceBreak) -> bool:
        """Take fewer classes apart, since a recording has ended so; whether there are fewer."""
        asked = problem.kind if isinstance(problem, ByIdentity) else None
        if asked is list and not self._reads_lists:
            self._reads_lists = True
            self.ways = self.ways._replace(added_to=frozenset())
            return self._open({list})
        ways = self.ways
        closed = ways.closed | (ways.opened if asked is None else {asked})
        kept = NO_WAYS if list in closed else ways
        self.ways = kept._replace(opened=ways.opened - closed, closed=closed)
        return closed != ways.closed


def _is_taken_apart(kind: type) -> bool:
    """Whether instances of a class of the program's are their attributes and items."""
    return has_items(kind) or is_its_attributes(kind)


def _hides(value: Any) -> bool:
    """Whether the class of an object gives an attribute in place of one that lies in the object's dictionary."""
    return any(is_overridden(type(value), name) for name in own_attributes(value))


def _is_object(part: Any) -> bool:
    """Whether a part of a version's key is an object that it knows by identity."""
    return type(part) is tuple and len(part) == 2 and isinstance(part[0], type)
