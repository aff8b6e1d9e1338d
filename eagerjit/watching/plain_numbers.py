"""Python's library where it asks numbers for their classes, or needs them in C: it is given Python's own."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from eagerjit.recording.numbers import SymbolicInt, TracedFloat, plain
from eagerjit.watching.library_calls import module_of

_MODULES = frozenset("statistics fractions decimal _decimal datetime _datetime _pydatetime".split())
_STAND_INS = (SymbolicInt, TracedFloat)


def with_plain_numbers(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
    """What is called in place of a function that is given numbers of the call and needs Python's; None for others."""
    if function is collections.deque:
        length = args[1] if len(args) > 1 else kwargs.get("maxlen")
        return _bounded if type(length) in _STAND_INS else None
    if module_of(function) not in _MODULES or not any(map(_holds, (*args, *kwargs.values()))):
        return None
    return lambda *args, **kwargs: function(*map(_plain, args), **{n: _plain(v) for n, v in kwargs.items()})


def _bounded(iterable: Any = (), maxlen: Any = None) -> Any:
    return collections.deque(iterable, plain(maxlen))


def _holds(value: Any) -> bool:
    return type(value) in _STAND_INS or (isinstance(value, (tuple, list)) and any(map(_holds, value)))


def _plain(value: Any) -> Any:
    if not _holds(value):
        return value
    return [*map(_plain, value)] if isinstance(value, (tuple, list)) else plain(value)
