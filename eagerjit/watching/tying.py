"""Which calls may be given texts and ranges of the call that is traced; all others get Python's own of this call."""

from __future__ import annotations

import dataclasses
import functools
import logging
import random
import warnings
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, SimpleNamespace
from typing import Any

from eagerjit.effects.world_calls import owner_of
from eagerjit.guards.comparing import is_library_name
from eagerjit.recording.traced_ranges import TracedList, TracedRange
from eagerjit.recording.traced_texts import TracedText, tied_text
from eagerjit.runtime.function import Function
from eagerjit.runtime.source import is_library
from eagerjit.tensors.from_data import as_tensor, tensor
from eagerjit.watching.texts import LOGGED

_STAND_INS = (TracedText, TracedRange, TracedList)
_KEEPING = frozenset("append appendleft insert write join format".split())
_STORING = frozenset("setdefault pop get update __setitem__".split())
_TAKING = (
    print, warnings.warn, isinstance, type, callable, format, str, dict, list, tuple, SimpleNamespace,
    dataclasses.replace,
)  # fmt: skip
_OF_RANGES = (len, tensor, as_tensor)
_TEXTUAL = (str, bytes, int, float, BaseException)


def tied_for(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of a call that needs Python's own texts and ranges; None for calls that need none."""
    kinds = {type(x) for x in (*args, *kwargs.values())}.intersection(_STAND_INS)
    if not kinds or _takes(function, args, kinds):
        return None
    return tuple(map(_tied, args)), {name: _tied(value) for name, value in kwargs.items()}


def with_tied(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is called with this call's texts and ranges, to which the recording is tied."""
    return lambda *args, **kwargs: function(*map(_tied, args), **{n: _tied(v) for n, v in kwargs.items()})


def _tied(value: Any) -> Any:
    return value.tied() if type(value) in (TracedRange, TracedList) else tied_text(value)


def _takes(function: Any, args: tuple[Any, ...], kinds: set[type]) -> bool:
    of_ranges = _is_of_ranges(function) or _draws_of(function, args)
    return (TracedText not in kinds and of_ranges) or (TracedList not in kinds and _keeps(function, args))


def _is_of_ranges(function: Any) -> bool:
    """Whether a function, or what it wraps, takes ranges of the call."""
    while type(function) is FunctionType and function not in _OF_RANGES:
        function = vars(function).get("__wrapped__")
    return any(function is known for known in _OF_RANGES)


def _draws_of(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call asks a generator for some of what it is given, of which nothing but the length counts."""
    name, generator, _ = owner_of(function, args)
    return type(generator) is random.Random and name in ("sample", "choice", "choices")


def _keeps(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call does nothing with a text or range but keep it, hand it to watched code or put it off."""
    while type(function) is functools.partial:
        function = function.func
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(owner, logging.Logger) or getattr(function, "__module__", "") == "logging":
        return name in LOGGED
    if _hands_on(function) or _replaces_fields(function):
        return True
    if any(function is known for known in (setattr, hasattr, getattr, object.__setattr__)):
        return len(args) == (2 if function is hasattr else 3) and type(args[1]) is not TracedText
    of_dict = getattr(function, "__objclass__", None) is dict
    if name in _STORING and (of_dict or isinstance(owner, dict)):
        return not any(type(key) in _STAND_INS for key in args[of_dict : of_dict + 1])
    in_c = isinstance(function, (BuiltinFunctionType, MethodDescriptorType))
    if any(function is known for known in _TAKING) or (in_c and name in _KEEPING):
        return True
    return isinstance(function, type) and not (is_library_name(function.__module__) or issubclass(function, _TEXTUAL))


def _replaces_fields(function: Any) -> bool:
    """Whether a function makes a named tuple like another one, with other fields."""
    is_code = isinstance(function, (FunctionType, MethodType))
    return is_code and function.__name__ == "_replace" and function.__module__ == "collections"


def _hands_on(function: Any) -> bool:
    """Whether code of the program's gets what a call is given: at once, by a Module or behind wrappers."""
    if isinstance(function, MethodType):
        return _hands_on(function.__func__)
    if hasattr(type(function), "_jit_state"):
        return _hands_on(function.forward)
    if isinstance(function, FunctionType) and not is_library(function.__code__.co_filename):
        return True
    if isinstance(function, (FunctionType, Function)):
        return hasattr(function, "__wrapped__") and _hands_on(function.__wrapped__)
    call = getattr(type(function), "__call__", None)  # noqa: B004
    return isinstance(call, FunctionType) and _hands_on(call)
