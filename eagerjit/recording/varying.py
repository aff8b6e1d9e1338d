"""Python numbers, NumPy arrays and tensors that change from call to call, found by recording more than once."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import field
from itertools import chain
from typing import Any

import numpy as np

from eagerjit.guards.forms import keys_of
from eagerjit.recording.arrays import LARGE
from eagerjit.runtime.binding import same_value
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.slots import Slot

_MOST_ENTRIES = 8


def tensors_of(value: Any) -> tuple[Tensor, ...]:
    """The tensors of a value that is one, or a tuple of nothing but different ones or such tuples; else none."""
    if isinstance(value, Tensor):
        return (value,)
    if not isinstance(value, tuple):
        return ()
    parts = [tensors_of(x) for x in value]
    found = tuple(chain.from_iterable(parts))
    return found if all(parts) and len(set(map(id, found))) == len(found) else ()


@record
class Known:
    """What the recordings of a function have found out.

    slots       where what changes is kept (attributes, globals, closure cells): numbers, tensors, containers are inputs
    left        those of the slots whose containers are no inputs all the same
    forms       what containers found in slots look like
    unseen      where the library reads, unseen, what the function assigns afterwards
    seen        the numbers and containers that recordings have read; None: nothing new is to be found out
    arrays      the arrays that the function writes, by their ids: inputs, wherever it reads them
    entries     what functions that keep their results have kept, by function and arguments
    """

    slots: set[tuple[int, Any]] = field(default_factory=set)
    left: set[tuple[int, Any]] = field(default_factory=set)
    unseen: dict[tuple[int, Any], Slot] = field(default_factory=dict)
    forms: dict[tuple[int, Any], set[Any]] = field(default_factory=dict)
    seen: dict[tuple[int, Any], Any] | None = field(default_factory=dict)
    arrays: set[int] = field(default_factory=set)
    entries: dict[Any, set[Any]] = field(default_factory=dict)

    def learn(self, varying: Varying) -> None:
        """Keep what a recording has found out."""
        self.slots |= varying.slots
        self.left |= varying.left


def unknown(holder: Any, value: Any) -> bool:
    """While nothing is recorded nothing is told from what was there before."""
    return False


class Varying:
    """What is known of numbers, tensors and containers when a call is recorded.

    functions   whether numbers are known to vary, so that functions of Python's own are called with those of each call
    is_outside  whether what a holder holds was there before the call
    """

    def __init__(self, functions: bool = False, known: Known | None = None):
        known = Known(seen=None) if known is None else known
        self.functions, self.slots, self.left = functions, set(known.slots), set(known.left)
        self.unseen = dict(known.unseen)
        self.forms, self.seen, self.arrays, self.entries = known.forms, known.seen, set(known.arrays), known.entries
        self.is_outside: Callable[[Any, Any], bool] = unknown

    def is_input(self, holder: Any, key: Any, value: Any) -> bool:
        """Whether a number or array that code reads is another one than it was in a recording before, or large."""
        if type(value) is np.ndarray:
            if value.nbytes > LARGE or id(value) in self.arrays:
                return True
            value = value.dtype.str, value.shape, value.tobytes()
        elif type(value) not in (int, float, np.float64):
            return self._is_replaced(holder, key, value)
        slot = id(holder), key
        if slot in self.slots or self.seen is None:
            return slot in self.slots
        if same_value(self.seen.setdefault(slot, value), value):
            return False
        self.slots.add(slot)
        return True

    def _is_replaced(self, holder: Any, key: Any, value: Any) -> bool:
        """Whether a tensor, container or record is another one than before."""
        slot = id(holder), key
        opens = keys_of(value, True) is not None
        plain = type(value) is Tensor and not value._requires_grad
        told = plain or (opens and not isinstance(value, tuple))
        if told and slot not in self.slots and self.seen is not None and self.is_outside(holder, value):
            one = weakref.ref(value) if plain else value  # what is in its place keeps no memory
            self.slots |= {slot} if self.seen.setdefault(slot, one) is not one else set()
        return slot in self.slots and (opens or isinstance(value, Tensor))

    def keeps(self, name: Any, entry: Any) -> bool:
        """Whether a function that keeps its results has not kept ever new ones under a name."""
        known = self.entries.setdefault(name, set())
        known.add(entry)
        return len(known) <= _MOST_ENTRIES

    def settled(self) -> Varying:
        """The same for another recording of the same call."""
        return Varying(self.functions, Known(self.slots, self.left, self.unseen, {}, None, self.arrays))
