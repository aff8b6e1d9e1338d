"""What a traced function returns, and what it gives to objects outside, as leaves and the structure to build it again.

Structures are those of `pytree`, with three more kinds: objects met again (AGAIN, number), containers of the arguments
(ARGUMENT, path), and instances of classes. Keys of dictionaries are as they are, but those that the call makes of the
user's classes (RECORD) are the first children. What was there before the call is a leaf: it is returned as it is.
`rebuilt` makes the values again.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Iterator
from types import CoroutineType, MethodType, SimpleNamespace
from typing import Any

import numpy as np

from eagerjit import pytree
from eagerjit.compiler.ir import Node
from eagerjit.effects.clocks import Later
from eagerjit.effects.journal import Journal
from eagerjit.guards.comparing import is_library_name
from eagerjit.guards.forms import is_its_slots
from eagerjit.pytree import LEAF, Derived, Structure
from eagerjit.recording.arrays import TracedArray, TracedNumber
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.recording.traced_ranges import TracedRange
from eagerjit.recording.traced_texts import Given, Piece, TracedText, tied
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.own_attributes import dictionary_of, own_attributes
from eagerjit.tensors.tensor import Shape, Tensor
from eagerjit.watching.observation import NotYet, TraceBreak

AGAIN, ARGUMENT, RECORD = "again", "argument", object()
_NUMBERS = (SymbolicInt, TracedFloat, bool, int, float, complex)


_ENDS = ("start", "stop", "step")
_LEAVES = (Tensor, *_NUMBERS, np.number, str, bytes, type(None), type, range, DType)


class Flattening:
    """Flattens values of one call; a container that several of them hold is built once."""

    def __init__(self, journal: Journal, source: str):
        self.journal, self.source = journal, source
        self.leaves: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.arrays: list[np.ndarray] = []
        self.plain = True
        self._alive: list[Any] = []

    def flatten(self, value: Any) -> Structure:
        """The structure of a value; its leaves are added. Raises TraceBreak for what cannot be built again."""
        kind = type(value)
        if kind is Later:
            self.plain = False
            return Later, value.function, tuple([self.flatten(a) for a in value.arguments])
        if kind is TracedText:
            self.plain = False
            parts = tuple([(p.write, p.specification) if type(p) is Piece else p for p in value.parts])
            return TracedText, parts, tuple([self.flatten(p.number) for p in value.parts if type(p) is Piece])
        if kind in (TracedArray, TracedNumber) and not self.journal.is_given(value):
            return self._of_numpy(value)
        if kind is Given:
            return ARGUMENT, value.path, ()
        if kind is TracedRange and id(value) in self.numbers:
            return AGAIN, self.numbers[id(value)], ()
        if kind in (slice, TracedRange):
            self.plain = False
            if kind is TracedRange:
                self.numbers[id(value)] = len(self.numbers)
                self._alive.append(value)
            return value.__class__, _ENDS, tuple([self.flatten(getattr(value, name)) for name in _ENDS])
        if kind is not TracedNumber and isinstance(value, _LEAVES) and kind is not Shape:
            if isinstance(value, Tensor) and type(value._data) is not Node and self.journal.is_outside(value):
                self.journal.tracer.value(value)  # from outside: a leaf, which every call gives itself
            self.leaves.append(value)
            return self._with_attributes(value) if isinstance(value, Tensor) else LEAF
        if self.journal.memoized.is_part(value):
            raise self.journal.refuse(f"it gives away a {kind.__name__} that a function keeps", self.source)
        if isinstance(value, tuple):
            if dictionary_of(value):
                raise self.journal.refuse(f"it gives a {kind.__name__} with attributes of its own", self.source)
            keys = kind._fields if hasattr(kind, "_fields") else None
            self.plain = self.plain and (kind is tuple or keys is not None)
            return kind, keys, tuple([self.flatten(v) for v in value])
        path = self.journal.paths.get(id(value))
        if path is not None:
            self.plain = False
            return ARGUMENT, path, ()
        if id(value) in self.numbers:
            self.plain = False
            return AGAIN, self.numbers[id(value)], ()
        if self._is_method_of_given(value):
            raise self.journal.refuse("it returns or keeps a method of an argument", self.source)
        if self.journal.is_outside(value) or self._is_method_of_outside(value):
            self.leaves.append(value)
            return LEAF
        self.numbers[id(value)] = len(self.numbers)
        self._alive.append(value)
        return self._made(value, kind)

    def _made(self, value: Any, kind: type) -> Structure:
        """The structure of an object that the call has made, met for the first time."""
        keys: tuple[Any, ...] | None
        if kind is list:
            return kind, None, tuple([self.flatten(v) for v in value])
        if kind in (dict, OrderedDict, Counter) and not pytree.is_more_than_items(value):
            self.plain = self.plain and kind is dict
            keys, records = self._keys(value, kind)
            return kind, keys, tuple([*records, *map(self.flatten, value.values())])
        if kind in (defaultdict, deque) and self.journal.is_outside(getattr(value, "default_factory", None)):
            self.plain = False
            if kind is deque:
                return kind, value.maxlen, tuple([self.flatten(v) for v in value])
            keys, records = self._keys(value)
            return kind, (value.default_factory, keys), tuple([*records, *map(self.flatten, value.values())])
        base = _base_of(kind)
        if base is not None:
            self.plain = False
            keys, records = (None, []) if base is list else self._keys(value, base)
            own = pytree.held_by(value)
            held = [*_items_of(value, base), *own.values()]
            return kind, Derived(base, keys, tuple(own)), tuple([*records, *map(self.flatten, held)])
        self.plain = self.plain and dataclasses.is_dataclass(kind)
        if kind in (set, frozenset):
            return kind, None, tuple([self.flatten(v) for v in value])
        if kind is np.ndarray:
            return self._array_made(value)
        if isinstance(value, CoroutineType):
            value.close()  # nobody will wait for it
        known = dataclasses.is_dataclass(kind) or kind is SimpleNamespace or _is_plain_class(kind)
        if isinstance(value, type) or not known:
            # Often the first call alone makes what later ones find, a copy of a Module in an attribute for example.
            ends = TraceBreak if isinstance(value, (Iterator, AsyncIterator, CoroutineType)) else NotYet
            raise self.journal.refuse(f"it makes a {kind.__name__} that lives on", self.source, ends)
        names = (*own_attributes(value), *pytree.in_slots(value))
        return kind, names, tuple([self.flatten(getattr(value, n)) for n in names])

    def _array_made(self, value: np.ndarray) -> Structure:
        """A leaf with what an array of the call's holds now."""
        if any(np.may_share_memory(value, other) for other in (*self.arrays, *self.journal.snapshots.arrays())):
            raise self.journal.refuse("it returns or keeps an array that shares memory with another", self.source)
        self.arrays.append(value)
        self.leaves.append(value.copy())
        return np.ndarray, None, (LEAF,)

    def _with_attributes(self, tensor: Tensor) -> Structure:
        """A tensor, which is a leaf already, with what attributes the call has given it."""
        names = tuple(vars(tensor)) if type(tensor._data) is Node and id(tensor) not in self.numbers else ()
        if not names:
            return LEAF
        self.plain = False
        self.numbers[id(tensor)] = len(self.numbers)
        return Tensor, names, (LEAF, *[self.flatten(vars(tensor)[name]) for name in names])

    def _is_method_of_outside(self, value: Any) -> bool:
        """Whether a value is a method of an object from outside: as good as the one that another call would make."""
        parts = (value.__self__, value.__func__) if type(value) is MethodType else (value,)
        return all(map(self.journal.is_outside, parts))

    def _is_method_of_given(self, value: Any) -> bool:
        """Whether a value is a method of an object that the next call finds another one in place of."""
        if type(value) is not MethodType:
            return False
        owner, tracer = value.__self__, self.journal.tracer
        if not isinstance(owner, Tensor):
            return id(owner) in self.journal.paths
        return id(owner) in tracer.leaf_of and tracer.is_found(tracer.leaf_of[id(owner)])

    def _of_numpy(self, value: Any) -> Structure:
        """A number of NumPy's, or an array that this call computes: NumPy, or a kernel in its place."""
        self.plain = False
        if type(value) is TracedNumber:
            return value.kind, None, (self.flatten(value.number),)
        shown, tracer = value.shown, self.journal.tracer
        computed = type(tracer.memory_of(value.tensor)._data) is Node
        if not (shown or computed or tracer.host.is_new(value.tensor)):
            raise self.journal.refuse("an array that it found outside is returned or kept", self.source)
        name = id(value if shown else value.tensor)
        if name in self.numbers:
            return AGAIN, self.numbers[name], ()
        self.numbers[name] = len(self.numbers)
        self._alive.append(value)
        self.leaves.append(value.tensor)
        return TracedArray, shown, (LEAF,)

    def _keys(self, value: dict[Any, Any], base: Any = dict) -> tuple[tuple[Any, ...], list[Structure]]:
        """The keys, RECORD for each one that every call makes anew, and the structures of these."""
        keys, found = list(base.__iter__(value)), list[Any]()
        pytree.flatten(keys, found)
        if any(isinstance(k, Tensor) for k in found):
            raise self.journal.refuse("it returns a dictionary whose keys are tensors", self.source)
        records = [key for key in keys if self._is_record(key)]
        self.plain = self.plain and not records
        return tuple(RECORD if self._is_record(k) else _plain_key(k) for k in keys), [*map(self.flatten, records)]

    def _is_record(self, key: Any) -> bool:
        """Whether a key is an object of the user's classes that this call has made or was given, or holds one."""
        if isinstance(key, (tuple, frozenset)):
            return any(map(self._is_record, key))
        if isinstance(key, type) or not (dataclasses.is_dataclass(key) or _is_plain_class(type(key))):
            return False
        return not self.journal.is_outside(key)


