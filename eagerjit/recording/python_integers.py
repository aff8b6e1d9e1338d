"""Ints that only Python calculates as Python does, of ints of a call being traced: powers, shifts, divisors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eagerjit.recording.integer_range import is_wide
from eagerjit.state import state

OF_INTEGERS = frozenset((math.isqrt, math.gcd, math.lcm, math.comb, math.perm, math.factorial, pow))


def python_integer(function: Callable[..., int], *numbers: Any) -> Any:
    """A function's int of ints, of which some are the call's, as an int of the call.

    As with `python_number`, the first recording is tied to the numbers, but to those that the function keeps and
    changes, and so is one in which this is no int of 64 bits.
    """
    tracer = state.tracer
    if tracer is None or not vary(*numbers):
        return function(*map(_plain, numbers))
    known = [number if type(number) is int else number._known() for number in numbers]
    try:
        result = function(*known)
    except (ArithmeticError, TypeError, ValueError):
        result = None
    if type(result) is not int or any(map(is_wide, (result, *known))):
        return function(*map(_plain, numbers))
    return tracer.python_integer(function, numbers, result)


def vary(*numbers: Any) -> bool:
    """Whether other calls are known to have other numbers, in a recording of a call."""
    tracer = state.tracer
    return tracer is not None and tracer.arguments is not None and tracer.varies(*numbers)


def _plain(number: Any) -> int:
    return number if type(number) is int else number._value()
