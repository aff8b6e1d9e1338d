"""Lines of the user's code: which frame is the user's, and where in a file it is.

A place is a code object and the offset of an instruction in it, which cost nothing to note; `line_of` makes it
`file:line` when somebody asks. Native code notes places too (`native/places.py`) and asks `is_library` once per file.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import CodeType, FrameType

import numpy as np

Place = tuple[CodeType, int]

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_STANDARD = os.path.dirname(os.__file__) + os.sep
_LIBRARIES = (
    *(root + os.sep for root in {_PACKAGE, os.path.realpath(_PACKAGE), os.path.dirname(np.__file__)}),
    "<string>",
    "<frozen ",
)

_USED = ("llvmlite", "scipy_openblas32", "ml_dtypes")
"""Packages that run as part of this library, found once something has imported them."""

files: dict[str, bool] = {}
"""Files met so far, and whether they belong to a library."""


def is_library(file: str) -> bool:
    """Whether a file belongs to eagerjit, what it runs on, or the standard library rather than to the user."""
    known = files.get(file)
    if known is None:
        standard = file.startswith(_STANDARD) and "site-packages" not in file
        known = files[file] = standard or file.startswith(_LIBRARIES) or file.startswith(_used())
    return known


def _used() -> tuple[str, ...]:
    modules = [sys.modules.get(name) for name in _USED]
    return tuple([os.path.dirname(m.__file__) + os.sep for m in modules if m is not None and m.__file__])


def user_frame() -> FrameType | None:
    """The innermost frame of the user's code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def line_here() -> str:
    """`file:line` of the user's code that runs, "" outside of it."""
    frame = user_frame()
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno or frame.f_code.co_firstlineno}"


def here() -> Place | None:
    """Where the user's code is, None outside of it."""
    frame = user_frame()
    return None if frame is None else (frame.f_code, frame.f_lasti)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the user's line, however deep inside the library the reason was found."""
    file, _, line = line_here().rpartition(":")
    warnings.warn_explicit(message, category, file or "<eagerjit>", int(line or 0))


def line_of(place: Place | str | None) -> str:
    """`file:line` of a place; what is a line already stays as it is."""
    if place is None or isinstance(place, str):
        return place or ""
    code, offset = place
    found = next((line for start, end, line in code.co_lines() if start <= offset < end), None)
    return f"{code.co_filename}:{found or code.co_firstlineno}"
