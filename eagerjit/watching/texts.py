"""Texts of f-strings that only a print or a log record gets: compiled calls make them, of each call's numbers.

Formatting a number of a traced call would tie the recording to it. Where the instructions show that a text goes nowhere
but to a call, a mark is formatted in the number's place; a call that is put off keeps the parts, any other gets the
real text.
"""

from __future__ import annotations

import builtins
import dis
import functools
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

from eagerjit.recording.arrays import TracedNumber
from eagerjit.recording.numbers import SymbolicInt, TracedFloat, plain
from eagerjit.state import state
from eagerjit.tensors.tensor import Shape, Tensor
from eagerjit.watching.clocks import Later

LOGGED = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "critical": 50, "fatal": 50}
"""The methods of loggers that make records, with the level."""

_NUMBERS = (SymbolicInt, TracedFloat, Later)
_MARK = re.compile("\ue000eagerjit:([0-9]+)\ue000")
_FORMATS = {"FORMAT_VALUE": 0, "FORMAT_SIMPLE": 0, "FORMAT_WITH_SPEC": 1}
_OPERATORS = ("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP")
_LOADS = ("LOAD_FAST", "LOAD_CONST", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_ATTR", "LOAD_METHOD")


@dataclass
class Text:
    """A text as its parts: strings, and (number, format) pairs, where sizes or a list may stand for the number."""

    parts: tuple[Any, ...]

    def __str__(self) -> str:
        return "".join([p if isinstance(p, str) else format(*p) for p in self.parts])


class Marked:
    """Takes the place of a number that is about to be formatted."""

    def __init__(self, number: Any):
        self.number = number

    def __format__(self, specification: str) -> str:
        number, tracer = self.number, state.tracer
        if isinstance(number, Tensor):
            number = number.item()
        if type(number) is TracedNumber and number.kind is np.float64:  # whose texts are those of Python's
            number = number.number
        several = isinstance(number, (tuple, list))
        if tracer is None or (specification if several else type(number) not in _NUMBERS):
            return format(number, specification)
        if not several:
            format(0 if isinstance(number, int) else 0.0, specification)  # raises what formatting raises
        number = type(number)(number) if several else number
        tracer.formatted.append((number, specification))
        return f"\ue000eagerjit:{len(tracer.formatted) - 1}\ue000"


def is_formatted_later(value: Any) -> bool:
    """Whether formatting a value would ask for a number of the call."""
    sizes = type(value) in (tuple, list, Shape) and any(type(x) in _NUMBERS for x in value)
    return sizes or type(value) in (*_NUMBERS, TracedNumber) or (type(value) is Tensor and value.ndim == 0)


def is_marked(value: Any) -> bool:
    """Whether a value is a text with marks."""
    return type(value) is str and "\ue000" in value and _MARK.search(value) is not None


def text_of(value: str) -> Text:
    """The parts of a text with marks."""
    assert state.tracer is not None
    pieces = _MARK.split(value)
    return Text(tuple([state.tracer.formatted[int(p)] if i % 2 else p for i, p in enumerate(pieces)]))


def plain_text(value: str) -> str:
    """A text with marks as this call's, to which the recording is tied."""
    parts = text_of(value).parts
    return "".join([p if isinstance(p, str) else format(plain(p[0]), p[1]) for p in parts])


def settle(arguments: list[Any], named: int, function: Any) -> bool:
    """Give a call real texts, unless it is put off as it is: print, and the methods of loggers. Whether it did."""
    name, module = getattr(function, "__name__", ""), getattr(function, "__module__", "")
    logger = isinstance(getattr(function, "__self__", None), logging.Logger) or module == "logging"
    later = len(arguments) - named if function is builtins.print or (logger and name in LOGGED) else 0
    marked = [i for i, value in enumerate(arguments) if i >= later and is_marked(value)]
    for position in marked:
        arguments[position] = plain_text(arguments[position])
    return bool(marked)


def with_texts(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function with texts made of their parts."""
    return function(*[str(a) if type(a) is Text else a for a in args], **kwargs)


@functools.lru_cache(maxsize=1024)
def given_to_calls(code: CodeType) -> dict[int, int]:
    """The instructions that format a value into a text that only a call gets: how deep on the stack it lies."""
    instructions = list(dis.get_instructions(code))
    out = {}
    for position, i in enumerate(instructions):
        if i.opname in _FORMATS and not (i.opname == "FORMAT_VALUE" and (i.arg or 0) & 3):
            if _only_a_call_gets(instructions[position + 1 :]):
                out[i.offset] = 1 if i.opname == "FORMAT_VALUE" and i.arg else _FORMATS[i.opname]
    return out


def _only_a_call_gets(following: Sequence[dis.Instruction]) -> bool:
    """Whether a call takes the value on top of the stack, perhaps as a part of a longer text."""
    above = 0
    precalled = False
    for i in following:
        name, count = i.opname, i.arg or 0
        if i.is_jump_target:
            return False
        if name == "BUILD_STRING":
            taken = count
            if above < taken:
                above = 0
                continue
        elif name in ("PRECALL", "CALL", "CALL_KW"):
            if name == "CALL" and precalled:
                precalled = False
                continue
            precalled = name == "PRECALL"
            arguments = count + (name == "CALL_KW")
            if above < arguments:
                return True
            taken = arguments + 2
        elif name in _FORMATS:
            taken = 1 + (count >> 2 if name == "FORMAT_VALUE" else _FORMATS[name])
        elif name in _OPERATORS:
            taken = 2
        elif name in ("BUILD_SLICE", "BINARY_SLICE"):
            taken = count or 3
        elif name.startswith(_LOADS) or name in ("PUSH_NULL", "KW_NAMES", "CACHE", "NOP", "EXTENDED_ARG"):
            above += 0 if name == "EXTENDED_ARG" else dis.stack_effect(i.opcode, i.arg, jump=False)
            if name.startswith(("LOAD_ATTR", "LOAD_METHOD")) and above < 1:
                return False
            continue
        else:
            return False
        if above < taken:
            return False
        above -= taken - 1
    return False
