"""Guards for what callables consist of: the code and default arguments of functions, what partials call and keep."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from eagerjit.effects.journal import Journal
from eagerjit.guards.comparing import Unchanged, holds_containers, is_flat
from eagerjit.recording.trace import Tracer
from eagerjit.runtime.program import Op
from eagerjit.watching.observation import TraceBreak

_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__")
_OF_PARTIALS = ("func", "args", "keywords")


def guard_definitions(
    tracer: Tracer, journal: Journal, functions: Iterable[FunctionType]
) -> list[Callable[[], bool]]:
    """Guards for functions that ran and partials that were called: native ones; those that need Python are returned."""
    partials = [p for p in journal.partials.values() if journal.is_outside(p)]
    parts = [(f, name) for f in functions for name in _OF_FUNCTIONS] + [(p, n) for p in partials for n in _OF_PARTIALS]
    return [check for owner, name in parts for check in _guard_part(tracer, journal, owner, name)]


def _guard_part(tracer: Tracer, journal: Journal, owner: Any, name: str) -> list[Callable[[], bool]]:
    value, changing = getattr(owner, name), journal.changing()
    if value is None:
        return []
    holder, leaf = tracer.new_leaf(), tracer.new_leaf()
    tracer.load(holder, Op.LOAD_OBJECT, tracer.object(owner))
    tracer.load(leaf, Op.LOAD_ATTRIBUTE, holder, tracer.object(name))
    tracer.guard_object(leaf, Op.IS, value)
    if not (isinstance(value, dict) or holds_containers(value)):
        return []
    lines = [line for (holder, _), line in journal.written.items() if holder == id(value) and isinstance(value, dict)]
    if lines:  # no code is seen to read these items
        raise TraceBreak(f"it changes {name} of what it calls", lines[0])
    if is_flat(value, changing):
        tracer.guard_object(leaf, Op.EQUAL, dict(value))
        return []
    return [Unchanged(value, changing)]


def note_partials(journal: Journal, function: Any) -> Any:
    """Remember the partials that a call goes through; what they call in the end."""
    while type(function) is functools.partial:
        journal.partials[id(function)] = function
        function = function.func
    return function