def _plain_key(key: Any) -> Any:
    """A key of a dictionary with this call's numbers, which its hash has tied the trace to."""
    if not isinstance(key, (tuple, frozenset)):
        return tied(key)
    parts = list(map(_plain_key, key))
    if all(part is own for part, own in zip(parts, key, strict=True)):
        return key
    return frozenset(parts) if isinstance(key, frozenset) else tuple.__new__(type(key), parts)


def _base_of(kind: type) -> Any:
    """What a class is derived from whose instances are a list or dictionary with attributes, and nothing else.

    None for other classes.
    """
    base: Any = next((b for b in (OrderedDict, dict, list) if issubclass(kind, b)), None)
    simple = base is not None and kind.__new__ is base.__new__ and not kind.__module__.startswith("eagerjit")
    whole = simple and (kind.__dictoffset__ != 0 or kind.__basicsize__ == base.__basicsize__)
    return base if whole and not pytree.slots_of(kind) else None


def _items_of(value: Any, base: Any) -> Iterable[Any]:
    """What a list or the values of a dictionary are, whatever their own class says."""
    return list.__iter__(value) if base is list else base.values(value)


def _is_plain_class(kind: type) -> bool:
    """Whether an instance is its attributes and nothing else."""
    plain = kind.__new__ is object.__new__ and kind.__reduce_ex__ is object.__reduce_ex__
    in_dictionary = any("__dict__" in vars(base) for base in kind.__mro__) and not pytree.slots_of(kind)
    in_slots = is_its_slots(kind) and not is_library_name(kind.__module__)
    return plain and not hasattr(kind, "_jit_state") and (in_dictionary or in_slots)


