"""Attributes of Modules that code of the library may have read, unseen, before the function assigns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerjit.guards.comparing import has_state
from eagerjit.guards.epochs import Table
from eagerjit.guards.unread import is_in_library, is_layer
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.lookup import inherited
from eagerjit.watching.slots import ABSENT, LOOK, Slot

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal
    from eagerjit.recording.varying import Varying


def is_read_unseen(journal: Journal, holder: Any, key: Any, kind: str) -> bool:
    """Whether the library may have read what is about to be assigned: the next call reads what this one leaves there.

    Of tensors the recording knows whether they were read. Other attributes only the library's own layers read.
    """
    of_module = isinstance(holder, Table) or (kind == "attribute" and has_state(holder))
    if not of_module or (id(holder), key) in journal.inputs:
        return False
    held = _held(slot := Slot(holder, key, kind))
    if isinstance(held, Tensor):
        found = id(held) in journal.tracer.leaf_of
    else:
        found = held is not ABSENT and is_in_library(key, type(holder)) and is_layer(holder)
    if found:
        journal.unseen[id(holder), key] = slot
    return found


def _held(slot: Slot) -> Any:
    """What a slot holds, or has from its holder's class: without running code of the program's."""
    held = LOOK[slot.kind](slot.holder, slot.key)
    return inherited(slot.holder, slot.key) if held is ABSENT and slot.kind == "attribute" else held


def open_unseen(journal: Journal, varying: Varying) -> None:
    """Make what earlier recordings have found to be read unseen, and replaced, inputs from the beginning."""
    for slot in varying.unseen.values():
        if (held := _held(slot)) is not ABSENT:
            journal.input(slot.holder, slot.key, held, slot.kind)
