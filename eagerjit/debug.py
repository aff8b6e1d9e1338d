"""Looking into compiled functions: prints and breakpoints that happen in every call, and checks of values.

`print` and `breakpoint` see the values of the call at the place where they stand, in order; in a compiled call they
happen when its kernels have run, before it returns. `EAGERJIT_CHECK=nan,inf` makes elementwise kernels raise
FloatingPointError with the user's line where they compute or read a NaN or an infinity.
Indices are always checked: "bounds" is accepted and adds nothing.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from typing import Any

from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime import dtypes
from eagerjit.runtime.records import record
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor


def print(format: str, *values: Any) -> None:
    """Print `format.format(*values)` whenever a call gets here, compiled or not."""
    _note(lambda *found: builtins.print(format.format(*found)), values)


def breakpoint(*values: Any) -> None:
    """Stop in the debugger whenever a call gets here; `values` holds what was given."""
    _note(_stop, values)


def _stop(*values: Any) -> None:
    builtins.breakpoint()


def _note(action: Callable[..., None], values: tuple[Any, ...]) -> None:
    """Do it now, or in every call of what is being recorded."""
    tracer = state.tracer
    if tracer is None:
        action(*(v.detach() if isinstance(v, Tensor) else v for v in values))
        return
    tensors: list[Tensor] = []
    numbers: set[int] = set()
    fixed: dict[int, Any] = {}
    for position, value in enumerate(values):
        if isinstance(value, Tensor):
            tensors.append(tracer.wrap(tracer.value(value)))
        elif isinstance(value, (SymbolicInt, TracedFloat)):
            dtype = dtypes.int64 if isinstance(value, SymbolicInt) else dtypes.float64
            tensors.append(tracer.wrap(tracer.constant(value, dtype)))
            numbers.add(position)
        else:
            fixed[position] = value
    tracer.notes.append((_Replay(action, len(values), numbers, fixed), tensors))


@record(frozen=True)
class _Replay:
    """An action with the tensors of a call: `numbers` are positions of those that stand for numbers."""

    action: Callable[..., None]
    count: int
    numbers: set[int]
    fixed: dict[int, Any]

    def __call__(self, *found: Tensor) -> None:
        given = iter(found)
        values = [self.fixed[i] if i in self.fixed else next(given) for i in range(self.count)]
        self.action(*(v.item() if i in self.numbers else v for i, v in enumerate(values)))


def checks_of(text: str) -> tuple[str, ...]:
    """The checks that EAGERJIT_CHECK asks of kernels; ValueError for an unknown one."""
    wanted = {name.strip() for name in text.split(",")} - {"", "bounds"}
    unknown = wanted - {"nan", "inf"}
    if unknown:
        raise ValueError(f"EAGERJIT_CHECK: unknown check {min(unknown)!r}; known: bounds, inf, nan")
    return tuple(sorted(wanted))


CHECKS = checks_of(os.environ.get("EAGERJIT_CHECK", ""))
