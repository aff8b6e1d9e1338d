"""Nested arguments and results as flat lists of leaves."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType, MemberDescriptorType
from typing import Any, NamedTuple

from eagerjit.runtime.own_attributes import own_attributes

Structure = Any
"""A hashable description of the nesting: LEAF or another mark, or (type, keys, structures of the children)."""

LEAF = "leaf"

ONLY_ADDED_TO: Structure = (list, (), ())
"""The structure of a list to which calls only add, whatever lies in it."""


class Ways(NamedTuple):
    """How values are taken apart of which their classes alone do not tell.

    opened      classes whose instances are their attributes and items; `str` for calls whose texts are others each
                time, `list` for calls whose lists grow
    closed      the same and dataclasses, where it has turned out that instances have to be leaves
    lists       structures of lists by their ids: LEAF or ONLY_ADDED_TO
    added_to    where such lists lie in each call
    registered  registered(class) says how instances are taken apart by what programs have registered, or None
    """

    opened: frozenset[type] = frozenset()
    closed: frozenset[type] = frozenset()
    lists: Mapping[int, Structure] = MappingProxyType({})
    added_to: frozenset[tuple[Any, ...]] = frozenset()
    registered: Callable[[type], Any] | None = None


NO_WAYS = Ways()


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
        made.typed = tuple(map(typed, made))
        return made

    def __eq__(self, other: object) -> bool:
        return type(other) is Keys and self.typed == other.typed

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.typed)


class Attributes(tuple[str, ...]):
    """The names of all attributes of an object that was taken apart, in their order."""


class Derived(NamedTuple):
    """How an object that has items and attributes is made: of those of a list, tuple or dictionary, then of these."""

    base: Any
    keys: tuple[Any, ...] | None
    names: tuple[str, ...]


class Registered:
    """How an object of a registered class is made again of its parts."""

    __slots__ = ("context", "node")

    def __init__(self, node: Any, context: Any):
        self.node, self.context = node, context

    def __eq__(self, other: object) -> bool:
        return type(other) is Registered and self.node is other.node and bool(self.context == other.context)

    __hash__ = object.__hash__


class Attribute(str):
    """The name of an attribute, as a step to what lies in an object that has items too."""


def typed(value: Any) -> Any:
    """A number, text or nesting of such, comparable: its equals may be of another class, or another zero or range."""
    kind = type(value)
    if isinstance(value, (tuple, frozenset)):
        return kind, tuple(map(typed, value))
    if isinstance(value, float):
        return kind, float.hex(value)
    if isinstance(value, complex):
        return kind, complex.__repr__(value)
    return (kind, value.start, value.stop, value.step) if kind is range else (kind, value)


def keys_of(dictionary: Iterable[Any]) -> tuple[Any, ...]:
    """The keys of a dictionary in their order, as structures have them."""
    keys = tuple(dictionary)
    return keys if TEXTS.issuperset(map(type, keys)) else Keys(keys)


def flatten(value: Any, leaves: list[Any], ways: Ways = NO_WAYS) -> Structure:
    """Append the leaves of a nesting of tuples, lists, slices, dicts and dataclasses to `leaves`; its structure."""
    kind = type(value)
    if kind in LEAVES or (kind is list and ways.lists.get(id(value)) == LEAF):
        leaves.append(value)
        return LEAF
    if kind is list and id(value) in ways.lists:
        return ONLY_ADDED_TO
    if kind in SEQUENCES:
        return (kind, None, tuple([flatten(v, leaves, ways) for v in value]))
    if kind is slice and LEAVES.issuperset(map(type, parts := (value.start, value.stop, value.step))):
        return (kind, None, tuple([flatten(v, leaves) for v in parts]))
    if kind is dict or (kind is OrderedDict and not is_more_than_items(value)):
        return (kind, keys_of(value), tuple([flatten(v, leaves, ways) for v in value.values()]))
    is_named = isinstance(value, tuple) and hasattr(kind, "_fields")
    if is_named and not is_more_than_items(value):
        return (kind, kind._fields, tuple([flatten(v, leaves, ways) for v in value]))
    if is_named or kind is OrderedDict or kind in ways.opened:
        keys, held = _taken_apart(value)
        return (kind, keys, tuple([flatten(v, leaves, ways) for v in held]))
    if ways.registered is not None and (node := ways.registered(kind)) is not None:
        held, context = node.flatten_fn(value)
        return (kind, Registered(node, context), tuple([flatten(v, leaves, ways) for v in held]))
    if kind not in ways.closed and dataclasses.is_dataclass(kind) and is_its_fields(value):
        names = tuple(f.name for f in dataclasses.fields(value))
        return (kind, names, tuple([flatten(getattr(value, n), leaves, ways) for n in names]))
    leaves.append(value)
    return LEAF


def _taken_apart(value: Any) -> tuple[Attributes | Derived, list[Any]]:
    """The names of an object's attributes, with its keys if it has items; and what it holds, items first."""
    base, held = base_of(value), held_by(value)
    if base is None:
        return Attributes(held), list(held.values())
    if base is list or base is tuple:
        return Derived(base, None, tuple(held)), [*base.__iter__(value), *held.values()]
    return Derived(base, keys_of(base.__iter__(value)), tuple(held)), [*base.values(value), *held.values()]


def held_by(value: Any) -> dict[str, Any]:
    """The attributes of an object that are not its class's: in its dictionary, or in slots if it has none."""
    return vars(value) if type(value).__dictoffset__ else in_slots(value)


