"""Attributes that programs give to tensors, read and assigned while a function is recorded."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.compiler.ir import Node
from eagerjit.guards.comparing import Unchanged
from eagerjit.guards.value_guards import guard_value
from eagerjit.runtime.own_attributes import own_attributes
from eagerjit.runtime.program import Op
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak
from eagerjit.watching.slots import Slot

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal


def is_given(tensor: Any, name: str) -> bool:
    """Whether an attribute of a tensor is the program's: none that its class has."""
    return isinstance(tensor, Tensor) and not hasattr(type(tensor), name)


_OF_HISTORY = frozenset(("grad_fn", "is_leaf", "retains_grad"))


def note_asked(journal: Journal, tensor: Any, name: str = "") -> None:
    """Code is about to ask something of a tensor: one from outside is an input, of just this dtype and rank, which
    needs a gradient or not as now, even where nothing is computed of it.
    """
    if not isinstance(tensor, Tensor) or hasattr(tensor, "_pattern") or not isinstance(tensor._data, np.ndarray):
        return  # of a sparse one what it consists of is found
    journal.tracer.value(tensor)
    if name in _OF_HISTORY:
        node = tensor._node
        journal.checks.append(lambda: tensor._node is node)


def note_read(journal: Journal, tensor: Any, name: str, source: str) -> None:
    """Code is about to read an attribute: of a tensor, every call needs to find the same, or that there is none."""
    note_asked(journal, tensor, name)
    if not is_given(tensor, name):
        return
    tracer = journal.tracer
    if type(tensor._data) is Node or (id(tensor), name) in journal.written:
        return
    tracer.value(tensor)
    leaf, arguments = tracer.leaf_of[id(tensor)], len(tracer.arguments or ())
    if name not in vars(tensor):
        slot = tracer.slots.get(leaf)
        if leaf < arguments:
            tracer.lacking.append((leaf, name))
        elif slot is None:
            journal.checks.append(lambda: name not in vars(tensor))
        elif type(slot) is Slot and type(slot.holder) is not threading.local:
            journal.checks.append(lambda: name not in own_attributes(slot.read()))
        else:
            raise TraceBreak(f"it reads the attribute {name} of a tensor that it asked for", source)
        return
    value, found = vars(tensor)[name], tracer.new_leaf()
    if isinstance(value, Tensor) and tracer.is_found(leaf):
        raise TraceBreak(f"it reads a tensor in the attribute {name} of an argument", source)
    tracer.load(found, Op.LOAD_ATTRIBUTE, leaf, tracer.object(name))
    guard_value(tracer, found, value)
    if isinstance(value, (list, dict, set)):
        journal.checks.append(Unchanged(value, frozenset()))


def note_assigned(journal: Journal, tensor: Tensor, name: str, value: Any, source: str) -> None:
    """Code is about to assign or delete an attribute: compiled calls do it to tensors that they find themselves.

    Those that they make have their attributes when they are returned or kept.
    """
    tracer = journal.tracer
    leaf = tracer.leaf_of.get(id(tensor))
    if type(tensor._data) is Node and leaf is None:
        return
    if leaf is not None and tracer.is_found(leaf):
        journal.refuse(f"it assigns the attribute {name} of a tensor that it was given", source)
    journal.assign(tensor, name, value, "attribute", source)
