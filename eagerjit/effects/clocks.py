"""Clocks read by traced code: every call reads them, before its work or after it, and computes with what they say.

What a clock says is a number that only Python's side may have: it can be added, printed, kept and returned. Where code
acts on it, the function is recorded again, and calls ask clocks before their work, as they ask other questions.
"""

from __future__ import annotations

import functools
import math
import operator
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.state import state
from eagerjit.watching.observation import TraceBreak, user_line

if TYPE_CHECKING:
    from eagerjit.recording.trace import Tracer

CLOCKS = frozenset((time.time, time.perf_counter, time.monotonic, time.process_time, time.thread_time))
"""Clocks whose readings are floats."""

NANOSECONDS = frozenset((time.time_ns, time.perf_counter_ns, time.monotonic_ns, time.process_time_ns))
"""Clocks whose readings are ints."""


ACTED_ON = (0, "clocks")
"""What is known of a function that acts on what clocks say."""


def is_clock(function: Any) -> bool:
    """Whether a callable is one of these clocks."""
    return any(function is clock for clock in CLOCKS | NANOSECONDS)


class Later:
    """A number that a call knows when its work is done: a function of others, or what the `reading`-th clock said.

    `isinstance` takes it for the number that it will be.
    """

    __slots__ = ("arguments", "function", "kind")
    is_later = True
    __class__ = property(lambda self: self.kind)  # type: ignore[assignment]

    def __init__(self, function: Any, arguments: tuple[Any, ...], kind: type):
        self.function, self.arguments, self.kind = function, arguments, kind

    def __round__(self, digits: int | None = None) -> Any:
        return Later(round, (self, digits), int if digits is None else self.kind)


class Readings:
    """The clocks of one recording: which are read before the work and which after it, in order."""

    def __init__(self) -> None:
        self.clocks: list[Callable[[], Any]] = []
        self.after: list[tuple[int, str]] = []
        self.n_before = 0

    def read(self, tracer: Tracer, clock: Callable[[], Any]) -> Later:
        """Note a reading. Raises TraceBreak within a function that is recorded on its own, as those of `vmap` are."""
        if state.tracer is not tracer:
            raise TraceBreak(f"it calls time.{clock.__name__}, which compiled code would not do", user_line())
        self.clocks.append(clock)
        if tracer.nodes:
            self.after.append((len(tracer.nodes), user_line()))
        else:
            self.n_before += 1
        return Later(len(self.clocks) - 1, (), int if clock in NANOSECONDS else float)

    def check(self, tracer: Tracer) -> None:
        """Refuse a clock that is read in the middle of the work, which compiled calls do as a whole."""
        for count, source in self.after:
            if any(node.type.shape != () for node in tracer.nodes[count:]):
                raise TraceBreak("it looks at a clock between operations, which compiled code does as a whole", source)


def evaluated(function: Any, arguments: Sequence[Any], readings: Sequence[Any]) -> Any:
    """What a `Later` is in a call whose clocks said this."""
    return readings[function] if type(function) is int else function(*arguments)


def later(function: Callable[..., Any], *arguments: Any) -> Any:
    """A function of numbers, some of which are known later."""
    kinds = {a.kind if type(a) is Later else float if isinstance(a, float) else int for a in arguments}
    whole = kinds == {int} and function not in (operator.truediv, float)
    return Later(function, arguments, int if whole or function in _WHOLE else float)


_WHOLE = (int, math.floor, math.ceil, math.trunc)


def _operators(name: str, function: Callable[..., Any]) -> None:
    def forward(self: Later, other: Any) -> Any:
        return later(function, self, other) if _is_number(other) else NotImplemented

    def reflected(self: Later, other: Any) -> Any:
        return later(function, other, self) if _is_number(other) else NotImplemented

    setattr(Later, f"__{name}__", forward)
    setattr(Later, f"__r{name}__", reflected)


def _is_number(value: Any) -> bool:
    return type(value) in (bool, int, float, SymbolicInt, TracedFloat, Later)


def acted_on() -> TraceBreak:
    """What ends the recording of code that acts on a clock."""
    return TraceBreak("it acts on what a clock says, which compiled code would not do", user_line())


def _refused(name: str) -> Any:
    def method(self: Later, *args: Any, **kwargs: Any) -> Any:
        if state.tracer is not None and state.tracer.journal is not None:
            state.tracer.journal.varying.left.add(ACTED_ON)
        raise acted_on()

    method.__name__ = name
    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
    _operators(_name, getattr(operator, _name))
for _name, _function in (("neg", operator.neg), ("abs", abs)):
    setattr(Later, f"__{_name}__", functools.partialmethod(lambda self, function: later(function, self), _function))
for _name in ("__bool__", "__float__", "__int__", "__index__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__",
              "__ne__", "__hash__", "__repr__", "__str__", "__format__", "__pow__", "__rpow__", "__divmod__",
              "__trunc__", "__floor__", "__ceil__", "__complex__", "__reduce_ex__", "__array__", "__array_ufunc__",
              "__array_function__"):  # fmt: skip
    setattr(Later, _name, _refused(_name))
