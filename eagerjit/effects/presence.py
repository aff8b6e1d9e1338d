"""Whether there is what code deletes or replaces: compiled calls look before they change anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eagerjit.runtime.program import Op
from eagerjit.watching.containers import CONTAINERS
from eagerjit.watching.slots import ABSENT, LOOK

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal


def tie_presence(journal: Journal, holder: Any, key: Any, kind: str, deleting: bool) -> bool:
    """Tie calls to whether a slot that is deleted, or an item that is replaced, is there: an error would come too late.

    Whether nothing is there to be deleted, so that code is about to fail.
    """
    look, in_order = LOOK[kind], kind == "item" and hasattr(type(holder), "reverse")
    if in_order:
        _tie_length(journal, holder, key)
        return False
    fails = deleting and look(holder, key) is ABSENT
    if not deleting or (id(holder), key) in journal.written or not journal.is_outside(holder):
        return fails
    there = look(_beginning_of(journal, holder), key) is not ABSENT
    if there and kind == "item":
        journal.load(holder, key, kind)
    else:
        journal.checks.append(lambda: (look(holder, key) is not ABSENT) is there)
    return fails


def lies_there(journal: Journal, holder: Any, key: Any, value: Any, kind: str) -> bool:
    """Whether a container is assigned to where it lies already, as `items += [x]` does; calls look whether it does."""
    slot = id(holder), key
    changed = slot in journal.written or (id(holder), None) in journal.written
    if type(value) not in CONTAINERS or changed or LOOK[kind](holder, key) is not value:
        return False
    if not journal.is_outside(holder):
        return False
    if slot in journal.inputs:
        return True  # which stands for what the call finds there, whichever that is
    if not journal.is_outside(value):
        return False
    journal.tracer.guard_object(journal.load(holder, key, kind), Op.IS, value)
    journal.told_apart[id(value)] = value  # where it was read no equal one will do
    return True


def _tie_length(journal: Journal, items: Any, key: Any) -> None:
    """Tie calls to an index in a list or its like, or to the length that a slice with steps must have."""
    whole = isinstance(key, slice)
    if not journal.is_outside(items) or (whole and key.step is None) or not (whole or isinstance(key, int)):
        return
    before, least = _beginning_of(journal, items), 0 if whole else -key if key < 0 else key + 1
    if type(items) is list and before is items and not whole and 0 <= key < len(items):
        journal.load(items, key, "item")
        return
    size = len(before)
    if whole:
        journal.checks.append(lambda: len(items) == size)
    else:
        needed = least if before is items else size
        journal.checks.append(lambda: len(items) >= needed)


def _beginning_of(journal: Journal, holder: Any) -> Any:
    """A container as it was when the call began, where the call has changed it; else itself."""
    return next((held for container, held in journal.beginning.containers if container is holder), holder)
