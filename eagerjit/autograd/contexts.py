"""The contexts of custom functions: what their code assigns to these is no effect on anything outside."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

_names: WeakKeyDictionary[CodeType, str] = WeakKeyDictionary()


def note_context(function: Callable[..., Any]) -> None:
    """Remember that this function's first parameter is a context."""
    code = getattr(function, "__code__", None)
    if code is not None and code not in _names and code.co_argcount:
        _names[code] = code.co_varnames[0]


def context_name(code: CodeType) -> str | None:
    """What a custom function's code calls its context."""
    return _names.get(code)
