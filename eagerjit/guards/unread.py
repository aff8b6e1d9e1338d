"""Attributes of Modules that change from call to call, and that nothing in the function reads: counters, the epoch.

What Modules hold is compared as a whole, since code of the library reads it unseen. A name that occurs nowhere in that
code only the program can read, and that is watched.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from eagerjit.guards.comparing import has_state, is_plain

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal
    from eagerjit.recording.varying import Varying

_CHANGES = object()


def unread(owners: Iterable[Any], journal: Journal, varying: Varying) -> set[tuple[int, str]]:
    """(Module, name) of the attributes that earlier recordings have found otherwise, and that this one has not read."""
    modules = {id(m): m for o in owners if has_state(o) and hasattr(o, "modules") for m in o.modules()}
    whole = journal.whole | journal.tables.keys() | journal.handed_over.keys()
    found = set[tuple[int, str]]()
    for place, module in modules.items():
        varies = {(place, name) for name, value in vars(module).items() if _varies(varying, (place, name), value)}
        if place not in whole and (place, "__dict__") not in journal.objects_read:
            found |= varies - journal.objects_read.keys()
    return {(place, name) for place, name in found if not is_in_library(name)}


def is_in_library(name: str) -> bool:
    """Whether code about Modules has a name in it, so that it may read attributes that are called so."""
    return name in _names_in_library(len(sys.modules))


def _varies(varying: Varying, slot: tuple[int, str], value: Any) -> bool:
    """Whether an attribute was another one in an earlier recording."""
    if varying.seen is None:
        return False
    known = type(value), value if is_plain(value) else id(value)
    place = slot[0], (slot[1], _CHANGES)
    if varying.seen.setdefault(place, known) != known:
        varying.seen[place] = _CHANGES
    return varying.seen[place] is _CHANGES


@functools.lru_cache(maxsize=1)
def _names_in_library(n_modules: int) -> set[str]:
    """The names and texts in the code about Modules that is loaded, when so many modules are."""
    found = set[str]()
    for name, module in list(sys.modules.items()):
        for value in list(vars(module).values()) if name.startswith("eagerjit.nn") else ():
            for function in vars(value).values() if isinstance(value, type) else (value,):
                function = getattr(function, "__func__", getattr(function, "fget", function))
                if isinstance(function, FunctionType):
                    found.update(_names_in(function.__code__))
    return found


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _names_in(value)
        elif isinstance(value, str):
            yield value
        elif isinstance(value, tuple):
            yield from (x for x in value if isinstance(x, str))
