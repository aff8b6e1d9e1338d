"""Floats that an op's body has compared: its Program serves those of which the comparison says the same."""

from __future__ import annotations

import functools
import math
import operator
import struct
from typing import TYPE_CHECKING, Any

from eagerjit.compiler.ops import elementwise
from eagerjit.state import state

if TYPE_CHECKING:
    from eagerjit.recording.numbers import TracedFloat

_INFINITE = 0x7FF << 52


def compared(number: TracedFloat, other: Any) -> float:
    """This call's number, to compare it with another one.

    The trace is tied to it, but that of an op's body to an interval: to all inputs of its sign that are on the same
    side of a number of Python's, as they are or by size; or to none, where that holds for what is subtracted from.
    """
    tracer, value = state.tracer, number.value
    if tracer is None or value is None or not tracer.values_only:
        return number._value()
    if type(other) not in (int, float) or math.isnan(other):
        return number._value()
    if _is_told(tracer, number, value, other):
        return value
    by_size = number.node.op is elementwise.abs_
    leaf = tracer.float_input(number.node.inputs[0] if by_size else number.node)
    if leaf is None or not value or not math.isfinite(value) or value == other:
        return number._value()
    given = tracer.float_given(leaf.node)
    least, most = (1, _INFINITE) if leaf.words is None else (_size(word) for word in leaf.words)
    if other and (other > 0) == (value > 0):
        bound = _size(_word(other))
        least, most = (least, min(most, bound - 1)) if abs(value) < abs(other) else (max(least, bound + 1), most)
    sign = -(1 << 63) if given < 0 else 0
    leaf.words = (sign + least, sign + most)
    return value


def _is_told(tracer: Any, difference: TracedFloat, value: float, other: float) -> bool:
    """Whether all inputs that the trace holds for are on the same side, where a number is one less a constant."""
    if difference.node.op is not elementwise.sub:
        return False
    constants, node = [], difference.node
    while node.op is elementwise.sub and node.inputs[1].op is elementwise.constant:
        constants.append(node.inputs[1].attributes["value"])
        node = node.inputs[0]
    leaf = tracer.float_input(node)
    if leaf is None or leaf.words is None:
        return False
    ends = [functools.reduce(operator.sub, reversed(constants), _float(word)) for word in leaf.words]
    return all(end != other and (end < other) == (value < other) for end in ends)


def _word(number: float) -> int:
    """The bits of a float as an int: of floats of one sign the one farther from zero has the larger one."""
    return int.from_bytes(struct.pack("<d", number), "little", signed=True)


def _float(word: int) -> float:
    """The float that has these bits."""
    (number,) = struct.unpack("<d", word.to_bytes(8, "little", signed=True))
    return float(number)


def _size(word: int) -> int:
    """The word without the sign."""
    return word & ((1 << 63) - 1)
