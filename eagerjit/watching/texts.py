"""Where recorded code makes texts of numbers: f-strings, `%`, `str.format`, `str.join`, `str` and classes' `__str__`.

A number formatted by C code would tie the recording to it. So a mark is formatted in its place, and the text with marks
becomes a TracedText at once: no mark is in a text that the user's code sees.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType
from typing import Any

import numpy as np

from eagerjit.effects.clocks import Later
from eagerjit.guards.comparing import is_plain
from eagerjit.recording.arrays import TracedNumber
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.recording.traced_texts import Piece, TracedText, parts_of, tied
from eagerjit.runtime.source import is_library
from eagerjit.state import state
from eagerjit.tensors.tensor import Shape, Tensor

LOGGED = {"debug": 10, "info": 20, "warning": 30, "warn": 30, "error": 40, "critical": 50, "fatal": 50}
"""The methods of loggers that make records, with the level."""

_NUMBERS = (SymbolicInt, TracedFloat, Later)
_MARK = re.compile("\ue000eagerjit:([0-9]+)\ue000")
_CONVERSION = re.compile(r"%(?:\(([^()]*)\))?([#0\- +]*[0-9]*(?:\.[0-9]*)?([diouxXeEfFgGsra%]))")


# -- values as texts --------------------------------------------------------------------------------------------------


def is_of_call(value: Any) -> bool:
    """Whether the text of a value would ask for a number of the call, or Python code of the user's makes it."""
    sizes = type(value) in (tuple, list, Shape) and any(type(x) in _NUMBERS for x in value) and all(map(_lasts, value))
    number = type(value) in (*_NUMBERS, TracedNumber, TracedText) or (type(value) is Tensor and value.ndim == 0)
    return sizes or number or _speaks(value)


def _lasts(value: Any) -> bool:
    """Whether the text of a value is the same at the end of a call."""
    return value is None or type(value) in (bool, int, float, str, *_NUMBERS)


def _speaks(value: Any) -> bool:
    """Whether Python code of the user's makes a value's text."""
    found = (getattr(type(value), name) for name in ("__format__", "__str__", "__repr__"))
    code = next((f.__code__ for f in found if isinstance(f, FunctionType)), None)
    return code is not None and not is_library(code.co_filename)


def _number(value: Any) -> Any:
    """A value as a number of the call, if it is one: a tensor's only element, a number of NumPy's that is Python's."""
    if isinstance(value, Tensor):
        return value.item()
    return value.number if type(value) is TracedNumber and value.kind is np.float64 else value


def formatted(value: Any, specification: str = "") -> Any:
    """`format` of a value: a text of the call where it is of numbers of the call."""
    kind: Any = type(value)
    if _speaks(value):
        default = kind.__format__ is object.__format__ and not specification
        return as_text(value) if default else kind.__format__(value, specification)
    if type(value) is TracedText and not specification:
        return value
    number = _number(value)
    if isinstance(number, (tuple, list)) and not specification:
        return TracedText((Piece(format, type(number)(number), ""),))
    if type(number) not in (*_NUMBERS, TracedNumber) or specification.endswith("c"):
        return format(number, specification)
    zero = number.kind(0) if type(number) is TracedNumber else 0 if isinstance(number, int) else 0.0
    format(zero, specification)  # raises what formatting raises
    return TracedText((Piece(format, number, specification),))


def as_text(value: Any) -> Any:
    """`str` of a value: a text of the call where it is of numbers of the call."""
    if isinstance(value, Tensor):
        return str(value)
    kind: Any = type(value)
    says: Any = kind.__repr__ if kind.__str__ is object.__str__ else kind.__str__
    if kind is TracedNumber and value.kind is not np.float64:  # whose text is not what formatting gives
        return TracedText((Piece(_told, value, ""),))
    made = says(value) if _speaks(value) else formatted(value)
    if not isinstance(made, str):
        raise TypeError(f"__str__ returned non-string (type {type(made).__name__})")
    return made


def writes_repr(template: Any) -> bool:
    """Whether a template of `%` fills in what `repr` gives."""
    return isinstance(template, str) and any(found[1][-1] in "ra" for found in _CONVERSION.findall(str(template)))


def _told(number: Any, specification: str) -> str:
    return str(number)


# -- marks ------------------------------------------------------------------------------------------------------------


class Marked:
    """Takes the place of a value that is about to be formatted."""

    def __init__(self, value: Any):
        self.value = value

    def __format__(self, specification: str) -> str:
        return with_mark(formatted(self.value, str(without_marks(specification))))

    def __str__(self) -> str:
        return with_mark(as_text(self.value))

    def __repr__(self) -> str:
        kind: Any = type(self.value)
        if _speaks(self.value):
            return with_mark(kind.__repr__(self.value))
        return with_mark(formatted(self.value)) if kind in _NUMBERS else repr(self.value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value, name)

    def __getitem__(self, key: Any) -> Any:
        return self.value[key]


def with_mark(text: Any) -> Any:
    """A text of the call as a string with a mark; anything else as it is."""
    if type(text) is not TracedText:
        return text
    assert state.tracer is not None
    state.tracer.formatted.append(text)
    return f"\ue000eagerjit:{len(state.tracer.formatted) - 1}\ue000"


def without_marks(text: Any) -> Any:
    """A string with marks as a text of the call; anything else as it is."""
    if type(text) is not str or _MARK.search(text) is None:
        return text
    assert state.tracer is not None
    pieces = _MARK.split(text)
    parts = [state.tracer.formatted[int(p)].parts if i % 2 else (p,) for i, p in enumerate(pieces)]
    return TracedText(part for group in parts for part in group if part != "")


# -- what makes texts -------------------------------------------------------------------------------------------------


