"""The value stack of a running frame, as a trace function sees it before an instruction: read, and replaced.

CPython has no call for this. Where the fields lie is known for the versions in `_SUPPORTED` and tried out once, on a
function whose stack is known, before anything else is read.
"""

from __future__ import annotations

import ctypes
import dis
import sys
from types import CellType, CodeType, FrameType
from typing import Any

from eagerjit.runtime.cpython import decrement, increment
from eagerjit.runtime.source import is_library
from eagerjit.runtime.stack_depth import depths

_SUPPORTED = ((3, 11), (3, 12), (3, 13))
_FRAME, _LOCALS = 24, 72  # PyFrameObject.f_frame, and localsplus of its target
_CODE = 32 if sys.version_info < (3, 12) else 0
_WORD = 8


class NoValue:
    """What stands for an empty place of the stack."""


def _word(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0


def _inner(frame: FrameType) -> int:
    return _word(id(frame) + _FRAME)


def _object(pointer: int) -> Any:
    return ctypes.cast(pointer, ctypes.py_object).value if pointer else NoValue


def _top(frame: FrameType) -> int:
    """The address after the topmost value of a frame that is about to execute an instruction.

    The interpreter keeps it to itself, but the code says how many values there are at each instruction.
    """
    code = frame.f_code
    below = _n_locals(code) + len(code.co_freevars)
    return _inner(frame) + _LOCALS + _WORD * (below + depths(code)[frame.f_lasti])


def stack(frame: FrameType, count: int) -> list[Any]:
    """The topmost values of a frame that is about to execute an instruction, the top last."""
    first = _top(frame) - _WORD * count
    return [_object(_word(first + _WORD * i)) for i in range(count)]


def replace(frame: FrameType, depth: int, value: Any) -> None:
    """Put another value in the place of the one that lies `depth` below the top of the stack."""
    address = _top(frame) - _WORD * (1 + depth)
    before = _word(address)
    increment(value)
    ctypes.c_void_p.from_address(address).value = id(value)
    decrement(before)


def cell(frame: FrameType, name: str) -> CellType:
    """The cell of a variable that belongs to an enclosing function."""
    code = frame.f_code
    position = _n_locals(code) + code.co_freevars.index(name)
    found: CellType = _object(_word(_inner(frame) + _LOCALS + _WORD * position))
    return found


def is_left_with_care(frame: FrameType | None) -> bool:
    """Whether an exception that leaves a frame, or those that called it, may run code: `finally`, `except`, `with`."""
    while frame is not None and not (frame.f_code.co_exceptiontable and not is_library(frame.f_code.co_filename)):
        frame = frame.f_back
    return frame is not None


def _n_locals(code: CodeType) -> int:
    """How many places for local variables and cells come before those of enclosing functions."""
    return code.co_nlocals + len(set(code.co_cellvars) - set(code.co_varnames))


def _works() -> bool:
    """Whether the stack of a known function reads as it must."""
    if sys.version_info[:2] not in _SUPPORTED or sys.implementation.name != "cpython":
        return False
    marker = object()
    seen: list[Any] = []

    def known(value: object) -> tuple[object, object]:
        return value, marker

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is not known.__code__:
            return None
        if event == "call":
            frame.f_trace, frame.f_trace_opcodes = trace, True
        if event == "opcode" and known.__code__.co_code[frame.f_lasti] == _BUILD_TUPLE:
            inner = _inner(frame)
            if _word(inner + _CODE) != id(frame.f_code):
                return None
            seen.append([_word(_top(frame) - _WORD * i) for i in (2, 1)] == [id(seen), id(marker)])
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # CPython 3.12 reports instructions only to traces set after this
    sys.settrace(trace)
    try:
        known(seen)
    finally:
        sys.settrace(before)
    return seen == [True]


_BUILD_TUPLE = dis.opmap["BUILD_TUPLE"]
_readable: list[bool] = []


def readable() -> bool:
    """Whether stacks can be read in this interpreter."""
    if not _readable:
        _readable.append(_works())
    return _readable[0]
