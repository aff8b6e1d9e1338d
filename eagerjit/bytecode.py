"""Python code as it ran: which lines, which chains of names they read, and what local variables held."""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

from eagerjit.observation import is_internal
from eagerjit.tensor import Tensor

_PLAIN = (int, float, str, bool, bytes, type(None), complex, type, FunctionType, Tensor)


@dataclass(slots=True)
class Access:
    """A chain of names read: its root ("global", "free" or "local"), the root's name, and attributes."""

    kind: str
    name: str
    attributes: tuple[str, ...]
    line: int


@functools.lru_cache(maxsize=1024)
def _instructions(code: CodeType) -> list[tuple[int, str, Any]]:
    """(line, operation, operand) of every instruction."""
    out = []
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        position = instruction.positions.lineno if instruction.positions is not None else None
        line = position or line
        out.append((line, instruction.opname, instruction.argval))
    return out


def instructions_at(code: CodeType, lines: set[int] | None) -> Iterator[tuple[int, str, Any]]:
    """The instructions of a code object on these lines (all for None): line, operation, operand."""
    for line, name, operand in _instructions(code):
        if lines is None or line in lines:
            yield line, name, operand


def accesses(code: CodeType, lines: set[int] | None) -> list[Access]:
    """The chains of names that code reads."""
    found: list[Access] = []
    current: Access | None = None
    for line, name, operand in instructions_at(code, lines):
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            current = Access("global", operand, (), line)
            found.append(current)
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF"):
            current = Access("free" if operand in code.co_freevars else "local", operand, (), line)
            found.append(current)
        elif name.startswith("LOAD_FAST") and isinstance(operand, str):
            current = Access("local", operand, (), line)
            found.append(current)
        elif name in ("LOAD_ATTR", "LOAD_METHOD") and current is not None:
            current.attributes = (*current.attributes, operand)
        elif name not in ("CACHE", "PUSH_NULL", "PRECALL", "RESUME", "NOP", "EXTENDED_ARG"):
            current = None
    return found


def enclosed(code: CodeType, around: Iterable[FunctionType]) -> FunctionType | None:
    """A function that stands for one made during the call: it has the cells of the function around it."""
    for owner in around:
        if code in owner.__code__.co_consts:
            cells = dict(zip(owner.__code__.co_freevars, owner.__closure__ or (), strict=True))
            closure = tuple([cells.get(name, CellType()) for name in code.co_freevars])
            return FunctionType(code, owner.__globals__, code.co_name, None, closure)
    return None


class Observer:
    """Notes the lines of user code that run in this thread while it is entered, and what its local variables hold."""

    def __init__(self) -> None:
        self.lines: dict[CodeType, set[int]] = {}
        self.globals: dict[CodeType, dict[str, Any]] = {}
        self.locals: dict[tuple[CodeType, str], dict[int, Any]] = {}
        self._names: dict[CodeType, frozenset[str]] = {}

    def __enter__(self) -> Observer:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if is_internal(code):
            frame.f_trace_lines = False
            return None
        if code not in self.lines:
            self.lines[code] = {code.co_firstlineno}
            self.globals[code] = frame.f_globals
            self._names[code] = frozenset(a.name for a in accesses(code, None) if a.kind != "global" and a.attributes)
        self._note(frame)
        return self._line

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines[frame.f_code].add(frame.f_lineno)
        self._note(frame)
        return self._line

    def _note(self, frame: FrameType) -> None:
        """Remember objects in local variables whose attributes the code reads."""
        names = self._names[frame.f_code]
        if not names:
            return
        for name, value in frame.f_locals.items():
            if name in names and not isinstance(value, _PLAIN):
                self.locals.setdefault((frame.f_code, name), {})[id(value)] = value
