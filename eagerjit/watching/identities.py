"""Code that asks which object an argument is: by `id`, as a key, by an `==` that is Python's own.

Objects among the arguments that are taken apart are copies while a call is recorded, and others in other calls. Where
code tells them apart, those of their class are known by identity instead.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import (
    BuiltinFunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.pytree import LEAVES
from eagerjit.watching.observation import ByIdentity
from eagerjit.watching.slots import Slot

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal

_OF_C = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, MethodWrapperType)
_LOOKING = frozenset(
    "isinstance issubclass type getattr hasattr setattr delattr vars callable len iter next super dir bool int float "
    "list tuple enumerate zip map filter reduce reversed sorted sum min max any all property staticmethod classmethod "
    "object partial append appendleft insert extend extendleft __setattr__ __delattr__ __getattribute__ __init__ "
    "__new__ __init_subclass__ __reduce__ __reduce_ex__ __getstate__ __dir__ __sizeof__ __format__".split()
)
"""Functions of C's that do the same with an object as with a copy of it."""

_ASKING = frozenset(("id", "is_", "is_not"))
"""Those that ask which object they are given, whatever its class; so do `object`'s own methods."""

_COMPARING = frozenset(
    "eq ne contains countOf indexOf index count remove add discard set frozenset fromkeys hash "
    "__eq__ __ne__ __contains__ __hash__".split()
)
"""Those that compare or hash what they are given with all that lies in it."""

_BY_KEY = frozenset("get pop setdefault getitem setitem delitem __getitem__ __setitem__ __delitem__".split())
"""Those that compare or hash nothing but a key."""

_WRITING = frozenset("repr str format format_map ascii print __repr__ __str__".split())
_TELLING = frozenset("str format format_map print __str__".split())
_OF_OBJECT = frozenset("__eq__ __ne__ __hash__ __repr__ __str__".split())

_CONTAINERS = (list, dict, OrderedDict)
_OF_ITEMS = (list, tuple, set, frozenset, deque)


def note_identity(journal: Journal, values: Iterable[Any], source: str) -> None:
    """Code asks which objects these are, or those that lie in containers among them."""
    _refuse(journal, filter(_is_itself, _copies(journal, values)), source)


def note_written(journal: Journal, values: Sequence[Any], source: str, as_repr: bool = True) -> None:
    """Code writes texts of values: as `repr` does, or `str` does, to which those that lie in others are `repr`'s."""
    if any(isinstance(x, np.ndarray) for value in values for x in (value, *_parts(value))):
        before = np.get_printoptions()
        journal.checks.append(lambda: np.get_printoptions() == before)
    told = [] if as_repr else [x for x in values if not _is_told_by_address(x)]
    found = (x for x in _copies(journal, values) if type(x).__repr__ is object.__repr__)
    _refuse(journal, (x for x in found if not any(x is y for y in told)), source)


def note_compared(journal: Journal, operands: Sequence[Any], source: str) -> None:
    """Code asks whether one object is the other."""
    others = [x for x in operands if not journal.is_given(x)]
    if len(others) == 1 and type(operands[0]) is type(operands[1]) and journal.is_outside(others[0]):
        _refuse(journal, (x for x in operands if _is_copy(journal, x)), source)


def note_equality(journal: Journal, operands: Sequence[Any], source: str) -> None:
    """Code asks whether values are equal."""
    if not any(type(x) in LEAVES or _is_of_leaves(x) for x in operands):
        note_identity(journal, operands, source)


def note_searched(journal: Journal, key: Any, holder: Any, source: str) -> None:
    """Code asks whether a value lies in another."""
    if type(key) not in LEAVES and not _is_of_leaves(holder):
        note_identity(journal, [key] if isinstance(holder, dict) else [key, *_parts(holder)], source)


def note_called(
    journal: Journal, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], source: str
) -> None:
    """Code is about to call something, which may be C code that tells objects apart."""
    if not isinstance(function, (*_OF_C, type)):
        return
    name = function.__name__
    if name in _ASKING:
        journal.tell_tuples_apart(args, source)
    if not journal.paths and name not in _WRITING:
        return
    if isinstance(function, type) and function.__module__ != "builtins":
        return
    bound = getattr(function, "__self__", None)
    given = [bound, *args] if isinstance(function, MethodWrapperType) else args
    if name in _ASKING or (name in _OF_OBJECT and getattr(function, "__objclass__", None) is object):
        _refuse(journal, filter(journal.is_given, given), source)
    elif name in _WRITING:
        as_repr = name not in _TELLING or (name != "print" and any(type(x) is str and "!" in x for x in given[:1]))
        note_written(journal, (*given, *kwargs.values()), source, as_repr)
    elif name in _COMPARING:
        note_identity(journal, given, source)
    elif name in _BY_KEY:
        first = 1 if bound is None or isinstance(bound, ModuleType) else 0
        note_identity(journal, args[first : first + 1], source)
    elif name not in _LOOKING or (function is iter and len(args) > 1):
        direct = [part for x in args for part in ((x, *x) if type(x) in (list, tuple) else (x,))]
        _refuse(journal, (x for x in direct if _is_copy(journal, x) and _is_itself(x)), source)


def _is_told_by_address(value: Any) -> bool:
    """Whether `str` of an object names its address."""
    kind = type(value)
    return kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__ and kind.__format__ is object.__format__


def _refuse(journal: Journal, objects: Iterable[Any], source: str) -> None:
    """End the recording where these are copies of the caller's: calls after it know such objects by identity."""
    for value in objects:
        kind, path = type(value), journal.paths[id(value)]
        slots = {(id(step.holder), step.key) for step in path[:1] if type(step) is Slot}
        journal.varying.left |= slots
        given = not slots and path[0] != 2
        problem = journal.refuse(f"it asks which {kind.__name__} it is given", source, ByIdentity)
        if given and isinstance(problem, ByIdentity):
            problem.kind = kind


def _is_itself(value: Any) -> bool:
    """Whether an object is equal to itself alone, or has its address for its hash."""
    kind = type(value)
    return kind.__eq__ is object.__eq__ or kind.__hash__ is object.__hash__


def _is_copy(journal: Journal, value: Any) -> bool:
    """Whether a value is the copy of an object of the caller's."""
    return journal.is_given(value) and type(value) not in _CONTAINERS and not isinstance(value, tuple)


def _copies(journal: Journal, values: Iterable[Any]) -> Iterator[Any]:
    """The copies of objects among values and in containers among these, however deep."""
    waiting, met = list(values), set[int]()
    while waiting and journal.paths:
        value = waiting.pop()
        if id(value) in met:
            continue
        met.add(id(value))
        waiting += _parts(value)
        if _is_copy(journal, value):
            yield value


def _parts(value: Any) -> list[Any]:
    """What is compared and written along with a value."""
    if isinstance(value, MethodType):
        return [value.__self__]
    if type(value) is SimpleNamespace:
        return list(vars(value).values())
    if isinstance(value, dict):
        return [*dict.keys(value), *dict.values(value)]
    kind: Any = next((kind for kind in _OF_ITEMS if isinstance(value, kind)), None)
    return [] if kind is None else list(kind.__iter__(value))


def _is_of_leaves(value: Any) -> bool:
    """Whether a container holds no objects."""
    return type(value) in _OF_ITEMS and LEAVES.issuperset(map(type, value))