def leaves_along(structure: Structure, value: Any) -> Iterator[Any]:
    """The leaves of another value of a structure, in the order of `Flattening`; None for parts of texts and numbers."""
    if structure == LEAF:
        yield value
        return
    kind, keys, children = structure
    if kind in (AGAIN, ARGUMENT):
        return
    parts: Iterable[Any] = ()
    if kind is Tensor:
        parts = [value, *(vars(value)[name] for name in keys)]
    elif kind in (np.ndarray, TracedArray):
        parts = (value,)
    elif kind in (Later, TracedText) or issubclass(kind, np.generic):
        parts = [None] * len(children)
    elif type(keys) is Derived:
        own = [*_items_of(value, keys.base), *(vars(value)[name] for name in keys.names)]
        parts = [*_records(value, keys.keys or ()), *own]
    elif isinstance(value, (tuple, list, deque, set, frozenset)):
        parts = value
    elif isinstance(value, dict):
        parts = [*_records(value, keys[1] if kind is defaultdict else keys), *value.values()]
    else:
        parts = [getattr(value, name) for name in keys]
    for child, part in zip(children, parts, strict=True):
        yield from leaves_along(child, part)


def _records(value: Any, keys: tuple[Any, ...]) -> list[Any]:
    """The keys of a dictionary that every call makes."""
    return [own for own, key in zip(value, keys, strict=True) if key is RECORD] if keys else []


def finds_arguments(structure: Structure) -> bool:
    """Whether a value holds a container, or an array, of the call's arguments."""
    if type(structure) is not tuple:
        return False
    return structure[0] is ARGUMENT or any(map(finds_arguments, structure[2]))
