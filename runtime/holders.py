"""What lies in containers that the garbage collector does not track, and so does not name among holders.

Such are dictionaries and tuples that hold nothing but what it does not track either: numbers, strings, arrays.
"""

from __future__ import annotations

import ctypes
import gc
from itertools import compress, filterfalse
from typing import Any

from eagerjit.runtime import layout
from eagerjit.runtime.native.library import routine
from eagerjit.runtime.once import once

_HOLDERS = frozenset((dict, tuple))


def held_unseen(objects: list[Any]) -> set[int]:
    """The ids of what lies in untracked containers that objects, or other such containers, hold."""
    unseen: set[int] = set()
    containers = _held_by(objects)
    while containers:
        held = gc.get_referents(*{id(c): c for c in containers}.values())
        unseen.update(map(id, held))
        containers = _untracked(held)
    return unseen


def _held_by(objects: list[Any]) -> list[Any]:
    """The untracked containers that objects hold, which may be all objects of a program."""
    if not layout.ready():
        return _untracked(gc.get_referents(*objects))
    found: list[Any] = []
    _find()(objects, found)
    return found


def _untracked(things: list[Any]) -> list[Any]:
    """The untracked containers among things."""
    return list(filterfalse(gc.is_tracked, compress(things, map(_HOLDERS.__contains__, map(type, things)))))


@once
def _find() -> Any:
    """The native search."""
    words = ctypes.py_object, ctypes.py_object
    return routine("holders").function("find_untracked", ctypes.c_int64, *words, keep_gil=True)
