"""Library code that looks at functions and classes themselves: at annotations, signatures, documentation, members."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

from eagerjit.effects.journal import Journal
from eagerjit.guards.comparing import MUTABLE, contents, has_own_attributes
from eagerjit.runtime.source import is_library

_MODULES = frozenset(("inspect", "typing", "dataclasses", "annotationlib"))
_OF_FUNCTIONS = (
    "__annotations__", "__code__", "__defaults__", "__dict__", "__doc__", "__kwdefaults__", "__name__", "__qualname__",
)  # fmt: skip


class _AsDescribed:
    """Whether a function or a class is what it was when code looked at it."""

    def __init__(self, value: Any):
        self.value, self.kept = value, list[Any]()
        self.before = self._description(self.kept)

    def _description(self, kept: list[Any] | None) -> list[Any]:
        return [contents(part, kept) for part in _parts(self.value)]

    def __call__(self) -> bool:
        return self._description(None) == self.before


def note_described(journal: Journal, module: str, given: Iterable[Any]) -> None:
    """A function of a module of the library is given functions or classes of the program's, at which it may look."""
    for value in given if module in _MODULES else ():
        found = getattr(value, "__func__", value)
        if _is_programs(found) and journal.is_outside(found):
            journal.checks.append(_AsDescribed(found))


def _is_programs(value: Any) -> bool:
    if isinstance(value, FunctionType):
        return not is_library(value.__code__.co_filename)
    return isinstance(value, type) and has_own_attributes(value)


def _parts(value: Any) -> list[Any]:
    """What there is to see of it, one list or dictionary deep."""
    if isinstance(value, FunctionType):
        found = [getattr(value, name) for name in _OF_FUNCTIONS]
        wrapped = vars(value).get("__wrapped__")
        return found + (_parts(wrapped) if isinstance(wrapped, FunctionType) else [])
    tables = [dict(vars(kind)) for kind in value.__mro__ if has_own_attributes(kind)]
    names = [value.__name__, value.__qualname__, value.__module__, value.__doc__]
    return [*names, value.__mro__, *tables, *(x for held in tables for x in held.values() if isinstance(x, MUTABLE))]
