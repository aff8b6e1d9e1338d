"""What objects hold, comparable: whether they are as they were when a function was recorded."""

from __future__ import annotations

import array
import functools
import operator
import sys
from collections import deque
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from eagerjit.devices import Device
from eagerjit.guards.epochs import Table
from eagerjit.guards.serialized import has_text, text_of
from eagerjit.pytree import typed
from eagerjit.recording.arrays import LARGE
from eagerjit.runtime.own_attributes import dictionary_of, own_attributes
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.containers import CONTAINERS as _CONTAINERS
from eagerjit.watching.containers import containers_in, items_but, items_in_order, items_of, size_of
from eagerjit.watching.observation import WATCHED, TraceBreak, user_line

PLAIN = (int, float, str, bool, bytes, type(None), complex)
MUTABLE = (list, dict, set, deque, bytearray, array.array, np.ndarray)

_TOLD_BY_FUNCTIONS = frozenset(("__annotations__", "__doc__", "__module__", "__name__", "__qualname__"))
"""What code may ask of functions, and assign: what they run is guarded where they are called."""

_MADE_BY_CODE = 1 << 9
"""The flag of classes that a `class` statement made."""


def is_plain(value: Any) -> bool:
    """Whether a value is known by its class and what it equals, which objects with attributes of their own are not."""
    return type(value) in PLAIN or (isinstance(value, PLAIN) and dictionary_of(value) is None)


def is_by_value(value: Any) -> bool:
    """Whether an argument that is no input is known by what it equals: the `==` of other objects is their own code."""
    return is_plain(value) or type(value) in (range, Device)


def attributes_of(value: Any) -> dict[str, Any]:
    """What an object holds in its dictionary and in its slots."""
    held = {}
    for kind in reversed(type(value).__mro__):
        for name in _slots(kind):
            with suppress(AttributeError):  # a slot may be empty
                held[name] = vars(kind)[name].__get__(value)
    return own_attributes(value) | held


def has_attributes(value: Any) -> bool:
    """Whether an object holds attributes of its own, and with slots nothing else, as weak references do."""
    kinds = type(value).__mro__
    hidden = next(kind for kind in kinds if not kind.__flags__ & _MADE_BY_CODE) is not object
    return dictionary_of(value) is not None or (not hidden and any(map(_slots, kinds)))


def _slots(kind: type) -> list[str]:
    return [name for name, found in vars(kind).items() if isinstance(found, MemberDescriptorType)] if (
        "__slots__" in vars(kind)
    ) else []  # fmt: skip


def is_pythons(value: Any) -> bool:
    """Whether an object with attributes is of a class of Python's library, whose code reads them unseen."""
    kind = type(value)
    if dictionary_of(value) is None or isinstance(value, (type, ModuleType, FunctionType, MethodType, *_CONTAINERS)):
        return False
    return kind.__module__.partition(".")[0] in sys.stdlib_module_names - {"builtins"}


def has_own_attributes(value: Any) -> bool:
    """Whether attributes read from a value need guards: not those of tensors, functions, most library objects."""
    if isinstance(value, (Tensor, FunctionType, BuiltinFunctionType, MethodType)) or is_plain(value):
        return False
    if isinstance(value, (type, ModuleType)):
        if isinstance(value, type) and value.__module__ in WATCHED:
            return True
        return not is_library_name(value.__module__ if isinstance(value, type) else value.__name__)
    module = type(value).__module__
    return (module in WATCHED or not module.startswith("eagerjit")) and not has_state(value)


def needs_guard(owner: Any, name: str) -> bool:
    """Whether an attribute read from a value needs a guard of its own.

    What Modules and optimizers hold is part of their structure, except containers, which change without their notice.
    """
    if isinstance(owner, FunctionType):
        return not name.startswith("__") or name in _TOLD_BY_FUNCTIONS or name in own_attributes(owner)
    if has_state(owner):
        found = own_attributes(owner).get(name)
        found = next((vars(c)[name] for c in type(owner).__mro__ if name in vars(c)), None) if found is None else found
        return isinstance(found, MUTABLE) or holds_containers(found)
    return has_own_attributes(owner)


def is_library_name(name: str) -> bool:
    """Whether a module belongs to eagerjit, NumPy or the standard library."""
    name = name.partition(".")[0]
    return name in sys.stdlib_module_names or name in ("eagerjit", "numpy", "torch")


def is_flat(value: Any, changing: Set[tuple[int, Any]] = frozenset()) -> bool:
    """Whether a container is a list or dictionary of nothing but plain values and objects known by identity.

    Native code compares these with a copy. None of their items may be in `changing`.
    """
    if type(value) not in (list, dict, Table) or any(holder == id(value) for holder, _ in changing):
        return False
    items = value if type(value) is list else [*value, *value.values()]
    return not any(isinstance(x, (*MUTABLE, tuple, frozenset, complex, bytes)) for x in items)


def holds_containers(value: Any) -> bool:
    """Whether something that may change lies in a tuple."""
    return isinstance(value, tuple) and any(isinstance(x, MUTABLE) or holds_containers(x) for x in value)


