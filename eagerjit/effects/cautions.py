"""Warnings at the user's line, which compiled calls give as the plain ones do."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from eagerjit.runtime.source import user_frame
from eagerjit.state import state


def caution(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line; within a recording, whenever the compiled function is called."""
    frame = user_frame()
    if frame is None:
        return warnings.warn(message, category, stacklevel=2)
    file, line = frame.f_code.co_filename, frame.f_lineno
    again = functools.partial(warn_again, (file, line, frame.f_globals))
    journal = getattr(state.tracer, "journal", None)
    if journal is None:
        return again(message, category)
    return journal.call(again, (message, category), {}, f"{file}:{line}")  # type: ignore[no-any-return]


def warn_again(place: Any, message: Any, category: Any = None, stacklevel: int = 1) -> None:
    """Warn at the place where the code did."""
    file, line, names = place
    registry = names.setdefault("__warningregistry__", {})
    category = type(message) if isinstance(message, Warning) else category or UserWarning
    warnings.warn_explicit(message, category, file, line, names.get("__name__"), registry)
