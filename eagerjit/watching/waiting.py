"""Generators that wait inside of `try` or `with`, where closing them runs code of the program's."""

from __future__ import annotations

import ctypes
import gc
from types import FrameType, GeneratorType

from eagerjit.watching.bytecode import yields_with_care
from eagerjit.watching.observation import TraceBreak, source


class Waiting:
    """The generators that wait so while code is watched."""

    def __init__(self) -> None:
        self._places: dict[FrameType, str] = {}

    def left(self, frame: FrameType, offset: int) -> None:
        """A function has returned, a generator has given a value, or an error has left it: at the instruction that ran.

        CPython takes errors that `finally` lets pass back to where they came from: there a frame seems to wait.
        """
        if offset in yields_with_care(frame.f_code):
            self._places[frame] = source(frame)
        else:
            self._places.pop(frame, None)

    def keep(self) -> None:
        """Let those that still wait live for ever: closed later, they would do once more what the plain call's do."""
        if not self._places:
            return
        for generator in gc.get_objects():
            if type(generator) is GeneratorType and generator.gi_frame in self._places:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(generator))

    def check(self) -> None:
        """Refuse what leaves a generator so, or has closed it unseen."""
        for place in self._places.values():
            raise TraceBreak("a generator that waits inside of `try` or `with` lives on", place)