class Unchanged:
    """Whether a container holds what it held; what it held is kept alive, so that identities mean something.

    `changing` are the (container, key) that need not be as they were. Without `within`, containers in it need only be
    the same ones, as those have to be that the function changes: see `mark`.
    """

    def __init__(self, value: Any, changing: Set[tuple[int, Any]], within: bool = True):
        self.kept: list[Any] = []
        self.changing, self.within = changing, within
        self.value, self.marked = value, frozenset[int]()
        self.before = contents(value, self.kept, changing, within)
        sized = isinstance(value, _CONTAINERS) and not hasattr(type(value), "holds_options")
        self.size = size_of(value) if sized else None
        holders = {holder for holder, _ in changing}
        self.keys = _keys_alone(value, self.before)
        self.text = text_of(value) if within and holders.isdisjoint(map(id, containers_in(value))) else None

    def __call__(self) -> bool:
        if self.size is not None and size_of(self.value) != self.size:
            return False  # lists that grow are not looked through
        if self.keys is not None:
            return _has_keys(self.value, self.keys)
        if self.text is not None:
            return has_text(self.value, self.text)
        return bool(contents(self.value, None, self.changing, self.within, self.marked) == self.before)

    def of_others(self, others: dict[int, Any]) -> Unchanged | None:
        """The same where others are in the place of some objects, by their ids; None where that does not hold of them.

        What is known by identity alone is a bare number in what containers held. What held one of these others already
        told it from the object that it is in the place of now.
        """
        places = {place: id(other) for place, other in others.items()}
        if not _numbers_in(self.before).isdisjoint(set(places.values()) - places.keys()):
            return None
        changing = {(places.get(place, place), key) for place, key in self.changing}
        made = Unchanged(others.get(id(self.value), self.value), changing, self.within)
        if self.marked:
            made.mark(frozenset(places.get(place, place) for place in self.marked))
        return made if made.before == _with_others(self.before, places) else None

    def mark(self, marked: frozenset[int]) -> None:
        """Compare containers with these ids, which the function changes, by identity as well."""
        before = contents(self.value, None, self.changing, self.within, marked)
        if before != self.before:
            self.before, self.marked, self.text = before, marked, None
            self.keys = _keys_alone(self.value, contents(self.value, None, self.changing, self.within))


def _keys_alone(value: Any, before: Any) -> list[Any] | None:
    """The keys of a dictionary of whose items nothing else matters, by what it held; else None."""
    if type(value) is not dict or not all(part is True and not isinstance(key, Tensor) for key, part in before[1]):
        return None
    return [*value]


def _has_keys(value: dict[Any, Any], keys: list[Any]) -> bool:
    if len(value) != len(keys):
        return False
    return all(map(operator.is_, value, keys)) or [*map(key_of, value)] == [*map(key_of, keys)]


def _numbers_in(before: Any) -> set[int]:
    if type(before) is tuple:
        return set().union(*map(_numbers_in, before))
    return {before} if type(before) is int else set()


def _with_others(before: Any, places: dict[int, int]) -> Any:
    if type(before) is tuple:
        return tuple([_with_others(part, places) for part in before])
    return places.get(before, before) if type(before) is int else before


def contents(
    value: Any,
    kept: list[Any] | None = None,
    changing: Set[tuple[int, Any]] = frozenset(),
    within: bool = True,
    marked: Set[int] = frozenset(),
) -> Any:
    """What a container holds, comparable: numbers and strings by value, others by identity; `kept` keeps these.

    Containers in `marked` are known by both. What holds itself is like nothing else: no recording keeps it.
    """
    try:
        return _contents(value, kept, changing, within, marked)
    except RecursionError:
        if kept is not None:
            raise TraceBreak("a container that it reads holds itself", user_line()) from None
        return object()


def _contents(
    value: Any, kept: list[Any] | None, changing: Set[tuple[int, Any]], within: bool, marked: Set[int]
) -> Any:
    if id(value) in marked:
        return id(value), _contents(value, kept, changing, within, marked - {id(value)})

    def inner(v: Any) -> Any:
        if within or is_plain(v):
            return _contents(v, kept, changing, True, marked)
        if kept is not None:
            kept.append(v)
        return id(v)

    if isinstance(value, dict) and hasattr(type(value), "holds_options"):  # compiled calls read options themselves
        if kept is not None:
            kept.append(value)
        return id(value), tuple([key_of(k, kept) for k in value])
    kind = type(value)
    if isinstance(value, dict):
        items = items_in_order(value)
        return kind, tuple([(key_of(k, kept), (id(value), k) in changing or (inner(v),)) for k, v in items])
    if isinstance(value, (list, deque)):
        parts = [None if (id(value), i) in changing else inner(v) for i, v in enumerate(items_of(value))]
        return kind, tuple(parts)
    if isinstance(value, (tuple, set, frozenset)):
        return kind, tuple([inner(v) for v in items_of(value)])  # of sets in their order, which the code may see
    if isinstance(value, bytearray):
        return kind, bytes(value)
    if isinstance(value, np.ndarray) and value.nbytes <= LARGE:
        if state.tracer is not None:
            state.tracer.constant_arrays[id(value)] = value
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, array.array):
        return value.typecode, value.tobytes()
    if is_plain(value) or kind is range:
        return typed(value)
    if kept is not None:
        kept.append(value)
    return id(value)


