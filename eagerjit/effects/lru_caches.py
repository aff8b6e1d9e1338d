"""Functions behind `functools.lru_cache`: what they keep, looked at without calling them, and calls of compiled code.

A look counts as no call, moves nothing in the order of use, and runs no code of the user's. So versions compare what is
kept before anything is done, and call the function, as the plain call does, only when they have run.
"""

from __future__ import annotations

import enum
import functools
import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from eagerjit.compiler import sizes
from eagerjit.compiler.signature import IntLeaf, TensorLeaf
from eagerjit.devices import Device
from eagerjit.guards.serialized import has_text, text_of
from eagerjit.recording.numbers import SymbolicInt
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Shape
from eagerjit.watching.containers import containers_in

ABSENT = object()
Remembering = type(functools.lru_cache(lambda: None))
"""The class of functions that keep their results."""

_PLAIN = (int, float, complex, bool, str, bytes, type(None), DType, Device, type)
_MOST_SIZES = 1024


def is_plain(value: Any) -> bool:
    """Whether a value has nothing that could change, and is no stand-in for one of another call."""
    if type(value) in (tuple, frozenset):
        return all(map(is_plain, value))
    return type(value) in _PLAIN or isinstance(value, enum.Enum)


class Cache:
    """What a function keeps, by its arguments: the garbage collector knows where."""

    def __init__(self, function: Any):
        *_, entries, called, mark, _, _, own = gc.get_referents(function)
        found = type(entries) is dict and type(mark) is object and own is function.__dict__
        parameters = function.cache_parameters() if found and hasattr(function, "cache_parameters") else {}
        self.keeps = bool(parameters) and parameters["maxsize"] != 0
        self.function, self.called, self.entries = function, called, entries
        self._mark, self._typed = mark, parameters.get("typed")

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Where the result for these arguments is kept."""
        if not (kwargs or self._typed):
            return args[0] if len(args) == 1 and type(args[0]) in (int, str) else args
        named = (self._mark, *chain.from_iterable(kwargs.items())) if kwargs else ()
        kinds = tuple(map(type, (*args, *kwargs.values()))) if self._typed else ()
        return (*args, *named, *kinds)

    def result(self, key: Any) -> Any:
        """What is kept there; ABSENT for nothing."""
        entry = self.entries.get(key, ABSENT)
        if type(entry).__name__ != "_lru_list_elem":
            return entry
        known = next((k for k, other in list(self.entries.items()) if other is entry), ABSENT)
        _, *held = gc.get_referents(self.function)[:-6]  # keys, each with its result and the class of the entry
        keys = zip(held[::3], held[1::3], strict=False)
        return next((result for k, result in keys if k is known), ABSENT)


def with_numbers(value: Any, numbers: dict[str, int]) -> Any:
    """A value with the numbers of a call in the place of symbolic ones."""
    kind = type(value)
    if kind is SymbolicInt:
        return int(sizes.evaluate(value.expression, numbers))
    if kind in (tuple, list, Shape):
        return kind([with_numbers(x, numbers) for x in value])
    if kind is dict:
        return {with_numbers(k, numbers): with_numbers(v, numbers) for k, v in value.items()}
    return value


def symbols_in(value: Any) -> Iterator[str]:
    """The symbols of the symbolic numbers in a value."""
    if type(value) is SymbolicInt:
        yield from sizes.symbols(value.expression)
    elif isinstance(value, (tuple, list)):
        yield from chain.from_iterable(map(symbols_in, value))
    elif type(value) is dict:
        yield from chain.from_iterable(map(symbols_in, (*value, *value.values())))


def places_of(symbols: set[str], bindings: Sequence[Any], n_arguments: int) -> list[tuple[str, int, int]] | None:
    """Where calls find the numbers of symbols: which argument, and which of its sizes (-1: itself); None: elsewhere."""
    found: dict[str, tuple[str, int, int]] = {}
    for binding in bindings:
        if getattr(binding, "leaf", n_arguments) >= n_arguments:
            continue
        if isinstance(binding, IntLeaf):
            found[str(binding.size)] = str(binding.size), binding.leaf, -1
        elif isinstance(binding, TensorLeaf):
            for i, size in enumerate(binding.node.type.shape):
                found.setdefault(str(size), (str(size), binding.leaf, i))
    return [found[name] for name in sorted(symbols)] if symbols <= found.keys() else None


@record
class _Known:
    """A call with given numbers: its arguments, where its result is kept, what that should be; the entry found there
    last, with its result."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    key: Any
    expected: bytes | None
    found: tuple[Any, Any] = (ABSENT, None)


@dataclass(eq=False)
class KeptCall:
    """A call that compiled code makes of a function that keeps its results.

    places      where the numbers in the arguments are found; nothing where there are none
    result      with numbers, what the function was recorded to give for them; a call needs the same, if it finds any
    changed     the containers that the call changes, by identity: what it finds must be none of them
    """

    cache: Cache
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    places: list[tuple[str, int, int]] = field(default_factory=list)
    result: Any = None
    changed: frozenset[int] = frozenset()
    known: dict[tuple[int, ...], _Known] = field(default_factory=dict)

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Whether the function keeps nothing else than was recorded."""
        try:
            known = self._known(leaves)
        except (ArithmeticError, AttributeError, IndexError):  # arguments of another kind
            return False
        entry, found = self.cache.entries.get(known.key, ABSENT), known.found
        if entry is ABSENT:
            return True
        if entry is not found[0]:
            found = known.found = entry, self.cache.result(known.key)
        if self.changed and not self.changed.isdisjoint(map(id, containers_in(found[1]))):
            return False
        return has_text(found[1], known.expected)

    def arguments(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments in a call with these leaves."""
        if not self.places:
            return self.args, self.kwargs
        known = self._known(leaves)
        return known.args, known.kwargs

    def _known(self, leaves: Sequence[Any]) -> _Known:
        numbers = tuple([leaves[i] if d < 0 else leaves[i]._data.shape[d] for _, i, d in self.places])
        known = self.known.get(numbers)
        if known is None:
            named = {name: number for (name, *_), number in zip(self.places, numbers, strict=True)}
            args, kwargs = with_numbers(self.args, named), with_numbers(self.kwargs, named)
            expected = text_of(with_numbers(self.result, named))
            known = _Known(args, kwargs, self.cache.key(args, kwargs), expected)
            if len(self.known) >= _MOST_SIZES:
                self.known.clear()
            self.known[numbers] = known
        return known


@record
class Raised:
    """What a function has raised in the place of a result."""

    error: Exception


def given(result: Any) -> Any:
    """What a recording was given by a function; raises what that has raised."""
    if type(result) is Raised:
        raise result.error.with_traceback(None)
    return result


def call_kept(
    calls: Sequence[KeptCall], arguments: Mapping[KeptCall, Any], called: dict[tuple[Any, Any], Any]
) -> None:
    """Make the calls that compiled code has looked up; not, once each, those that its recording has made."""
    called = dict(called)
    for call in calls:
        args, kwargs = arguments.get(call) or (call.args, call.kwargs)
        known = called.pop((call.cache.function, call.cache.key(args, kwargs)), ABSENT) if called else ABSENT
        if known is ABSENT:
            call.cache.function(*args, **kwargs)
