"""Functions as their code and what lies in their closures, so that one made anew by the same code is known again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import lru_cache, partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np

from eagerjit import pytree
from eagerjit.guards.comparing import is_library_name
from eagerjit.runtime.instructions import instructions
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Tensor

Key = Any
"""What functions of one kind have in common, hashable: what `closed` makes one of."""

_GIVEN = (Tensor, np.ndarray)
_NUMBERS = (int, float)
_CONTAINERS = (list, tuple, dict)
_TEXTS = (str, bool)
_MOST_ITEMS = 256


class Same:
    """The key of one object and no other, which it keeps."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return type(other) is Same and self.value is other.value


class Transform(NamedTuple):
    """How a function was made: it is `again(func)`."""

    again: partial[Callable[..., Any]]
    func: Callable[..., Any]


def transform_of(function: Any) -> Transform | None:
    """The transform that made a function; not that of one which a function of the user's wraps."""
    if type(function) is not FunctionType or not is_library_name(function.__globals__.get("__name__", "")):
        return None
    return vars(function).get("_transform")


@record
class Opened:
    """What a function was taken apart to: a key, what lies in its closures, and the cells where that lies."""

    key: Key = None
    contents: list[Any] = field(default_factory=list)
    cells: list[CellType] = field(default_factory=list)
    _around: list[Any] = field(default_factory=list)

    def function(self, value: Any) -> Key:
        """The key of a function or another object. Raises TypeError for options that make no key."""
        made = transform_of(value)
        if made is not None:
            return self.transform(made)
        if type(value) is MethodType:
            return MethodType, self.function(value.__func__), self._part(value.__self__)
        if type(value) is partial and not vars(value):
            keywords = value.keywords
            return partial, self.function(value.func), self.parts(value.args), tuple(keywords), self.parts(
                keywords.values()
            )
        if type(value) is not FunctionType or not _is_its_code(value) or any(value is x for x in self._around):
            self.contents.append(value)
            return Same(value)
        self._around.append(value)
        try:
            return self._code(value)
        finally:
            self._around.pop()

    def transform(self, made: Transform) -> Key:
        """The key of a function that a transform has made."""
        options: list[Any] = []
        structure = pytree.flatten(made.again.keywords, options)
        kinds = tuple(map(type, options))
        return Transform, made.again.func, structure, kinds, tuple(options), self.function(made.func)

    def _code(self, function: FunctionType) -> Key:
        cells, keywords = function.__closure__ or (), function.__kwdefaults__ or {}
        self.cells += cells
        values = self.parts([c.cell_contents for c in cells])
        defaults = self.parts(function.__defaults__ or ())
        return (
            FunctionType, Same(function.__code__), Same(function.__globals__), function.__name__, values, defaults,
            tuple(keywords), self.parts(keywords.values()),
        )  # fmt: skip

    def parts(self, values: Any) -> tuple[Key, ...]:
        """The keys of what lies in a function: texts, which objects, and None for what may be another in every call."""
        return tuple(map(self._part, values))

    def _part(self, value: Any) -> Key:
        kind = type(value)
        if kind in _TEXTS:
            return kind, value
        if isinstance(value, _GIVEN) or kind in _NUMBERS or (kind in _CONTAINERS and len(value) <= _MOST_ITEMS):
            self.contents.append(value)
            return None
        return self.function(value)


def opened(made: Transform) -> Opened | None:
    """What a transform has made, taken apart; None where it cannot be."""
    found = Opened()
    try:
        found.key = found.transform(made)
        hash(found.key)
    except (TypeError, ValueError, RecursionError):  # an option that makes no key, or an empty cell
        return None
    return found


def closed(key: Key, contents: Iterator[Any]) -> Any:
    """A function again, from its key and what lies in it."""
    if key is None or type(key) is Same:
        return next(contents)
    kind, *parts = key
    if kind is Transform:
        again, structure, _, options, func = parts
        return again(closed(func, contents), **pytree.unflatten(structure, options))
    if kind is MethodType:
        return MethodType(*_all(parts, contents))
    if kind is partial:
        func = closed(parts[0], contents)
        args, names, values = parts[1:]
        return partial(func, *_all(args, contents), **dict(zip(names, _all(values, contents), strict=True)))
    if kind is FunctionType:
        code, globals_, name, values, defaults, names, keywords = parts
        cells = tuple(map(CellType, _all(values, contents)))
        made = FunctionType(code.value, globals_.value, name, tuple(_all(defaults, contents)) or None, cells)
        made.__kwdefaults__ = dict(zip(names, _all(keywords, contents), strict=True)) or None
        return made
    return parts[0]


def _all(keys: Sequence[Key], contents: Iterator[Any]) -> list[Any]:
    return [closed(key, contents) for key in keys]


def _is_its_code(function: FunctionType) -> bool:
    """Whether a function is its code and what lies in its closure, which it only reads."""
    return not vars(function) and not _writes_closure(function.__code__)


@lru_cache(maxsize=1024)
def _writes_closure(code: CodeType) -> bool:
    """Whether a function, or one made in it, writes to cells of a function around it."""
    writes = ("STORE_DEREF", "DELETE_DEREF")
    if any(i.opname in writes and i.argval in code.co_freevars for i in instructions(code)):
        return True
    return any(isinstance(c, CodeType) and _writes_closure(c) for c in code.co_consts)
