"""Generators that wait inside of `try` or `with`, where closing them runs code of the program's."""

from __future__ import annotations

import ctypes
import gc
from types import FrameType, GeneratorType
from typing import Any

from eagerjit.watching.bytecode import yields_with_care
from eagerjit.watching.observation import TraceBreak, source


class Waiting:
    """The generators that wait so while code is watched."""

    def __init__(self) -> None:
        self._places: dict[FrameType, str] = {}
        self._ended: set[FrameType] = set()

    def left(self, frame: FrameType, value: Any) -> None:
        """A function has returned, or a generator has given a value; None too where an error has left it."""
        if frame.f_lasti not in yields_with_care(frame.f_code):
            self._places.pop(frame, None)
            return
        self._places[frame] = source(frame)
        (self._ended.add if value is None else self._ended.discard)(frame)

    def keep(self) -> None:
        """Let those that still wait live for ever: closed later, they would do once more what the plain call's do."""
        if not self._places:
            return
        made = [x for x in gc.get_objects() if type(x) is GeneratorType and x.gi_frame in self._places]
        self._ended.difference_update([x.gi_frame for x in made])
        for generator in made:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(generator))

    def check(self) -> None:
        """Refuse what leaves a generator so, or has closed it unseen."""
        for frame, place in self._places.items():
            if frame not in self._ended:
                raise TraceBreak("a generator that waits inside of `try` or `with` lives on", place)
