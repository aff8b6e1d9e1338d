"""Modules that code imports while it runs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from eagerjit.effects.deferred import Refusing
from eagerjit.effects.journal import Journal
from eagerjit.runtime import frames
from eagerjit.watching.observation import NotYet, TraceBreak, source


def absolute_name(name: str, level: int, names: dict[str, Any]) -> str:
    """The module that an import statement names, in code with these globals."""
    if not level:
        return name
    package = names.get("__package__") or names.get("__name__", "").rpartition(".")[0]
    return importlib.util.resolve_name("." * level + name, package)


def not_loaded(name: str, wanted: Sequence[str]) -> str | None:
    """The first module that importing one, and names from it, would load; None where all are there."""
    if name not in sys.modules:
        return name
    module = sys.modules[name]
    parts = [f"{name}.{part}" for part in wanted if hasattr(module, "__path__") and not hasattr(module, part)]
    return next((part for part in parts if part not in sys.modules and is_found(part)), None)


def is_found(name: str) -> bool:
    """Whether a module could be loaded."""
    parent = name.rpartition(".")[0]
    if parent and parent not in sys.modules:
        return is_found(parent)
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


class Imports:
    """The part of an observer that sees imports."""

    journal: Journal
    _importing: bool

    def _imported(self, frame: FrameType, event: str, argument: Any) -> Any:
        """The library imports a module of its own: what finders of modules do is no part of the program."""
        self._importing = event != "return"
        return self._imported

    def bring_in(self, frame: FrameType, name: str) -> None:
        """A module is about to be imported: one that is not there yet is by the plain call, before any recording."""
        level, wanted = frames.stack(frame, 2)
        name = absolute_name(name, level, frame.f_globals)
        missing = not_loaded(name, wanted or ())
        if missing is None:
            self.journal.note_module(name)
            self.journal.note_module(name.partition(".")[0])
            return
        where = source(frame)
        if is_found(missing):
            problem: TraceBreak = NotYet(f"it imports {missing}, as one call does", where)
        else:
            problem = self.journal.refuse(f"it imports {missing}, which is not found", where)

        def fail() -> Any:
            raise problem

        frames.replace(frame, 1, Refusing(fail))