def instead(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], is_outside: Callable[[Any], bool]
) -> Callable[..., Any] | None:
    """What is called in place of a function that makes a text of numbers of the call; None for others."""
    if function is getattr(sys.modules.get("json"), "dumps", None) and len(args) == 1:
        plain = all(is_plain(x) for value in kwargs.values() for x in (value if type(value) is tuple else (value,)))
        return _as_json if plain and _is_made_of_numbers(args[0], is_outside) else None
    if (function is str or function is format) and args and not kwargs and is_of_call(args[0]):
        return formatted if function is format else as_text if len(args) == 1 else None
    if type(function) is BuiltinFunctionType and type(function.__self__) is str:
        made = _of_template(function.__name__, args, kwargs)
        return None if made is None else functools.partial(made, function.__self__)
    of_class = type(function) is MethodDescriptorType and args and type(args[0]) is str
    return _of_template(function.__name__, args[1:], kwargs) if of_class else None


def _of_template(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
    """What is called in place of a method of a string, with this string."""
    if name == "format" and any(map(is_of_call, (*args, *kwargs.values()))):
        return _filled_in
    return _joined if name == "join" and len(args) == 1 and not kwargs else None


def _filled_in(template: str, *args: Any, **kwargs: Any) -> Any:
    """`template.format(...)`."""
    positional, named = map(_marked, args), {name: _marked(value) for name, value in kwargs.items()}
    return without_marks(template.format(*positional, **named))


def _marked(value: Any) -> Any:
    return Marked(value) if is_of_call(value) else value


def _joined(separator: str, items: Iterable[Any]) -> Any:
    """`separator.join(items)`."""
    held = list(items)
    if not any(type(x) is TracedText for x in held):
        return separator.join(held)
    separator.join(["" if type(x) is TracedText else x for x in held])  # raises what joining raises
    parts = [part for x in held for part in (*parts_of(separator), *parts_of(x))]
    return TracedText(parts[1:])


def _is_made_of_numbers(value: Any, is_outside: Callable[[Any], bool]) -> bool:
    """Whether a value consists of containers made in the call, and of what is no container."""
    if type(value) in (list, dict, tuple):
        held = value.values() if type(value) is dict else value
        return (type(value) is tuple or not is_outside(value)) and all(_is_made_of_numbers(x, is_outside) for x in held)
    return _lasts(value) or type(value) is TracedText


def _as_json(value: Any, **options: Any) -> Any:
    """`json.dumps`."""
    if not options.get("allow_nan", True):
        return _written_as_json(value, "", **options)
    _written_as_json(_each(value, _without_number), "", **options)  # raises what it raises
    return TracedText((Piece(functools.partial(_written_as_json, **options), _each(value, _itself), ""),))


def _written_as_json(value: Any, specification: str, **options: Any) -> str:
    import json

    return json.dumps(_each(value, tied), **options)


def _itself(value: Any) -> Any:
    return value


def _without_number(value: Any) -> Any:
    if type(value) is TracedText:
        return ""
    return (0 if isinstance(value, int) else 0.0) if type(value) in _NUMBERS else value


def _each(value: Any, function: Callable[[Any], Any]) -> Any:
    """Containers again, with what a function gives for the rest."""
    if type(value) is dict:
        return {key: _each(x, function) for key, x in value.items()}
    return type(value)([_each(x, function) for x in value]) if type(value) in (list, tuple) else function(value)


class Template:
    """Takes the place of a text that is about to be filled in by `%`."""

    def __init__(self, text: str):
        self.text = text

    def __mod__(self, values: Any) -> Any:
        parts = _pieces(self.text, values)
        return self.text % _tied_values(values) if parts is None else TracedText(parts)


def fills_in(values: Any) -> bool:
    """Whether `%` would ask for a number of the call."""
    given = values if type(values) is tuple else values.values() if type(values) is dict else (values,)
    return any(map(is_of_call, given))


def _tied_values(values: Any) -> Any:
    if type(values) is dict:
        return {key: tied(value) for key, value in values.items()}
    return tuple(map(tied, values)) if type(values) is tuple else tied(values)


def _pieces(template: str, values: Any) -> list[Any] | None:
    """The parts of `template % values`; None where one of them depends on a number in other ways than by its digits."""
    given = iter(values if type(values) is tuple else (values,))
    parts: list[Any] = []
    end = 0
    for found in _CONVERSION.finditer(template):
        key, form, kind = found.groups()
        before, end = template[end : found.start()], found.end()
        if "%" in before or (key is not None and type(values) is not dict):
            return None
        value = values.get(key) if key is not None else None if kind == "%" else next(given, None)
        piece = _piece(form, kind, value)
        if piece is None:
            return None
        parts += [before, *piece]
    if "%" in template[end:] or (type(values) is not dict and next(given, None) is not None):
        return None
    return [part for part in (*parts, template[end:]) if part != ""]


def _piece(form: str, kind: str, value: Any) -> tuple[Any, ...] | None:
    """The parts that one conversion gives, None where that depends on the number, or raises."""
    if kind == "%":
        return ("%",) if form == "%" else None
    if not is_of_call(value):
        return None if value is None else (f"%{form}" % (value,),)
    if kind == "s" and not isinstance(value, Tensor):
        text = as_text(value)
        return parts_of(text) if form == "s" else None if type(text) is TracedText else (f"%{form}" % text,)
    number = _number(value)
    whole = isinstance(number, int)
    if type(number) not in (*_NUMBERS, TracedNumber) or kind not in ("eEfFgGdioxX" if whole else "eEfFgG"):
        return None
    return (Piece(_by_percent, number, f"%{form}"),)


def _by_percent(number: Any, form: str) -> str:
    return form % number  # type: ignore[no-any-return]
