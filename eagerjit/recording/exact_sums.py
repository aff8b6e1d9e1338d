"""`sum` as Python adds floats since 3.12: what each addition rounds away is added up beside, and added at the end.

Since 3.14 it does so with ints that follow floats, and with complex numbers.

Numbers of a call being recorded are no floats to the builtin function, which would add them one to another. The loss of
an addition is Knuth's (The Art of Computer Programming 2, 4.2.2, theorem B): exact, as Python's is that compares first.
"""

from __future__ import annotations

import builtins
import functools
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from eagerjit.compiler.ops import elementwise
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime import dtypes
from eagerjit.state import state

ADDS_EXACTLY = sys.version_info >= (3, 12)
"""Whether Python's `sum` does."""
ADDS_ALL_EXACTLY = sys.version_info >= (3, 14)
"""Whether it does so with more than floats."""

_FLOATS, _TRACED = (float, TracedFloat), (SymbolicInt, TracedFloat)
_ADDED_TO_FLOATS = (*_FLOATS, int, bool, SymbolicInt) if ADDS_ALL_EXACTLY else _FLOATS
"""Classes of what is added to a float with what rounding loses."""


def in_place_of(function: Any) -> Any:
    """What numbers of the call are given to in the place of a function that adds them up, None for other functions."""
    if not ADDS_EXACTLY:
        return None
    if type(function) is functools.partial:
        adding = in_place_of(function.func)
        return None if adding is None else functools.partial(adding, *function.args, **function.keywords)
    return exact_sum if function is builtins.sum else _sum_of_products if function is math.sumprod else None  # type: ignore


def exact_sum(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    """`sum(iterable, start)`, where numbers of the call are floats and ints."""
    if type(iterable) in (list, tuple) and not any(type(x) in _TRACED for x in (start, *iterable)):
        return sum(iterable, start)
    if isinstance(start, (str, bytes, bytearray)):
        return sum(iterable, start)  # refuses it
    running = RunningSum(start)
    for item in iterable:
        running.add(item)
    return running.result()


def _sum_of_products(p: Iterable[Any], q: Iterable[Any], /) -> Any:
    """`math.sumprod` of the numbers of this call, for which alone the recording holds."""
    return math.sumprod(map(_tied, p), map(_tied, q))  # type: ignore[attr-defined]


def _tied(number: Any) -> Any:
    return float(number) if type(number) is TracedFloat else int(number) if type(number) is SymbolicInt else number


class RunningSum:
    """A sum on the way: of ints, then of floats, then of anything, as what has been added so far is."""

    def __init__(self, start: Any, loss: Any = 0.0):
        self.total, self.loss = start, loss
        self.of_ints, self.of_floats = type(start) in (int, SymbolicInt), type(start) in _FLOATS
        self.parts = _parts_of(start)

    def add(self, item: Any) -> None:
        """Takes one more item."""
        if self.parts:
            self._add_to_complex(item)
            return
        if self.of_floats:
            self._add_to_float(item)
            return
        self.total = self.total + item
        if self.of_ints and not (type(item) in (int, bool, SymbolicInt) and _is_small(self.total)):
            self.of_ints, self.of_floats = False, type(self.total) in _FLOATS

    def _add_to_float(self, item: Any) -> None:
        before = self.total
        if type(item) in _ADDED_TO_FLOATS:
            self.total = before + item
            added = self.total - before
            self.loss = self.loss + ((before - (self.total - added)) + (item - added))
        elif type(item) is SymbolicInt or (isinstance(item, int) and _is_small(item)):
            self.total = before + item
        else:
            self.total, self.of_floats = self.result() + item, False
            self.parts = _parts_of(self.total)

    def _add_to_complex(self, item: Any) -> None:
        if type(item) not in (complex, *_ADDED_TO_FLOATS):
            self.total, self.parts = self.result() + item, ()
            return
        self.parts[0].add(item.real if type(item) is complex else item)
        if type(item) is complex:
            self.parts[1].add(item.imag)

    def result(self) -> Any:
        """The sum of all that was added."""
        if self.parts:
            return complex(*(part.result() for part in self.parts))
        if not self.of_floats:
            return self.total
        if type(self.loss) is TracedFloat:
            return self.total + _added_at_the_end(self.loss)
        return self.total + self.loss if self.loss and math.isfinite(self.loss) else self.total


def _parts_of(number: Any) -> tuple[RunningSum, ...]:
    """Sums of real and imaginary parts that begin with a complex number's, where Python has such."""
    return (RunningSum(number.real), RunningSum(number.imag)) if ADDS_ALL_EXACTLY and type(number) is complex else ()


def _is_small(number: Any) -> bool:
    """Whether C's integers hold it."""
    return type(number) is SymbolicInt or -(2**63) <= number < 2**63


def _added_at_the_end(loss: TracedFloat) -> TracedFloat:
    """A loss, or -0.0, which changes no sum, in the place of 0 and what is not finite."""
    tracer = state.tracer
    assert tracer is not None
    zero, nothing = (tracer.constant(x, dtypes.float64) for x in (0.0, -0.0))
    node = tracer.record(elementwise.where, (tracer.record(elementwise.isfinite, (loss.node,)), loss.node, nothing))
    node = tracer.record(elementwise.where, (tracer.record(elementwise.ne, (node, zero)), node, nothing))
    return TracedFloat(node, None if loss.value is None else loss.value if math.isfinite(loss.value) else -0.0)


def total(items: Sequence[Any]) -> Any:
    """The sum of ints, or that of floats without what was lost."""
    return _parts(items)[0]


def loss(items: Sequence[Any]) -> float:
    """What adding these ints and floats one to another has lost."""
    return _parts(items)[1]


def _parts(items: Sequence[Any]) -> tuple[Any, float]:
    first = next((i for i, item in enumerate(items) if type(item) is float), len(items))
    start = sum(items[: first + 1])
    if len(items) <= first + 1:
        return start, 0.0
    rest = items[first + 1 :]
    with np.errstate(all="ignore"):
        totals = np.add.accumulate(np.array([start, *rest], np.float64))
        before, values = totals[:-1], np.array(rest, np.float64)
        added = totals[1:] - before
        lost = (before - (totals[1:] - added)) + (values - added)
        if not ADDS_ALL_EXACTLY:
            lost[np.fromiter((type(item) is not float for item in rest), bool, len(rest))] = 0.0
        return float(totals[-1]), float(np.add.accumulate(np.append(0.0, lost))[-1])