def key_of(key: Any, kept: list[Any] | None = None) -> Any:
    """A dictionary's key, comparable: code tells keys apart that are found as the same, as 1, True and 1.0 are.

    What is known by identity alone, as keys whose class says what they equal, is kept in `kept`.
    """
    kind = type(key)
    if kind in (str, int, bytes):
        return key
    if kind is tuple:
        return kind, tuple([key_of(part, kept) for part in key])
    if kind in PLAIN or kind is range:
        return typed(key)
    if kept is not None:
        kept.append(key)
    return (id(key),)


def state_of(
    value: Any, kept: list[Any], marked: Set[int] = frozenset(), seen: dict[int, int] | None = None
) -> Any:
    """What an object holds, and what that holds in turn, comparable; `kept` keeps what is known by identity.

    What is met again is the number under which it was met first. Containers in `marked` are known by identity as well.
    """
    seen = {} if seen is None else seen
    sequence = isinstance(value, (list, tuple, deque))
    plain = has_own_attributes(value) and not isinstance(value, (type, ModuleType)) and has_attributes(value)
    if not (plain or sequence or isinstance(value, dict)):
        return contents(value, kept, marked=marked)
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = len(seen)
    kind = (type(value), id(value)) if id(value) in marked else type(value)
    if sequence:
        return kind, tuple([state_of(v, kept, marked, seen) for v in items_of(value)])
    held = value if isinstance(value, dict) else attributes_of(value)
    return kind, tuple([(key_of(k, kept), state_of(v, kept, marked, seen)) for k, v in items_in_order(held)])


def unchanged(value: Any, marked: Set[int], written: Set[Any] = frozenset()) -> Callable[[], bool]:
    """A guard for all that an object holds, and what that holds in turn; see `state_of`.

    Of a dictionary that code reads after it has `written` items, what these held does not matter.
    """
    text, kept = text_of(value), list[Any]()
    if written:
        before = _but(value, written, kept, marked)
        if (keys := _keys_alone(value, before)) is not None:
            return functools.partial(_has_keys, value, keys)
        return functools.partial(_is_as_before_writing, value, before, kept, marked, written)
    if text is not None and marked.isdisjoint(map(id, containers_in(value))):
        return lambda: has_text(value, text)
    return functools.partial(_is_as_before, value, state_of(value, kept, marked), kept, marked)


def _is_as_before(value: Any, before: Any, kept: list[Any], marked: Set[int]) -> bool:
    return bool(state_of(value, [], marked) == before)


def _but(value: dict[Any, Any], written: Set[Any], kept: list[Any], marked: Set[int]) -> Any:
    """What a dictionary holds but for these items, of which there are the keys."""
    parts = [(key_of(k, kept), k in written or (state_of(v, kept, marked),)) for k, v in items_in_order(value)]
    return type(value), tuple(parts)


def _is_as_before_writing(value: Any, before: Any, kept: list[Any], marked: Set[int], written: Set[Any]) -> bool:
    return bool(_but(value, written, [], marked) == before)


def has_state(value: Any) -> bool:
    """Whether an object tells the structure that compiled calls depend on, as Modules and Optimizers do."""
    return hasattr(type(value), "_jit_state")


def stateful_in(value: Any) -> list[Any]:
    """What tells its structure in a value, and in what that holds: Modules, optimizers."""
    pending, seen, found = [value], set[int](), []
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if has_state(value) and not isinstance(value, type):
            found.append(value)
        elif isinstance(value, (list, tuple, set, frozenset, dict, deque)):
            pending += items_of(value)
        elif has_own_attributes(value) and not isinstance(value, (type, ModuleType)):
            pending += attributes_of(value).values()
    return found


def tensors_in(
    values: list[Any], leaves_out: Callable[[Any], bool], changing: Set[tuple[int, Any]] = frozenset()
) -> Iterator[Tensor]:
    """The tensors that objects hold: containers but for some and for items in `changing`, Modules, optimizers."""
    stack, seen = list(values), set()
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple, set, frozenset, dict)):
            stack += () if leaves_out(value) else items_but(value, changing)
            stack += value if isinstance(value, dict) and not leaves_out(value) else ()  # its keys
        elif has_state(value) and hasattr(value, "parameters"):
            stack += [*value.parameters(), *value.buffers()]
        elif has_state(value) and hasattr(value, "param_groups"):
            stack += [value.param_groups, value.state]


class Hooks:
    """The hooks of outside tensors that gradients may reach: adding or removing one makes another version."""

    def __init__(self, tensors: list[Tensor]):
        self.tensors = tensors

    def _jit_state(self, changing: Set[tuple[int, Any]]) -> Any:
        """Every tensor's hooks by kind, comparable."""
        return [[(k, list(hooks.values())) for k, hooks in (t._hooks or {}).items() if hooks] for t in self.tensors]
