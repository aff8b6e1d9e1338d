"""Python's functions of numbers, under PyTorch's names for those that a trace follows: sizes are such numbers here."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from eagerjit.types import SymFloat, SymInt


def sym_int(a: Any) -> Any:
    """A number as an integer, rounded towards zero."""
    if isinstance(a, SymInt):
        return a
    return (math.floor(a) if a >= 0 else math.ceil(a)) if isinstance(a, float) else int(a)


def sym_float(a: Any) -> Any:
    """A number as a float."""
    return a if isinstance(a, SymFloat) else float(a)


def sym_not(a: Any) -> bool:
    """Whether it does not hold."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger number, a float if one of them is."""
    found = a if a >= b else b
    return sym_float(found) if isinstance(a, (float, SymFloat)) or isinstance(b, (float, SymFloat)) else found


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number, a float if one of them is."""
    found = a if a <= b else b
    return sym_float(found) if isinstance(a, (float, SymFloat)) or isinstance(b, (float, SymFloat)) else found


def sym_sum(args: Iterable[Any]) -> Any:
    """The sum of numbers."""
    return sum(args)


def sym_sqrt(a: Any) -> Any:
    """The square root of a number."""
    return math.sqrt(a)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """t if the condition holds, else f. Raises AssertionError for a condition that is no bool, and for two types."""
    if not isinstance(b, bool):
        raise AssertionError(f"expected bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"type mismatch: {type(t)} vs {type(f)}")
    return t if b else f
