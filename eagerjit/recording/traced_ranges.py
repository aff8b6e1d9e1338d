"""Ranges whose ends are numbers of a call being traced: `range(n)` as an index, in `k in range(n)`, as data."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from eagerjit.recording.numbers import SymbolicInt, plain
from eagerjit.state import state

_WHOLE = (bool, int, SymbolicInt)


class TracedRange:
    """A range of the call; `isinstance` takes it for a range.

    Its length, its ends and whether it holds an int are known of all calls' numbers. Where Python code needs the range
    itself (a loop, a C function), it gets that of this call, and the trace is tied to the numbers.
    """

    __slots__ = ("start", "step", "stop")
    __class__ = property(lambda self: range)  # type: ignore[assignment]

    def __init__(self, start: Any, stop: Any, step: int):
        self.start, self.stop, self.step = start, stop, step

    def tied(self) -> Any:
        """The range of this call, to which the recording is tied."""
        return range(plain(self.start), plain(self.stop), self.step)

    def parts(self) -> tuple[Any, Any, int]:
        """What `range` is called with."""
        return self.start, self.stop, self.step

    def length(self) -> Any:
        """How many ints there are, as a number of the call."""
        count = -((self.start - self.stop) // self.step)
        return count if count > 0 else 0

    def __len__(self) -> int:
        return len(self.tied())

    def __iter__(self) -> Iterator[int]:
        return iter(self.tied())

    def __bool__(self) -> bool:
        return bool(self.length() > 0)

    def __contains__(self, value: Any) -> bool:
        if type(value) not in _WHOLE:
            return value in self.tied()
        inside = self.start <= value < self.stop if self.step > 0 else self.stop < value <= self.start
        return bool(inside and (value - self.start) % self.step == 0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"'{self.__class__.__name__}' object has no attribute '{name}'")
        return getattr(self.tied(), name)


class TracedList(TracedRange):
    """`list(range(n))` that is given to a call or is an index right away: nothing else ever sees it."""

    __slots__ = ()
    __class__ = property(lambda self: list)  # type: ignore[assignment]

    def tied(self) -> Any:
        """The list of this call, to which the recording is tied."""
        return [*super().tied()]


def is_range(value: Any) -> bool:
    """Whether a value stands for a range or list of the call."""
    return type(value) in (TracedRange, TracedList)


def range_instead(function: Any, args: tuple[Any, ...], use: str) -> Callable[..., Any] | None:
    """What is called in place of `range`, `list` and `len`; `use` is that of the result: see `use_of_result`."""
    if function is range:
        ends = any(type(x) is SymbolicInt for x in args[:2]) and all(type(x) in (int, SymbolicInt) for x in args[:2])
        return _made if ends and (len(args) < 3 or (type(args[2]) is int and args[2] != 0)) else None
    if len(args) != 1 or not is_range(args[0]):
        return None
    listed = function is list and use in ("asked", "key")
    return TracedRange.length if function is len else _listed if listed else None


def _made(*ends: Any) -> TracedRange:
    start, stop, step = (0, *ends, 1) if len(ends) == 1 else (*ends, 1)[:3]
    made = TracedRange(start, stop, step)
    assert state.tracer is not None
    state.tracer.formatted.append(made)  # errors in what takes no such range may be those of the recording alone
    return made


def _listed(made: TracedRange) -> TracedList:
    return TracedList(made.start, made.stop, made.step)


def _on_range(function: Callable[..., Any]) -> Any:
    """What only the range itself tells."""
    return lambda self, *others: function(*[x.tied() if is_range(x) else plain(x) for x in (self, *others)])


for _name, _function in (
    ("repr", repr), ("hash", hash), ("reversed", reversed), ("getitem", operator.getitem), ("eq", operator.eq),
    ("ne", operator.ne),
):  # fmt: skip
    setattr(TracedRange, f"__{_name}__", _on_range(_function))
TracedRange.__reduce_ex__ = lambda self, protocol: "itself"  # type: ignore  # for copies
