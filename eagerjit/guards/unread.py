"""Attributes of Modules that change from call to call, and that nothing in the function reads: counters, the epoch.

What Modules hold is compared as a whole, since code of the library reads it unseen. A name that occurs nowhere in that
code only the program can read, and that is watched.
"""

from __future__ import annotations

import dis
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
_PACKAGE = "eagerjit.nn"
_FLAGS = {"LOAD_ATTR": 0, "LOAD_METHOD": 0} if sys.version_info < (3, 12) else {"LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2}
_READING = {dis.opmap[name]: n_bits for name, n_bits in _FLAGS.items()}
"""What reads attributes, and how many bits of its operand are flags."""


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
    """Whether code about Modules reads attributes of a name, or has it as a text, so that it may read them."""
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
    """The attributes and texts in the code about Modules that is loaded, when so many modules are."""
    found = set[str]()
    for module, namespace in list(sys.modules.items()):
        for value in list(vars(namespace).values()) if module.startswith(_PACKAGE) else ():
            for function in vars(value).values() if isinstance(value, type) else (value,):
                function = getattr(function, "__func__", getattr(function, "fget", function))
                if isinstance(function, FunctionType) and function.__module__.startswith(_PACKAGE):
                    found.update(_names_in(function.__code__))
    return found


def _names_in(code: CodeType) -> Iterator[str]:
    higher = 0  # what EXTENDED_ARG adds to the next operand
    for operation, lowest in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        operand = higher << 8 | lowest
        higher = operand if operation == dis.EXTENDED_ARG else 0
        if operation in _READING:
            yield code.co_names[operand >> _READING[operation]]
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _names_in(value)
        elif isinstance(value, str):
            yield value
        elif isinstance(value, tuple):
            yield from (x for x in value if isinstance(x, str))
