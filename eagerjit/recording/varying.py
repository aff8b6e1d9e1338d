"""Python numbers, NumPy arrays and tensors that change from call to call, found by recording more than once."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from eagerjit.recording.arrays import LARGE
from eagerjit.runtime.binding import same_value
from eagerjit.tensors.tensor import Tensor


def tensors_of(value: Any) -> tuple[Tensor, ...]:
    """The tensors of a value that is one, or a tuple of nothing but different ones or such tuples; else none."""
    if isinstance(value, Tensor):
        return (value,)
    if not isinstance(value, tuple):
        return ()
    parts = [tensors_of(x) for x in value]
    found = tuple(chain.from_iterable(parts))
    return found if all(parts) and len(set(map(id, found))) == len(found) else ()


def form_of(value: Any) -> Any:
    """The classes of nested tuples, and how many parts each has."""
    return (type(value), tuple(map(form_of, value))) if isinstance(value, tuple) else None


class Varying:
    """What is known of numbers when a call is recorded.

    functions   whether numbers are known to vary, so that functions of Python's own are called with those of each call
    slots       where numbers that change are kept (attributes, globals, closure cells): they are inputs
    seen        the numbers that recordings before have read; None: nothing new is to be found out
    arrays      the arrays that the function writes, by their ids: inputs, wherever it reads them
    """

    def __init__(
        self,
        functions: bool = False,
        slots: Any = (),
        seen: dict[tuple[int, Any], Any] | None = None,
        arrays: Any = (),
    ):
        self.functions, self.slots, self.seen, self.arrays = functions, set(slots), seen, set(arrays)

    def is_input(self, holder: Any, key: Any, value: Any) -> bool:
        """Whether a number or array that code reads is another one than it was in a recording before, or large."""
        if type(value) is np.ndarray:
            if value.nbytes > LARGE or id(value) in self.arrays:
                return True
            value = value.dtype.str, value.shape, value.tobytes()
        elif type(value) not in (int, float):
            return (id(holder), key) in self.slots and bool(tensors_of(value))
        slot = id(holder), key
        if slot in self.slots or self.seen is None:
            return slot in self.slots
        if same_value(self.seen.setdefault(slot, value), value):
            return False
        self.slots.add(slot)
        return True

    def settled(self) -> Varying:
        """The same for another recording of the same call."""
        return Varying(self.functions, self.slots, arrays=self.arrays)
