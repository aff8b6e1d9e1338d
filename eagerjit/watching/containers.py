"""What containers hold, read and changed as their builtin classes do: classes of the user's may do more."""

from __future__ import annotations

import dataclasses
import gc
import sys
from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from collections.abc import Iterator, Set
from types import BuiltinFunctionType, MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from eagerjit.watching.library_in_python import OF_ANY, OF_LISTS

CONTAINERS = (list, dict, set, bytearray, deque)
"""What C code may change that gets it."""

_CHANGING = {
    list: "append extend insert remove pop clear sort reverse __setitem__ __delitem__ __iadd__ __imul__",
    dict: "update setdefault pop popitem clear move_to_end __setitem__ __delitem__ __ior__",
    set: "add discard remove pop clear update difference_update intersection_update symmetric_difference_update "
    "__ior__ __iand__ __isub__ __ixor__",
    bytearray: "append extend insert remove pop clear reverse __setitem__ __delitem__ __iadd__ __imul__",
    deque: "append appendleft extend extendleft insert remove pop popleft clear rotate reverse "
    "__setitem__ __delitem__ __iadd__ __imul__",
}
CHANGING = {kind: frozenset(names.split()) for kind, names in _CHANGING.items()}
"""The methods that change a container."""


def is_changing(container: Any, name: str) -> bool:
    """Whether a method changes a container."""
    return any(isinstance(container, kind) and name in names for kind, names in CHANGING.items())


_VIEWS: tuple[type, ...] = (MappingProxyType, type({}.keys()), type({}.values()), type({}.items()))


def behind(value: Any) -> list[Any]:
    """The containers that an object of the standard library shows or wraps: views, proxies, `UserDict` and the like."""
    if isinstance(value, (UserDict, UserList, WeakValueDictionary, WeakKeyDictionary)):
        return [value.data]  # type: ignore[union-attr]  # typeshed hides that of weak dictionaries
    if isinstance(value, ChainMap):
        return [inner for m in value.maps for inner in ([m] if isinstance(m, CONTAINERS) else behind(m))]
    return gc.get_referents(value) if isinstance(value, _VIEWS) else []


def is_memory(value: Any) -> bool:
    """Whether a value shows memory that C code may write: an array or a pointer of ctypes, a view of bytes."""
    ctypes = sys.modules.get("_ctypes")
    raw = ctypes is not None and isinstance(value, (ctypes.Array, ctypes._Pointer))
    return raw or (type(value) is memoryview and not value.readonly)


def items_of(value: Any) -> Any:
    """The items of a container (of a dict, its values), as the builtin class gives them: the user's may do more."""
    kinds: tuple[Any, ...] = list, tuple, deque, set, frozenset
    for kind in kinds:
        if isinstance(value, kind):
            return kind.__iter__(value)
    return dict.values(value) if isinstance(value, dict) else iter(value)


def size_of(container: Any) -> int:
    """How many items one of CONTAINERS holds, whatever a `__len__` of the user's says."""
    return next(kind for kind in CONTAINERS if isinstance(container, kind)).__len__(container)


def items_in_order(value: dict[Any, Any]) -> Any:
    """The items of a dictionary as its builtin class gives them: an OrderedDict keeps an order of its own."""
    return OrderedDict.items(value) if isinstance(value, OrderedDict) else dict.items(value)


def items_but(value: Any, changing: Set[tuple[int, Any]]) -> list[Any]:
    """The items of a container (of a dict, its values) but for those whose (container, key) are `changing`."""
    pairs = items_in_order(value) if isinstance(value, dict) else enumerate(items_of(value))
    return [item for key, item in pairs if (id(value), key) not in changing]


def parts_of(value: Any) -> list[Any]:
    """What lies in a tuple, list, dictionary or instance of a dataclass; nothing for other values."""
    if isinstance(value, (list, tuple, dict)):
        return list(items_of(value))
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else ()
    return [getattr(value, field.name) for field in fields if hasattr(value, field.name)]


def containers_in(value: Any, changing: Set[tuple[int, Any]] = frozenset()) -> list[Any]:
    """The lists, dictionaries and dataclasses that a value is made of, but for items in `changing`."""
    pending, found = [value], dict[int, Any]()
    while pending:
        value = pending.pop()
        if id(value) in found:
            continue
        if isinstance(value, (list, dict)) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
            found[id(value)] = value
        pending += items_but(value, changing) if isinstance(value, (list, tuple, dict)) else parts_of(value)
    return list(found.values())


def copy_of(container: Any) -> Any:
    """What a container holds, copied by its own method rather than by one that the user's class puts before it."""
    if isinstance(container, OrderedDict):
        return OrderedDict(items_in_order(container))
    kind = next((k for k in CONTAINERS if isinstance(container, k)), type(container))
    return kind.copy(container)


def same_contents(container: Any, before: Any) -> bool:
    """Whether a container holds the objects of a copy made before, in their order."""
    if isinstance(container, np.ndarray):
        return container.shape == before.shape and container.tobytes() == before.tobytes()
    if len(container) != len(before):
        return False
    container = copy_of(container)
    if isinstance(container, dict):
        return all(a is b and container[a] is before[b] for a, b in zip(container, before, strict=True))
    if isinstance(container, set):
        container, before = sorted(container, key=id), sorted(before, key=id)
    return all(a is b for a, b in zip(container, before, strict=True))


def restore_contents(container: Any, before: Any) -> None:
    """Let a container hold what it did when it was copied."""
    if isinstance(container, (list, bytearray)):
        type(before).__setitem__(container, slice(None), before)
    elif isinstance(container, np.ndarray):
        container[...] = before
    elif isinstance(container, deque):
        deque.clear(container)
        deque.extend(container, before)
    elif isinstance(container, OrderedDict):
        OrderedDict.clear(container)
        for key, value in before.items():
            OrderedDict.__setitem__(container, key, value)
    else:
        type(before).clear(container)
        type(before).update(container, before)


def call_method(target: Any, name: str, args: Any, kwargs: Any) -> None:
    """The container's own method: one that the user's class puts before it was watched itself."""
    kind, own = type(target), ("builtins", "collections")
    if kind is not list and kind is not dict:
        mro = kind.__mro__
        kind = next(k for k in mro if name in vars(k) and (k.__module__ in own or hasattr(k, "notes_changes")))
    getattr(kind, name)(target, *args, **kwargs)


TAKING_ITEMS = frozenset(
    "extend extendleft update difference_update intersection_update symmetric_difference_update "
    "__iadd__ __ior__ __iand__ __isub__ __ixor__".split()
)
"""The methods that change a container by the items of another."""


def as_taken(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a method, copied where it takes their items: the code may change them afterwards."""
    if name not in TAKING_ITEMS and not (name == "__setitem__" and isinstance(args[0], slice)):
        return args
    return tuple(map(_taken, args))


def _taken(items: Any) -> Any:
    listed: Any = (list, *_VIEWS[1:])
    if isinstance(items, listed):
        return list(items)
    return copy_of(items) if isinstance(items, CONTAINERS) else items


def is_consumed(value: Any) -> bool:
    """Whether taking items from a value leaves fewer for the next reader."""
    return isinstance(value, Iterator)


def in_python(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The Python function that is watched instead of C's with these arguments, None where there is none."""
    if type(function) is not BuiltinFunctionType or not args:
        return None
    found = OF_ANY.get(function) or (OF_LISTS.get(function) if type(args[0]) is list else None)
    return found if found is not None and not kwargs and len(args) == found.__code__.co_argcount else None
