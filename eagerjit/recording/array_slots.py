"""NumPy arrays that a traced function reads from attributes, globals and variables: found anew by every call."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.effects.journal import Journal
from eagerjit.recording.arrays import TracedArray
from eagerjit.recording.leaves import over_array
from eagerjit.recording.numbers import SymbolicInt
from eagerjit.state import untraced
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.slots import Slot, look


class ArraySlot:
    """Where an array is found; as a guard it looks there again, and keeps a tensor over what it finds."""

    def __init__(self, holder: Any, key: Any, kind: str, tensor: Tensor):
        self.holder, self.key, self.kind, self.tensor = holder, key, kind, tensor

    def __call__(self) -> bool:
        found = look(self.holder, self.key, self.kind)
        tensor = over_array(found) if type(found) is np.ndarray else None
        if tensor is None:
            return False
        self.tensor = tensor
        return True


def read_array(journal: Journal, holder: Any, key: Any, array: np.ndarray, kind: str) -> Any:
    """An array that code reads, made an input of the compiled function: its stand-in."""
    slot = id(holder), key
    if slot in journal.arrays and slot not in journal.written:
        return journal.arrays[slot]
    if slot in journal.written or not journal.is_outside(holder):
        return array
    with untraced():
        tensor = over_array(array)
    if tensor is None:
        return array
    place = ArraySlot(holder, key, kind, tensor)
    leaf = journal.load(place, "tensor", "attribute")
    journal.tracer.slots[leaf] = Slot(place, "tensor", "attribute")
    journal.tracer.tensor_leaf(tensor, leaf, symbolic=True)
    journal.inputs.add(slot)
    journal.array_inputs.add(id(array))
    journal.checks.append(place)
    journal.arrays[slot] = TracedArray(tensor)
    return journal.arrays[slot]


def is_picked(journal: Journal, array: Any, key: Any) -> bool:
    """Whether calls pick other elements of an array from outside, so that it should be an input."""
    varying = journal.varying
    if type(array) is not np.ndarray or journal.is_made(array) or id(array) in varying.arrays:
        return False
    return varying.functions and SymbolicInt in map(type, key if type(key) is tuple else (key,))
