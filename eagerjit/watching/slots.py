"""Where Python code keeps values: attributes, items of containers, and variables of enclosing functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from eagerjit.pytree import part_of
from eagerjit.runtime.own_attributes import dictionary_of, own_attributes
from eagerjit.runtime.records import record
from eagerjit.watching.observation import is_internal

ABSENT = object()
_TABLES = ("_buffers", "_parameters", "_modules")


def _look_attribute(holder: Any, name: str) -> Any:
    own = own_attributes(holder)
    if name in own:
        return own[name]
    for table in _TABLES if hasattr(type(holder), "_jit_state") else ():
        if name in own.get(table, ()):
            return own[table][name]
    for owner in type(holder).__mro__:
        if name in vars(owner) and hasattr(vars(owner)[name], "__set__"):
            return getattr(holder, name, ABSENT)
    return ABSENT


def table_of(holder: Any, name: Any) -> dict[Any, Any] | None:
    """The dictionary in which an item or attribute lies: of Modules some lie in tables."""
    own = holder if isinstance(holder, dict) else dictionary_of(holder)
    if own is None or name in own or not hasattr(type(holder), "_jit_state"):
        return own
    return next((own[table] for table in _TABLES if name in own.get(table, ())), own)


def _store_attribute(holder: Any, name: str, value: Any) -> None:
    """As the code did that was watched: past a `__setattr__` of the class, which is code of its own."""
    if type(holder).__setattr__ is object.__setattr__:
        return object.__setattr__(holder, name, value)
    own_method(holder, "__setattr__")(holder, name, value)


def _delete_attribute(holder: Any, name: str) -> None:
    own_method(holder, "__delattr__")(holder, name)


def own_method(holder: Any, name: str) -> Any:
    """What assigns or deletes attributes where no code of the user's does: Modules and proxies have their own."""
    if isinstance(holder, type):
        return getattr(type, name)
    first = getattr(type(holder), name)
    if not isinstance(first, FunctionType) or is_internal(first.__code__):
        return first
    found = (vars(kind)[name] for kind in type(holder).__mro__ if name in vars(kind))
    return next(f for f in found if not isinstance(f, FunctionType) or is_internal(f.__code__))


def _look_item(holder: Any, key: Any) -> Any:
    try:
        return holder[key] if not isinstance(holder, dict) else dict.get(holder, key, ABSENT)
    except (KeyError, IndexError):
        return ABSENT


def _look_cell(holder: Any, key: Any) -> Any:
    try:
        return holder.cell_contents
    except ValueError:
        return ABSENT


def _store_item(holder: Any, key: Any, value: Any) -> None:
    holder[key] = value


def _delete_item(holder: Any, key: Any) -> None:
    del holder[key]


def _store_cell(holder: Any, key: Any, value: Any) -> None:
    holder.cell_contents = value


def _delete_cell(holder: Any, key: Any) -> None:
    del holder.cell_contents


LOOK = {"attribute": _look_attribute, "item": _look_item, "cell": _look_cell}
STORE: dict[str, Callable[..., None]] = {"attribute": _store_attribute, "item": _store_item, "cell": _store_cell}
DELETE: dict[str, Callable[..., None]] = {"attribute": _delete_attribute, "item": _delete_item, "cell": _delete_cell}


def look(holder: Any, key: Any, kind: str) -> Any:
    """What an attribute, an item or a variable holds, ABSENT for nothing."""
    return LOOK[kind](holder, key)


def classes_of(holder: Any) -> tuple[type, ...]:
    """The classes in which attributes of an object, or of a class, are looked for."""
    return (*type(holder).__mro__, *(holder.__mro__ if isinstance(holder, type) else ()))


def position(values: list[Any], key: Any) -> Any:
    """An index from the end as one from the start, other keys as they are."""
    return key + len(values) if type(key) is int and -len(values) <= key < 0 else key


