"""Tensors of classes with a `__torch_function__` that a recorded call met: compiled calls look for the same classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.runtime.binding import bound
from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Tensor, is_asked
from eagerjit.watching.slots import Slot


@record(frozen=True)
class AskedClasses:
    """The class of each tensor of such a class among the arguments; whether there were any, also outside of them.

    slots   where the calls find other tensors by themselves, which may be of no such class
    """

    kinds: dict[int, type]
    met: bool = False
    slots: tuple[Slot, ...] = ()

    def hold(self, leaves: Sequence[Any]) -> bool:
        """Whether a call's arguments are of these classes, and what it finds by itself of none that is asked."""
        if not bound.subclasses:
            return True
        found = {i: type(x) for i, x in enumerate(leaves) if isinstance(x, Tensor) and _is_met(type(x))}
        return found == self.kinds and not any(_is_met(type(slot.read())) for slot in self.slots)


def asked_classes(tracer: Any) -> AskedClasses:
    """Those that a recording met. Native code takes no others, unless it is told to for a version that met some."""
    count, found = len(tracer.arguments or ()), tracer.kinds_asked
    kinds = {leaf: kind for leaf, kind in found.items() if leaf < count}
    return AskedClasses(kinds, bool(found), tuple(s for s in tracer.slots.values() if type(s) is Slot) if found else ())


def _is_met(kind: type) -> bool:
    """Whether a recording takes tensors of a class for inputs, and asks it; sparse ones it takes apart."""
    return is_asked(kind) and not hasattr(kind, "not_compiled")
