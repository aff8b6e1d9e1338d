"""Bits of the call's integers, by the operators that sizes have: Python's integers have endless ones, in both signs.

A shift by a known number of bits is a product or a quotient, and what a known mask leaves is what a division does, if
the mask's bits are neighbours. All else Python calculates.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from eagerjit.recording.python_integers import python_integer, vary

_WIDTH = 64


def _left(number: Any, count: int) -> Any:
    return number * 2**count if 0 <= count < _WIDTH else None


def _right(number: Any, count: int) -> Any:
    return number // 2**count if 0 <= count < _WIDTH else None


def _both(number: Any, mask: int) -> Any:
    lowest = mask & -mask
    end = mask + lowest  # the bit after the last one; 0 for -8, which has all bits from the fourth on
    if mask == 0 or end < 0 or end & (end - 1):
        return None
    kept = number % end if end else number
    return kept - kept % lowest


def _either(number: Any, mask: int) -> Any:
    both = _both(number, mask)
    return None if both is None else number + mask - both


def _one(number: Any, mask: int) -> Any:
    both = _both(number, mask)
    return None if both is None else number + mask - 2 * both


def _bit_length(number: int) -> int:
    return number.bit_length()


def _operator(function: Callable[..., Any], rule: Callable[[Any, int], Any], exchanged: bool) -> tuple[Any, Any]:
    """An operator, with what it is of a number of the call and a known one, and the reflected one."""

    def forward(self: Any, other: Any) -> Any:
        other = int(other) if type(other) is bool else other
        if type(other) is type(self):
            return python_integer(function, self, other)
        if type(other) is not int:
            return function(self._value(), other)
        found = rule(self, other)
        return python_integer(function, self, other) if found is None else found

    def reflected(self: Any, other: Any) -> Any:
        if exchanged:
            return forward(self, other)
        if type(other) in (bool, int):
            return python_integer(function, int(other), self)
        return function(other, self._value())

    return forward, reflected


class IntegerBits:
    """What integers of a call do by other operators; `_known()` is this call's number, `_value()` ties the trace."""

    __slots__ = ()

    _known: Callable[[], int]
    _value: Callable[[], int]

    __and__, __rand__ = _operator(operator.and_, _both, True)
    __or__, __ror__ = _operator(operator.or_, _either, True)
    __xor__, __rxor__ = _operator(operator.xor, _one, True)
    __lshift__, __rlshift__ = _operator(operator.lshift, _left, False)
    __rshift__, __rrshift__ = _operator(operator.rshift, _right, False)

    def __invert__(self) -> Any:
        return -1 - self  # type: ignore[operator]

    def bit_length(self) -> int:
        """The same for all integers between two powers of two."""
        if vary(self):
            return python_integer(_bit_length, self)
        length = self._known().bit_length()
        magnitude: Any = abs(self)  # type: ignore[arg-type]
        least = 2**length // 2
        return length if least <= magnitude and magnitude < 2**length else self._value().bit_length()

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None else round(self._value(), digits)

    def __floor__(self) -> Any:
        return self

    __ceil__ = __trunc__ = __floor__

    def __format__(self, specification: str) -> str:
        return format(self._value(), specification)
