"""Tensors of classes with a `__torch_function__` that a recorded call met: compiled calls look for the same classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.runtime.records import record
from eagerjit.tensors.tensor import Tensor, is_asked
from eagerjit.watching.slots import Slot


@record(frozen=True)
class AskedClasses:
    """The class of each tensor of such a class among the inputs, and where calls find their other inputs."""

    kinds: dict[int, type]
    slots: list[Slot]

    def hold(self, leaves: Sequence[Any]) -> bool:
        """Whether a call's arguments are of these classes, and what it finds by itself of none that is asked."""
        found = {i: type(x) for i, x in enumerate(leaves) if isinstance(x, Tensor) and is_asked(type(x))}
        return found == self.kinds and not any(is_asked(type(slot.read())) for slot in self.slots)


def asked_classes(tracer: Any) -> AskedClasses | None:
    """Those that a recording met; None where it met none."""
    if not tracer.kinds_asked:
        return None
    count = len(tracer.arguments or ())
    return AskedClasses({i: kind for i, kind in tracer.kinds_asked.items() if i < count}, list(tracer.slots.values()))