def is_key(value: Any) -> bool:
    """Whether dictionaries take a value as a key, as far as no code of the program tells."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_key, value))
    return type(value).__hash__ is not None


@record(frozen=True)
class Slot:
    """Where a tensor is found when the compiled function is called: there, or at a path of keys within."""

    holder: Any
    key: Any
    kind: str
    path: tuple[Any, ...] = ()

    def __hash__(self) -> int:
        return hash((id(self.holder), self.key, self.path))

    def __eq__(self, other: object) -> bool:
        alike = isinstance(other, Slot) and other.holder is self.holder and other.path == self.path
        if not alike or other.key is self.key:  # type: ignore[attr-defined]
            return alike
        return not hasattr(self.key, "_data") and other.key == self.key  # type: ignore[attr-defined]

    def read(self) -> Any:
        """What it holds now, or its class where it holds nothing itself: what compiled code loads from there."""
        held = LOOK[self.kind](self.holder, self.key)
        if held is ABSENT and self.kind == "attribute":
            held = getattr(self.holder, self.key, ABSENT)
        return functools.reduce(part_of, self.path, held)


def read_all(slots: Iterable[Slot]) -> dict[Slot, Any]:
    """What slots hold now. For all that lies in one container, that is looked for once."""
    found, containers = dict[Slot, Any](), dict[tuple[int, str, Any], Any]()
    for slot in slots:
        if not slot.path:
            found[slot] = slot.read()
            continue
        place = id(slot.holder), slot.kind, slot.key
        if place not in containers:
            containers[place] = Slot(slot.holder, slot.key, slot.kind).read()
        found[slot] = functools.reduce(part_of, slot.path, containers[place])
    return found


class _NumberSlot:
    """Where a float of NumPy's is found; as a guard it looks there again, and keeps the Python number."""

    def __init__(self, holder: Any, key: Any, kind: str, number: float):
        self.look, self.number = functools.partial(LOOK[kind], holder, key), number

    def __call__(self) -> bool:
        found = self.look()
        if type(found) is not np.float64:
            return False
        self.number = float(found)
        return True


def found_at(holder: Any, key: Any, kind: str, value: Any, checks: list[Callable[[], bool]]) -> Slot:
    """Where compiled calls find a tensor or number: there, or where one of `checks` puts what they can read."""
    if type(value) is not np.float64:
        return Slot(holder, key, kind)
    checks.append(found := _NumberSlot(holder, key, kind, float(value)))
    return Slot(found, "number", "attribute")


class Path(tuple[Any, ...]):
    """Where a container lies that a call was given or found: positions and keys, from its (args, kwargs) or a Slot."""

    def find(self, call: Any) -> Any:
        """The container of this call."""
        for step in self:
            call = call.found[step] if type(step) is Slot else part_of(call, step)
        return call


@record(frozen=True)
class Item:
    """A result of NumPy's: its place in the list that is an argument of the compiled call."""

    leaf: int
    index: int


class GradientOf:
    """Where a call finds the gradient that a tensor has when it begins: with the tensor at a place."""

    def __init__(self, place: Any):
        self.place = place

    def owner(self, arguments: Sequence[Any]) -> Any:
        """The tensor of a call with these arguments."""
        known = type(self.place) is not Slot or isinstance(arguments, Arguments)
        return value_at(self.place, arguments) if known else self.place.read()

    def read(self, arguments: Sequence[Any]) -> Any:
        """The gradient that the tensor has now."""
        return self.owner(arguments)._grad


class Arguments(tuple[Any, ...]):
    """The arguments of a call with what it found in objects that it changes, and the gradients that it found."""

    slots: dict[Slot | GradientOf, Any]


def value_at(place: Any, arguments: Sequence[Any]) -> Any:
    """A tensor or number of a call: an argument by position, a result of NumPy's, what lay in a slot or was a gradient,
    or itself."""
    if type(place) is int:
        return arguments[place]
    if type(place) is Item:
        return arguments[place.leaf][place.index]
    return arguments.slots[place] if type(place) in (Slot, GradientOf) else place  # type: ignore[attr-defined]


_MOVING = (int, Item, Slot, GradientOf)


class Places:
    """Where several tensors and numbers of a call are; those that every call has are looked for once."""

    __slots__ = ("_fixed", "_moving")

    def __init__(self, places: Iterable[Any] = ()):
        self._fixed = list(places)
        self._moving = [(i, place) for i, place in enumerate(self._fixed) if type(place) in _MOVING]

    def plain(self) -> list[Any] | None:
        """The places, if each is an argument of the call or something that every call has."""
        return None if any(type(place) is not int for _, place in self._moving) else self._fixed

    def values(self, arguments: Sequence[Any]) -> list[Any]:
        """What lies there in a call with these arguments, in order."""
        found = self._fixed.copy()
        for i, place in self._moving:
            found[i] = value_at(place, arguments)
        return found
