"""What native code knows of compiled calls on the tape (`native/connect.py`): how they get there, their gradients."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from eagerjit.runtime import heap_types, layout
from eagerjit.runtime.execute import NativeExecutable
from eagerjit.runtime.native import context as c
from eagerjit.runtime.once import lock

_SLOTS = {
    "differentiable": c.CALL_BACKWARD,
    "arguments": c.CALL_ARGUMENTS,
    "kept": c.CALL_KEPT,
    "whole": c.CALL_WHOLE,
    "freed": c.CALL_FREED,
    "last": c.CALL_LAST,
    "overwritten": c.CALL_OVERWRITTEN,
}
_described: set[type] = set()


class WholeGradient(heap_types.raw_base("WholeGradientBase", c.WHOLE_FIELDS)):  # type: ignore[misc]
    """The gradient of a compiled call when all its results have one, for all inputs that need one: one executable.

    n_grads     how many gradients come in
    kept        which of the values that the call keeps it takes after these
    given       what it takes then: arguments of the call by position, or objects
    targets     per input of the call's node which result of the executable is its gradient, -1 for none
    repeated    per input whether each use's gradient is added by itself to what reached it before
    visit       what the walk goes through inside of the call
    freed       what it frees of that where no node before is gone; `depends`: whether it matters which of these are
    ends        whether nothing is left to walk then
    """

    __slots__ = ("_held",)

    def __init__(
        self,
        executable: NativeExecutable,
        n_grads: int,
        kept: Sequence[int],
        given: Sequence[Any],
        targets: Sequence[int],
        repeated: Sequence[bool],
        visit: object,
        freed: object,
        depends: bool,
        ends: bool,
    ):
        tables = _words(kept), _places(given), _words(targets), _words(repeated)
        of_kept, of_given, of_targets, of_repeated = map(ctypes.addressof, tables)
        n_targets = sum(target >= 0 for target in targets)
        words = (
            *(id(executable), n_grads, of_kept, len(kept), of_given, len(given), of_targets, of_repeated, n_targets),
            *(id(visit), id(freed), int(depends), int(ends)),
        )
        for name, word in zip(c.WHOLE_FIELDS, words, strict=True):
            setattr(self, name, word)
        self._held = (executable, *given, visit, freed, tables)


class Connection(heap_types.raw_base("ConnectionBase", c.CONNECTION_FIELDS)):  # type: ignore[misc]
    """How native code puts a compiled call on the tape, and makes the function's result.

    backward    what the op of the call's node says of the gradient
    whole       the gradient by one executable, if there is one
    inputs      the node's: arguments by position, or tensors
    roots       which results of the executable have a gradient; `kept`: which are kept for it
    n_user      how many of them the user gets, as a tuple; None: the first one itself
    rebuild     makes the function's result of that tuple and None
    """

    __slots__ = ("_held",)

    def __init__(
        self,
        backward: object,
        whole: WholeGradient | None,
        inputs: Sequence[Any],
        roots: Sequence[int],
        kept: Sequence[int],
        n_user: int | None,
        rebuild: Callable[[Sequence[Any], Any], Any] | None,
    ):
        tables = _places(inputs), _words(roots), _words(kept)
        of_inputs, of_roots, of_kept = map(ctypes.addressof, tables)
        words = (
            *(id(backward), id(whole), of_inputs, len(inputs), of_roots, len(roots), of_kept, len(kept)),
            *(-1 if n_user is None else n_user, 0 if rebuild is None else id(rebuild)),
        )
        for name, word in zip(c.CONNECTION_FIELDS, words, strict=True):
            setattr(self, name, word)
        self._held = (backward, whole, *inputs, rebuild, tables)


def connects(call_type: type) -> bool:
    """Whether native code puts calls on the tape whose nodes have ops of this class."""
    if not layout.ready() or not layout.serves("connected"):
        return False
    with lock:
        if call_type not in _described:
            address, count = layout.defaults_of(call_type, {"kept": (), "freed": ()})
            fields = {offset: layout.slot_of(call_type, name) for name, offset in _SLOTS.items()}
            fields |= {c.CALL_TYPE: id(call_type), c.CALL_DEFAULTS: address, c.N_CALL_DEFAULTS: count}
            layout.describe(fields)
            _described.add(call_type)
    return True


def _words(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def _places(places: Sequence[Any]) -> Any:
    """Positions as negative words, which no address is."""
    return _words([-1 - place if type(place) is int else id(place) for place in places])
