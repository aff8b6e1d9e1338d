"""Attributes of Modules that change from call to call, and that nothing in the function reads: counters, the epoch.

What Modules hold is compared as a whole, since code of the library reads it unseen. A name that occurs nowhere in that
code, or only as an attribute of `self` in methods of other classes, the program alone can read, and it is watched.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from eagerjit.guards.comparing import has_state, is_plain
from eagerjit.watching.observation import is_internal
from eagerjit.watching.slots import Slot

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal
    from eagerjit.recording.varying import Varying

_CHANGES = object()
_PACKAGE = "eagerjit.nn"
_FLAGS = {"LOAD_ATTR": 0, "LOAD_METHOD": 0} if sys.version_info < (3, 12) else {"LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 2}
_READING = {dis.opmap[name]: n_bits for name, n_bits in _FLAGS.items()}
"""What reads attributes, and how many bits of its operand are flags."""

_LOADING = frozenset(dis.opmap.get(name, -1) for name in ("LOAD_FAST", "LOAD_FAST_BORROW"))
_LOADING_TWO = frozenset(
    dis.opmap.get(name, -1) for name in ("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
)


def unread(owners: Iterable[Any], journal: Journal, varying: Varying) -> set[tuple[int, str]]:
    """(Module, name) of the attributes that earlier recordings have found otherwise, and that this one has not read.

    Floats of layers, which the library may have read, are inputs of later recordings.
    """
    modules = {id(m): m for o in owners if has_state(o) and hasattr(o, "modules") for m in o.modules()}
    whole = journal.whole | journal.tables.keys() | journal.handed_over.keys()
    found = list[tuple[int, str]]()
    for place, module in modules.items():
        varies = {(place, name) for name, value in vars(module).items() if _varies(varying, (place, name), value)}
        if place not in whole and (place, "__dict__") not in journal.objects_read:
            for _, name in varies - journal.objects_read.keys():
                if not is_in_library(name, type(module)):
                    found.append((place, name))
                elif type(vars(module)[name]) is float and is_layer(module):
                    journal.unseen[place, name] = Slot(module, name, "attribute")
    return set(found)


def is_layer(module: Any) -> bool:
    """Whether code of the library computes what a module does, or a part of it."""
    forwards = [vars(kind)["forward"] for kind in type(module).__mro__ if "forward" in vars(kind)]
    return any(is_internal(f.__code__) for f in forwards[:-1] if hasattr(f, "__code__"))


def is_in_library(name: str, kind: type) -> bool:
    """Whether code about Modules of a class reads attributes of a name, or has it as a text, and so may read them."""
    known = _names_in_library(len(sys.modules))
    return any(name in known.get(base, ()) for base in (None, *kind.__mro__))


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
def _names_in_library(n_modules: int) -> dict[type | None, set[str]]:
    """The attributes and texts in the code about Modules that is loaded, when so many modules are.

    By class those that its methods read of `self` or that it lists, under None all others.
    """
    found: dict[type | None, set[str]] = {None: set()}
    for module, namespace in list(sys.modules.items()):
        for value in list(vars(namespace).values()) if module.startswith(_PACKAGE) else ():
            kind = value if isinstance(value, type) else None
            for function in (value,) if kind is None else vars(kind).values():
                function = getattr(function, "__func__", getattr(function, "fget", function))
                if kind is not None and isinstance(function, (dict, list, tuple)):  # options, by name
                    found.setdefault(kind, set()).update(name for name in function if isinstance(name, str))
                elif isinstance(function, FunctionType) and function.__module__.startswith(_PACKAGE):
                    for name, of_self in _names_in(function.__code__):
                        found.setdefault(kind if of_self else None, set()).add(name)
    return found


def _names_in(code: CodeType) -> Iterator[tuple[str, bool]]:
    """The names in code, and whether they are those of attributes of its first variable."""
    higher, is_self = 0, False  # what EXTENDED_ARG adds to the next operand; whether the first variable was loaded last
    of_method = code.co_argcount > 0 and code.co_varnames[0] == "self"
    for operation, lowest in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        operand = higher << 8 | lowest
        higher = operand if operation == dis.EXTENDED_ARG else 0
        if operation in _READING:
            yield code.co_names[operand >> _READING[operation]], of_method and is_self
        is_self = (operation in _LOADING and operand == 0) or (operation in _LOADING_TWO and operand & 15 == 0) or (
            operation == dis.EXTENDED_ARG and is_self
        )
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _names_in(value)
        elif isinstance(value, str):
            yield value, False
        elif isinstance(value, tuple):
            yield from ((x, False) for x in value if isinstance(x, str))
