"""Functions of Python's that round numbers of a traced call, to ints that stay numbers of the call, or test them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from eagerjit.compiler.ops import elementwise
from eagerjit.effects.clocks import Later, later
from eagerjit.recording.arrays import TracedNumber
from eagerjit.recording.numbers import SymbolicInt, TracedFloat, plain, python_number, to_float
from eagerjit.recording.python_integers import OF_INTEGERS, python_integer
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor

ROUNDED: dict[Any, Any] = {
    math.floor: elementwise.floor, math.ceil: elementwise.ceil, math.trunc: elementwise.trunc, int: elementwise.trunc,
}  # fmt: skip
"""Python's functions that make ints of floats, as operations."""
_OPERATIONS = {**ROUNDED, round: elementwise.round_}
"""`round` too, which numbers are asked by; tensors have none."""

_BOUND = 2.0**62


def _is_finite(value: Any) -> bool:
    return bool(value - value == 0.0)


TESTS: dict[Any, Callable[[Any], bool]] = {
    math.isfinite: _is_finite,
    math.isnan: lambda value: bool(value != value),
    math.isinf: lambda value: bool(value == value) and not _is_finite(value),
}
"""Functions that ask something of a number: comparisons, which are conditions of the compiled call."""


def rounded(function: Callable[[Any], int], value: Any) -> Any:
    """A number of the call as an int of the call; as with other functions, the first recording is tied to its value."""
    if type(value) is Later:
        return later(function, value)
    value = _only_number(value)
    if type(value) is not TracedFloat:
        return value if type(value) is SymbolicInt else function(value)
    tracer = state.tracer
    known = value.value is not None and not (tracer is not None and tracer.varies(value))
    if tracer is None or tracer.arguments is None or known or not _is_within(value):
        return function(plain(value))
    node = tracer.record(_OPERATIONS[function], (value.node,))
    return tracer.measure(
        tracer.record(elementwise.cast, (node,), dtype=dtypes.int64), f"{function.__name__} was called", negative=True
    )


def _is_within(value: Any) -> bool:
    return bool(value > -_BOUND) and bool(value < _BOUND)


def as_float(value: Any) -> Any:
    """`float`, which would need the number itself: of a number of the call, or of a tensor with one element."""
    if type(value) is Later:
        return later(float, value)
    return to_float(_only_number(value))


def _only_number(value: Any) -> Any:
    """The one element of a tensor, Python's number for one of NumPy's."""
    from eagerjit.tensors.conversion import scalar

    if type(value) is TracedNumber:
        return value.number
    return scalar(value) if isinstance(value, Tensor) else value


def of_math(function: Callable[..., Any]) -> Callable[..., Any]:
    """What is called in place of a function of `math`, or `pow` with a modulus, that is given numbers of the call."""
    return partial(_of_integers if function in OF_INTEGERS else _of_floats, function)


def _of_integers(function: Callable[..., Any], *args: Any) -> Any:
    whole = all(type(x) in (int, SymbolicInt) for x in args)
    return python_integer(function, *args) if whole else _of_floats(function, *args)


def _of_floats(function: Callable[..., Any], *args: Any) -> Any:
    numbers = [as_float(x) if isinstance(x, (Tensor, TracedNumber)) else x for x in args]
    return TESTS[function](*numbers) if function in TESTS else python_number(function, *numbers)
