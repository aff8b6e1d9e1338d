"""Trace functions of this thread: a recording's own, and those that others have set before, as coverage does."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any


def of_recording() -> Any:
    """This thread's trace function where a recording has set it, else None."""
    function = sys.gettrace()
    return function if getattr(getattr(function, "__self__", None), "is_recording", False) else None


class Onlooker:
    """A trace function that another one watches in place of, and tells of what it would have heard."""

    def __init__(self, instead: Any) -> None:
        self._function: Any = sys.gettrace()
        self._locals: dict[FrameType, Any] = {}
        """What it has asked to be told of the calls that go on, the innermost last."""
        sys.settrace(instead)

    def tell(self, frame: FrameType, event: str, argument: Any) -> None:
        """Tell of a call, a line, an exception or a return."""
        function: Any = self._function if event == "call" else self._locals.get(frame)
        if function is None:
            return
        watching = sys.gettrace()
        asked = function(frame, event, argument)
        if event == "return":
            self._locals.pop(frame, None)
        elif asked is not None:
            self._locals[frame] = asked
        if sys.gettrace() is not watching:  # at calls those written in C put themselves in the place of whoever tells
            sys.settrace(watching)

    def let_watch(self) -> None:
        """End the calls of which it has heard no end, and let it watch by itself again."""
        for frame in reversed(tuple(self._locals)):
            self.tell(frame, "return", None)
        sys.settrace(self._function)
