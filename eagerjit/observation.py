"""Where user code is while it is traced, and what ends a trace."""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any

from eagerjit.runtime.source import here, is_library, line_of


class TraceBreak(Exception):
    """The function did something that a trace cannot represent; the call runs eagerly instead."""

    def __init__(self, reason: str, source: str):
        super().__init__(f"{source}: {reason}")
        self.reason, self.source = reason, source


def is_internal(code: CodeType) -> bool:
    """Whether this code belongs to the library, NumPy or the standard library rather than to the user."""
    return is_library(code.co_filename)


def pause_observation() -> Any:
    """Stop noting lines while the library's own code runs; `resume_observation` undoes it."""
    function = sys.gettrace()
    if function is not None:
        sys.settrace(None)
    return function


def resume_observation(function: Any) -> None:
    """Note lines again."""
    if function is not None:
        sys.settrace(function)


def user_line() -> str:
    """`file:line` of the user's code that is running."""
    return line_of(here())
