"""What numbers of a call meet: numbers of other kinds, and what compares itself with numbers."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np


def is_foreign(value: object) -> bool:
    """Whether this is a number of another kind, which calculates with Python's own: complex, a Fraction, a Decimal."""
    return isinstance(value, numbers.Number) and not isinstance(value, (int, float, np.generic))


_INCOMPARABLE = frozenset((type(None), str, bytes, list, tuple, dict, set, frozenset))


def compares_itself(value: object) -> bool:
    """Whether a comparison is left to the other side: arrays, tensors, times, and what is equal to no number."""
    kind = type(value)
    known = hasattr(kind, "__array_priority__") or hasattr(kind, "is_later")
    return known or kind in _INCOMPARABLE or isinstance(value, np.generic)


@functools.cache
def rounding(digits: int) -> Callable[[float], float]:
    """`round` to so many digits, under a name of its own."""
    function: Any = functools.partial(round, ndigits=digits)
    function.__name__ = f"round_to_{digits}".replace("-", "minus_")
    return function
