"""NumPy's functions that give one float of Python's: of numbers of a call being traced, every call makes them."""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.recording.arrays import TracedNumber
from eagerjit.recording.numbers import SymbolicInt, TracedFloat, python_number, to_float
from eagerjit.recording.rounding import TESTS
from eagerjit.state import state
from eagerjit.watching.observation import TraceBreak, user_line

_REDUCING = frozenset((np.mean, np.median, np.std, np.var, np.sum, np.max, np.min, np.prod))
_OF_FLOATS = frozenset(
    (np.sqrt, np.exp, np.log, np.log10, np.log2, np.log1p, np.expm1, np.sin, np.cos, np.tan, np.arcsin, np.arccos,
     np.arctan, np.sinh, np.cosh, np.tanh)
)  # fmt: skip
"""Functions that take integers for floats."""

_ELEMENTWISE = _OF_FLOATS | {
    np.abs, np.square, np.minimum, np.maximum, np.power, np.floor, np.ceil, np.trunc, np.rint, np.sign, np.clip,
    np.arctan2, np.hypot, np.float32,
}  # fmt: skip
_OF_INTEGERS: dict[Any, Any] = {
    np.minimum: sizes.minimum, np.maximum: sizes.maximum,
    np.clip: lambda x, low, high: sizes.minimum(sizes.maximum(x, low), high),
}  # fmt: skip
_TRACED = (SymbolicInt, TracedFloat)
_TESTS: dict[Any, Any] = {np.isfinite: math.isfinite, np.isnan: math.isnan, np.isinf: math.isinf}


def instead(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
    """What is called in place of such a function; None for others, which get the numbers themselves."""
    host = getattr(state.tracer, "host", None)
    if host is None or kwargs or not args or np.geterr()["under"] != "ignore":
        return None
    if function in _REDUCING and len(args) == 1 and type(args[0]) in (list, tuple, deque):
        kinds = {type(_python(a)) for a in args[0]}
        known = TracedFloat in kinds and kinds <= {int, float, SymbolicInt, TracedFloat}
        return (lambda values: _made(_Named(function, True), values)) if known else None
    if function in _OF_INTEGERS and _are_integers(args) and len(args) == _OF_INTEGERS[function].__code__.co_argcount:
        return functools.partial(_int64, _OF_INTEGERS[function])
    if TracedNumber in map(type, args) and host.takes((args, kwargs)):
        return None
    kinds = {type(_python(a)) for a in args}
    if kinds.isdisjoint(_TRACED) or not all(type(_python(a)) in (float, *_TRACED) or _is_integer(a) for a in args):
        return None
    if function is np.float64 and len(args) == 1:
        return lambda value: TracedNumber(to_float(_python(value)), np.float64)
    if kinds.isdisjoint((float, TracedFloat)) and function not in _OF_FLOATS:
        return None
    if function in _TESTS and len(args) == 1:
        return lambda value: np.bool_(TESTS[_TESTS[function]](_python(value)))
    return (lambda *values: _made(_Named(function, False), values)) if function in _ELEMENTWISE else None


def _is_integer(value: Any) -> bool:
    """Whether this is a Python integer that NumPy's default type holds."""
    return type(value) is int and -(2**63) <= value < 2**63


def _are_integers(values: tuple[Any, ...]) -> bool:
    """Whether these are integers of NumPy's default type, of which one is another one in every call."""
    plain = [v.number if type(v) is TracedNumber and v.kind is np.int64 else v for v in values]
    return SymbolicInt in map(type, plain) and all(type(v) is SymbolicInt or _is_integer(v) for v in plain)


def _int64(function: Callable[..., Any], *values: Any) -> Any:
    numbers = [v.number if type(v) is TracedNumber else v for v in values]
    made = function(*[v.expression if type(v) is SymbolicInt else v for v in numbers])
    return np.int64(made) if isinstance(made, int) else TracedNumber(SymbolicInt(made), np.int64)


def _python(value: Any) -> Any:
    """A float of NumPy's as one of Python's, which NumPy's functions take for the same."""
    return value.number if type(value) is TracedNumber and value.kind is np.float64 else value


def _made(function: _Named, numbers: Any) -> Any:
    before, journal = np.geterr(), getattr(state.tracer, "journal", None)
    assert journal is not None
    journal.checks.append(lambda: np.geterr() == before)
    try:
        made = python_number(function, *map(_python, numbers))
    except FloatingPointError as error:
        raise TraceBreak(f"NumPy warns: {error}", user_line()) from None
    kind = np.float32 if function.function is np.float32 else np.float64
    return TracedNumber(made, kind) if type(made) is TracedFloat else kind(made)


class _Named:
    """A function of NumPy's on floats, or on a list of these, as one of Python's; it raises where NumPy warns."""

    def __init__(self, function: Any, of_list: bool):
        self.function, self.of_list = function, of_list
        self.__module__, self.__name__ = "numpy", function.__name__ + "_of_list" * of_list

    def __call__(self, *numbers: float) -> float:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            return float(self.function(list(numbers)) if self.of_list else self.function(*numbers))
