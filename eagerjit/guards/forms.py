"""What containers and records look like from outside: classes, keys, and which of the tensors in them are the same."""

from __future__ import annotations

import array
import dataclasses
import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence, Set
from dataclasses import field
from types import SimpleNamespace
from typing import Any

import numpy as np

from eagerjit.guards.comparing import is_library_name, is_plain, key_of
from eagerjit.pytree import (
    LEAF,
    LEAVES,
    Structure,
    held_by,
    is_its_fields,
    is_more_than_items,
    is_record,
    part_of,
    slots_of,
    steps_of,
)
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.containers import CONTAINERS

_NOT_TAKEN_APART = (*CONTAINERS, frozenset, tuple, array.array, np.ndarray, np.generic)


def keys_of(value: Any, whole: bool = False) -> Sequence[Any] | None:
    """The positions, keys or names of what lies in a value; None where it is not taken apart.

    Objects whose attributes are all that they are count for such only as a `whole`, not in others.
    """
    kind = type(value)
    if kind in LEAVES:
        return None
    if kind is list or kind is tuple:
        return range(len(value))
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return None if is_more_than_items(value) else range(len(value))
    if kind is dict or kind is OrderedDict:
        return None if is_more_than_items(value) else tuple(value)
    if kind is SimpleNamespace or (whole and is_its_attributes(kind)):
        return tuple(held_by(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and is_its_fields(value):
        return tuple(f.name for f in dataclasses.fields(value))
    return None


_WORD = struct.calcsize("P")
_INTERFACES = frozenset(("abc", "typing", "collections.abc"))
_BASES = _INTERFACES | {"builtins", "collections", "argparse"}
"""Modules of the standard library whose classes hold nothing but attributes, where programs derive theirs from them."""


def is_its_attributes(kind: type) -> bool:
    """Whether instances of a class of the program's are their attributes and nothing else."""
    plain = kind.__new__ is object.__new__ and kind.__reduce_ex__ is object.__reduce_ex__ and (
        kind.__getattribute__ is object.__getattribute__
    )
    if not plain or is_library_name(kind.__module__) or hasattr(kind, "_jit_state") or hasattr(kind, "__del__"):
        return False
    bases = (b for b in kind.__mro__ if is_library_name(b.__module__))
    if not all(_holds_nothing(b) for b in bases):
        return False
    return is_its_slots(kind) or (kind.__dictoffset__ != 0 and not slots_of(kind))


def is_its_slots(kind: type) -> bool:
    """Whether all memory of an instance is slots that code can read: none is hidden by another or by a property."""
    words = (kind.__basicsize__ - object.__basicsize__) // _WORD - (kind.__weakrefoffset__ > 0)
    return kind.__dictoffset__ == 0 and kind.__itemsize__ == 0 and len(slots_of(kind)) == words


def has_items(kind: type) -> bool:
    """Whether instances of a class of the program's are a list or dictionary with attributes, and nothing else."""
    base = next((b for b in (OrderedDict, dict, list) if issubclass(kind, b)), None)
    if base is None or kind.__new__ is not base.__new__ or is_library_name(kind.__module__) or hasattr(kind, "__del__"):
        return False
    others = (b for b in kind.__mro__ if is_library_name(b.__module__) and not issubclass(base, b))
    slots = any(vars(b).get("__slots__") for b in kind.__mro__)
    simple = not slots and (kind.__dictoffset__ != 0 or kind.__basicsize__ == base.__basicsize__)
    return simple and all(b.__module__ in _INTERFACES for b in others)


def _holds_nothing(base: type) -> bool:
    """Whether a class of the standard library, or of this one, adds nothing to the attributes of those derived."""
    return base.__module__ in _BASES or base.__module__.partition(".")[0] == "eagerjit"


def made_like(value: Any, keys: Sequence[Any], parts: list[Any]) -> Any:
    """A container or record of the same class with other parts."""
    kind = type(value)
    if kind is list:
        return parts
    if isinstance(value, tuple):
        return tuple.__new__(kind, parts)  # a `__new__` of its own has run already
    if isinstance(value, dict):
        return kind(zip(keys, parts, strict=True))
    if kind is SimpleNamespace:
        return SimpleNamespace(**dict(zip(keys, parts, strict=True)))
    made = object.__new__(kind)
    for name, part in zip(keys, parts, strict=True):
        object.__setattr__(made, name, part)
    return made


def copied(value: Any, whole: bool = True) -> Any:
    """A copy of what is taken apart: the same leaves in new containers."""
    keys = keys_of(value, whole)
    if keys is None:
        return value
    return made_like(value, keys, [copied(part_of(value, key), False) for key in keys])


@record
class Form:
    """What was met in taking values apart: containers and tensors by their ids, and whether all could be."""

    containers: dict[int, Any] = field(default_factory=dict)
    tensors: dict[int, Tensor] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    is_whole: bool = True

    def of(self, value: Any, whole: bool = True) -> Any:
        """The form of a value, comparable: tensors are known by when they were met first."""
        if isinstance(value, Tensor):
            self.tensors[id(value)] = value
            return self.numbers.setdefault(id(value), len(self.numbers))
        keys = keys_of(value, whole)
        if keys is None:
            self.is_whole = self.is_whole and not isinstance(value, _NOT_TAKEN_APART)
            return LEAF
        if not isinstance(value, tuple):
            self.is_whole = self.is_whole and id(value) not in self.containers and all(map(is_plain, keys))
            self.containers[id(value)] = value
        if not self.is_whole:
            return LEAF
        named = tuple(map(key_of, keys)) if isinstance(keys, tuple) else None
        kind = type(value)
        parts = value.values() if kind is dict else [part_of(value, key) for key in keys]
        return kind, named, tuple([self.of(part, False) for part in parts])

    def copy(self) -> Form:
        """The same, to be gone on with."""
        return Form(dict(self.containers), dict(self.tensors), dict(self.numbers))


def container_places(structure: Structure, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The steps to each container and object that a call of this structure is given."""
    if type(structure) is not tuple:
        return
    if len(place) > 1 and (structure[0] in (list, dict, OrderedDict) or is_record(structure)):
        yield place
    for step, child in zip(steps_of(structure), structure[2], strict=True):
        yield from container_places(child, (*place, step))


def are_apart(given: Sequence[Any], others: Set[int], slots: Sequence[Any]) -> bool:
    """Whether no two of these containers are the same, and none is one of the others or lies in the slots."""
    met = set(map(id, given))
    if len(met) != len(given) or not others.isdisjoint(met):
        return False
    held = Form()
    for slot in slots if given else ():
        held.of(slot.read())
    return met.isdisjoint(held.containers)
