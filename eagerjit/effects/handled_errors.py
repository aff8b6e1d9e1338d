"""The error that is being handled: code may ask for it, and raise it again, where its caller is what handles it."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal

_TELLING = (sys.exc_info, getattr(sys, "exception", None), traceback.format_exc, traceback.print_exc)


def note_error_told(journal: Journal, function: Any, args: tuple[Any, ...], source: str) -> None:
    """Something is called, which may tell which error is being handled, or was when another was raised."""
    if any(function is known for known in _TELLING):
        note_handled(journal, source)
    if getattr(function, "__module__", "") == "traceback":
        for error in (*args, sys.exc_info()[1]):
            note_context(journal, error, source)


def note_handled(journal: Journal, source: str) -> None:
    """Code asks which error is being handled: one of the call's own, or what its caller handles, or none."""
    _note(journal, sys.exc_info()[1], source)


def note_context(journal: Journal, error: Any, source: str) -> None:
    """Code asks for errors that were being handled when one of the call's own was raised."""
    while isinstance(error, BaseException):
        error = error.__context__
        _note(journal, error, source)


def _note(journal: Journal, error: BaseException | None, source: str) -> None:
    if error is None:
        journal.checks.append(_handles_nothing)
    elif error is journal.handled:
        journal.refuse("it asks for the error that its caller handles", source)


def _handles_nothing() -> bool:
    return sys.exc_info()[1] is None
