"""Attributes that programs give to tensors, read and assigned while a function is recorded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from eagerjit.autograd.node import refresh
from eagerjit.compiler.ir import Node
from eagerjit.guards.comparing import Unchanged
from eagerjit.guards.value_guards import guard_value
from eagerjit.runtime.own_attributes import own_attributes
from eagerjit.runtime.program import Op
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, user_line
from eagerjit.watching.slots import GradientOf, Slot

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal


_WHOLE = frozenset(("__dict__", "__class__"))


def is_given(tensor: Any, name: str) -> bool:
    """Whether an attribute of a tensor is the program's: none that its class has."""
    return isinstance(tensor, Tensor) and not hasattr(type(tensor), name)


def is_assigned(tensor: Tensor, name: str) -> bool:
    """Whether assigning an attribute is for this module to note: the class's own properties do what is to be done."""
    return name in _WHOLE or is_given(tensor, name)


_SLOTS = frozenset(("_data", "_grad", "_hooks", "_index", "_node", "_storage", "_view"))
_OF_HISTORY = frozenset(("grad_fn", "is_leaf", "retains_grad"))


def note_asked(journal: Journal, tensor: Any, name: str = "") -> None:
    """Code is about to ask something of a tensor: one from outside is an input, of just this dtype and rank, which
    needs a gradient or not as now, even where nothing is computed of it.
    """
    if not isinstance(tensor, Tensor) or hasattr(tensor, "_pattern") or not isinstance(tensor._data, np.ndarray):
        return  # of a sparse one what it consists of is found
    journal.tracer.value(tensor)
    if name in _SLOTS:
        raise TraceBreak(f"it reads {name} of a tensor from outside", user_line())
    if name in _OF_HISTORY:
        refresh(tensor)
        node = tensor._node
        journal.checks.append(lambda: tensor._node is node)


def note_read(journal: Journal, tensor: Any, name: str) -> None:
    """Code is about to read an attribute: of a tensor, every call needs to find the same, or that there is none.

    Who reads all at once needs to find these alone, in this order.
    """
    note_asked(journal, tensor, name)
    every = name == "__dict__" and isinstance(tensor, Tensor)
    if not (every or is_given(tensor, name)):
        return
    tracer = journal.tracer
    if type(tensor._data) is Node or (id(tensor), name) in journal.written:
        return
    tracer.value(tensor)
    leaf = tracer.leaf_of[id(tensor)]
    if every:
        journal.note_table(tensor)
        names = [*vars(tensor)]
        for one in names:
            note_read(journal, tensor, one)
        return _require(journal, tensor, lambda own: [*own] == names, name)
    if name not in vars(tensor):
        return _require(journal, tensor, lambda own: name not in own, name)
    value, found = vars(tensor)[name], tracer.new_leaf()
    if isinstance(value, Tensor) and tracer.is_found(leaf):
        raise TraceBreak(f"it reads a tensor in the attribute {name} of an argument", user_line())
    tracer.load(found, Op.LOAD_ATTRIBUTE, leaf, tracer.object(name))
    guard_value(tracer, found, value)
    if isinstance(value, (list, dict, set)):
        journal.checks.append(Unchanged(value, frozenset()))


def _require(journal: Journal, tensor: Any, holds: Callable[[Any], bool], name: str) -> None:
    """Let calls look whether something holds of a tensor's own attributes."""
    tracer = journal.tracer
    leaf = tracer.leaf_of[id(tensor)]
    slot = tracer.slots.get(leaf)
    if leaf < len(tracer.arguments or ()):
        tracer.attributes.append((leaf, holds))
    elif slot is None:
        journal.checks.append(lambda: holds(vars(tensor)))
    elif type(slot) is GradientOf and isinstance(slot.place, Tensor):
        journal.checks.append(lambda: (found := slot.read(())) is not None and holds(vars(found)))
    elif type(slot) is Slot and type(slot.holder) is not threading.local:
        journal.checks.append(lambda: holds(own_attributes(slot.read())))
    else:
        raise TraceBreak(f"it reads the attribute {name} of a tensor that it asked for", user_line())


def note_assigned(journal: Journal, tensor: Tensor, name: str, value: Any, source: str) -> None:
    """Code is about to assign or delete an attribute: compiled calls do it to tensors that they find themselves.

    Those that they make have their attributes when they are returned or kept.
    """
    tracer = journal.tracer
    leaf = tracer.leaf_of.get(id(tensor))
    if type(tensor._data) is Node and leaf is None:
        return
    if name in _WHOLE or (leaf is not None and tracer.is_found(leaf)):
        journal.refuse(f"it assigns the attribute {name} of a tensor that it has not made", source)
    journal.assign(tensor, name, value, "attribute", source)
