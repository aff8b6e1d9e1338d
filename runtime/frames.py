"""The value stack of a running frame, as a trace function sees it before an instruction: read, and replaced.

CPython has no call for this. Where the fields lie is known for the versions in `_SUPPORTED` and tried out once, on a
function whose stack is known, before anything else is read.
"""

from __future__ import annotations

import ctypes
import dis
import gc
import inspect
import operator
import sys
from collections.abc import Iterator
from types import CellType, CodeType, FrameType
from typing import Any

from eagerjit.runtime import heap_types
from eagerjit.runtime.cpython import decrement, increment
from eagerjit.runtime.source import is_library
from eagerjit.runtime.stack_depth import depths

_SUPPORTED = ((3, 11), (3, 12), (3, 13), (3, 14), (3, 15))
_FRAME = 24  # PyFrameObject.f_frame, and of its target localsplus, the code, and the names of a class
_LOCALS = 72 if sys.version_info < (3, 14) else 80
_CODE = 32 if sys.version_info < (3, 12) else 0
_NAMES = 24 if sys.version_info < (3, 12) else 40
_WORD = 8
_BORROWED = 1 if sys.version_info >= (3, 14) else 0
"""What is added to the address of an object whose references the place does not count."""
_NO_ADDRESS = 2
"""A bit that only numbers have, which lie in the places of objects."""


class NoValue:
    """What stands for an empty place of the stack."""


def _word(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0


def _inner(frame: FrameType) -> int:
    return _word(id(frame) + _FRAME)


def _object(word: int) -> Any:
    address = 0 if word & _NO_ADDRESS else word & ~_BORROWED
    return ctypes.cast(address, ctypes.py_object).value if address else NoValue


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
    borrowed = _BORROWED if _is_immortal(value) else 0
    increment(value)
    ctypes.c_void_p.from_address(address).value = id(value) | borrowed
    if not before & _BORROWED:
        decrement(before)


def _is_immortal(value: object) -> bool:
    """Whether references to an object are never counted: the interpreter compares the words of True, False and None."""
    return bool(_BORROWED) and sys._is_immortal(value)  # type: ignore[attr-defined]


def cell(frame: FrameType, name: str) -> CellType:
    """The cell of a variable that belongs to an enclosing function."""
    code = frame.f_code
    position = _n_locals(code) + code.co_freevars.index(name)
    found: CellType = _object(_word(_inner(frame) + _LOCALS + _WORD * position))
    return found


def variables(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """The names that have a value in a function, or in the body of a class.

    `f_locals` has them too, but before CPython 3.13 it keeps the values for as long as there is the frame.
    """
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED:
        yield from names(frame).items()
    own = *code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames)
    first = _inner(frame) + _LOCALS
    for position, name in enumerate((*own, *code.co_freevars)):
        value = _object(_word(first + _WORD * position))
        if isinstance(value, CellType):
            value = value.cell_contents if gc.get_referents(value) else NoValue
        if value is not NoValue:
            yield name, value


def names(frame: FrameType) -> Any:
    """What the body of a class has assigned so far.

    `f_locals` is the same, but CPython 3.12 then takes the variables of comprehensions there for None.
    """
    return _object(_word(_inner(frame) + _NAMES))


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
    if sys.version_info[:2] not in _SUPPORTED or not heap_types.supported():
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
            if _object(_word(inner + _CODE)) is not frame.f_code:
                return None
            seen.append(all(map(operator.is_, stack(frame, 2), (seen, marker))))
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
