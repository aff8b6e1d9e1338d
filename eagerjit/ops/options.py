"""Options that are tuples of ints: native code knows an eager call by the very objects that stand for its options."""

from __future__ import annotations

from typing import Any

MOST = 4096
_known: dict[tuple[Any, ...], tuple[Any, ...]] = {}


def interned(options: tuple[Any, ...]) -> tuple[Any, ...]:
    """The options, tuples of ints among them replaced by the one object that stands for all equal ones."""
    return tuple(_known.setdefault(o, o) if type(o) is tuple and len(_known) < MOST else o for o in options)