def in_slots(value: Any) -> dict[str, Any]:
    """What an object holds in slots, of which some may be empty."""
    held: dict[str, Any] = {}
    for name, slot in slots_of(type(value)).items():
        with contextlib.suppress(AttributeError):
            held[name] = slot.__get__(value)
    return held


def slots_of(kind: type) -> dict[str, Any]:
    """The slots that code of a program gives instances of a class, those of its bases first."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        found |= vars(base)
    own = frozenset(name for base in kind.__mro__ if "__slots__" in vars(base) for name in vars(base))
    return {name: slot for name, slot in found.items() if name in own and type(slot) is MemberDescriptorType}


def is_more_than_items(value: Any) -> bool:
    """Whether a container has attributes beside its items, as those of some classes may."""
    return type(value).__dictoffset__ != 0 and bool(own_attributes(value))


def base_of(value: Any) -> Any:
    """The class whose items an object has: list, tuple, dict, OrderedDict or None."""
    if isinstance(value, tuple):  # as most are that are asked for at every call
        return tuple
    return next((base for base in (OrderedDict, dict, list) if isinstance(value, base)), None)


def is_its_fields(value: Any) -> bool:
    """Whether an instance of a dataclass has all its fields and no other attributes, and is no container besides."""
    if isinstance(value, (dict, list, set)):
        return False
    names = [f.name for f in dataclasses.fields(value)]
    if any(isinstance(getattr(type(value), n, None), property) for n in names):
        return False
    return own_attributes(value).keys() <= set(names) and all(hasattr(value, n) for n in names)


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
    if type(keys) is Registered:
        return keys.node.unflatten_fn(parts, keys.context)
    if kind is slice:
        return slice(*parts)
    if (kind is dict or kind is OrderedDict) and type(keys) is not Derived:
        return kind(zip(keys, parts, strict=True))
    if issubclass(kind, tuple) and type(keys) is not Derived:
        return tuple.__new__(kind, parts)  # a `__new__` of its own has run already
    if type(keys) is Attributes and kind.__dictoffset__:
        made = kind.__new__(kind)
        vars(made).update(zip(keys, parts, strict=True))
        return made
    if type(keys) is Derived:
        return _derived(kind, keys, parts)
    made = object.__new__(kind)
    for name, part in zip(keys, parts, strict=True):
        object.__setattr__(made, name, part)
    return made


def _derived(kind: type, keys: Derived, parts: list[Any]) -> Any:
    """An instance of a class with items: nothing of the class's own runs."""
    count = len(parts) - len(keys.names)
    made = keys.base.__new__(kind, *([parts[:count]] if keys.base is tuple else ()))
    if keys.base is list:
        list.extend(made, parts[:count])
    for key, part in zip(keys.keys or (), parts, strict=False):
        keys.base.__setitem__(made, key, part)
    held_by(made).update(zip(keys.names, parts[count:], strict=True))
    return made


def parts_in(
    structure: Structure, value: Any, place: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], Structure, Any]]:
    """What a value is taken apart into, but for plain leaves: where each part lies, its structure or mark, and itself.
    """
    yield place, structure, value
    if type(structure) is not tuple:
        return
    for step, child in zip(steps_of(structure), structure[2], strict=True):
        if type(child) is not str:
            yield from parts_in(child, part_of(value, step), (*place, step))


def nodes_in(structure: Structure, value: Any) -> Iterator[tuple[tuple[Any, ...], Structure, Any]]:
    """The same of containers and objects alone."""
    return (part for part in parts_in(structure, value) if type(part[1]) is tuple)


def is_record(structure: Structure) -> bool:
    """Whether a structure is that of an object that is taken apart into its attributes, fields and items."""
    if type(structure) is not tuple:
        return False
    kind, keys, _ = structure
    return type(keys) is Derived or not issubclass(kind, (tuple, list, dict, slice))


def records_in(structure: Structure) -> Iterator[type]:
    """The classes of such objects in a structure."""
    if is_record(structure):
        yield structure[0]
    for child in structure[2] if type(structure) is tuple else ():
        yield from records_in(child)


def fields_in(structure: Structure) -> Iterator[tuple[type, tuple[str, ...]]]:
    """The same with the names of the attributes that were taken."""
    if is_record(structure):
        kind, keys, _ = structure
        if type(keys) is not Registered:
            yield kind, keys.names if type(keys) is Derived else tuple(keys)
    for child in structure[2] if type(structure) is tuple else ():
        yield from fields_in(child)


def steps_of(structure: Structure) -> Iterable[Any]:
    """The steps to what lies in a container or object: positions and keys of items, names of attributes."""
    kind, keys, children = structure
    if type(keys) is Derived:
        items = range(len(children) - len(keys.names)) if keys.keys is None else keys.keys
        return (*items, *map(Attribute, keys.names))
    if kind is slice:
        return ("start", "stop", "step")
    return range(len(children)) if keys is None or issubclass(kind, tuple) else keys


def part_of(value: Any, step: Any) -> Any:
    """What lies at a step in a container or record, as its builtin class gives it."""
    if type(value) in (dict, list, tuple):
        return value[step]
    base = None if type(step) is Attribute else base_of(value)
    return getattr(value, step) if base is None else base.__getitem__(value, step)


def is_flat(structure: Structure) -> bool:
    """Whether a tuple of arguments consists of leaves only."""
    return structure[0] is tuple and all(c == LEAF or type(c) is Again for c in structure[2])
