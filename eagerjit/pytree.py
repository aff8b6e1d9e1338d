"""Nested arguments and results as flat lists of leaves."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

Structure = Any
"""A hashable description of the nesting: LEAF or another mark, or (type, keys, structures of the children)."""

LEAF = "leaf"


Ways = Mapping[type, bool]
"""Classes whose instances are their attributes (True), and dataclasses whose instances are leaves (False).

`str` is there for calls whose texts are others each time.
"""

NO_WAYS: Ways = MappingProxyType({})


class Again(int):
    """A leaf that is the same object as an earlier one, which has this number."""


LEAVES: set[type] = {int, float, bool, str, type(None)}
"""Classes of which it is known that their instances are leaves."""

SEQUENCES: set[type] = {tuple, list}
"""Classes whose instances are made of their items, and are nothing else."""

TEXTS = frozenset((str,))
"""The classes of keys that are all there is to know of them."""


class Keys(tuple[Any, ...]):
    """Keys of a dictionary that are not all texts: those of other types are others, although 1 == True == 1.0."""

    typed: tuple[Any, ...]

    def __new__(cls, keys: Iterable[Any]) -> Keys:
        made = super().__new__(cls, keys)
        made.typed = tuple(map(_typed, made))
        return made

    def __eq__(self, other: object) -> bool:
        return type(other) is Keys and self.typed == other.typed

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.typed)


class Attributes(tuple[str, ...]):
    """The names of all attributes of an object that was taken apart, in their order."""


def _typed(key: Any) -> Any:
    if type(key) is tuple:
        return tuple(map(_typed, key))
    return type(key), key.hex() if type(key) is float else key


def keys_of(dictionary: dict[Any, Any]) -> tuple[Any, ...]:
    """The keys in their order, as structures have them."""
    keys = tuple(dictionary)
    return keys if TEXTS.issuperset(map(type, keys)) else Keys(keys)


def flatten(value: Any, leaves: list[Any], ways: Ways = NO_WAYS) -> Structure:
    """Append the leaves of a nesting of tuples, lists, slices, dicts and dataclasses to `leaves`; its structure."""
    kind = type(value)
    if kind in LEAVES:
        leaves.append(value)
        return LEAF
    if kind in SEQUENCES:
        return (kind, None, tuple([flatten(v, leaves, ways) for v in value]))
    if kind is slice and LEAVES.issuperset(map(type, parts := (value.start, value.stop, value.step))):
        return (kind, None, tuple([flatten(v, leaves) for v in parts]))
    if kind is dict or kind is OrderedDict:
        return (kind, keys_of(value), tuple([flatten(v, leaves, ways) for v in value.values()]))
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return (kind, kind._fields, tuple([flatten(v, leaves, ways) for v in value]))
    if (way := ways.get(kind)):
        held = vars(value)
        return (kind, Attributes(held), tuple([flatten(v, leaves, ways) for v in held.values()]))
    if way is None and dataclasses.is_dataclass(value) and not isinstance(value, type) and is_its_fields(value):
        names = tuple(f.name for f in dataclasses.fields(value))
        return (kind, names, tuple([flatten(getattr(value, n), leaves, ways) for n in names]))
    leaves.append(value)
    return LEAF


def is_its_fields(value: Any) -> bool:
    """Whether an instance of a dataclass has all its fields and no other attributes, and is no container besides."""
    if isinstance(value, (dict, list, set)):
        return False
    names = [f.name for f in dataclasses.fields(value)]
    return getattr(value, "__dict__", {}).keys() <= set(names) and all(hasattr(value, n) for n in names)


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The nesting again, from its structure and leaves."""
    values = iter(leaves)
    return _rebuild(structure, values)


def _rebuild(structure: Structure, values: Any) -> Any:
    if type(structure) is not tuple:
        return next(values)
    kind, keys, children = structure
    parts = [_rebuild(c, values) for c in children]
    if kind in SEQUENCES:
        return kind(parts)
    if kind is slice:
        return slice(*parts)
    if kind is dict or kind is OrderedDict:
        return kind(zip(keys, parts, strict=True))
    if issubclass(kind, tuple):
        return tuple.__new__(kind, parts)  # a `__new__` of its own has run already
    if type(keys) is Attributes:
        made = kind.__new__(kind)
        vars(made).update(zip(keys, parts, strict=True))
        return made
    made = object.__new__(kind)
    for name, part in zip(keys, parts, strict=True):
        object.__setattr__(made, name, part)
    return made


def records_in(structure: Structure) -> Iterator[type]:
    """The classes of objects in a structure that are taken apart into their attributes or fields."""
    if type(structure) is tuple:
        kind, _, children = structure
        if not issubclass(kind, (tuple, list, dict, slice)):
            yield kind
        for child in children:
            yield from records_in(child)


def names_in(value: Any) -> tuple[str, ...]:
    """The names of what lies in an object that is taken apart."""
    is_of_fields = dataclasses.is_dataclass(value) and is_its_fields(value)
    return tuple(f.name for f in dataclasses.fields(value)) if is_of_fields else tuple(vars(value))


def is_flat(structure: Structure) -> bool:
    """Whether a tuple of arguments consists of leaves only."""
    return structure[0] is tuple and all(c == LEAF or type(c) is Again for c in structure[2])
