"""Texts with numbers of a call being traced: compiled calls make them, of each call's numbers."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from eagerjit.compiler import sizes
from eagerjit.recording.numbers import SymbolicInt, TracedFloat, plain
from eagerjit.recording.traced_ranges import TracedRange
from eagerjit.runtime.program import Op
from eagerjit.watching.slots import Path


class Piece(NamedTuple):
    """A number in a text, `write(number, specification)`; sizes, a list or a Given may stand for the number."""

    write: Callable[[Any, str], str]
    number: Any
    specification: str


class Given:
    """A text that is another one in other calls, and the place of theirs."""

    __slots__ = ("_tie", "path", "text")

    def __init__(self, text: str, path: Path, tie: Callable[[], None]):
        self.text, self.path, self._tie = text, path, tie

    def tied(self) -> str:
        """The text of this call, to which the recording is tied."""
        self._tie()
        return self.text


def given_text(tracer: Any, leaf: int, text: str, place: tuple[Any, ...]) -> TracedText:
    """A text among the arguments as one of the call, tied to it as soon as code looks at it."""
    tracer.guard_object(leaf, Op.TYPE_IS, str)
    once = functools.cache(functools.partial(tracer.guard_object, leaf, Op.EQUAL, text))
    made = TracedText((Piece(_as_it_is, Given(text, Path(place), once), ""),))
    tracer.formatted.append(made)  # errors in what takes no such text may be those of the recording alone
    return made


def _as_it_is(text: str, specification: str) -> str:
    return text


class TracedText:
    """A text of strings and Pieces, at least one of these; `isinstance` takes it for a str.

    Where Python code needs the text itself, it gets that of this call, and the trace is tied to the numbers.
    """

    __slots__ = ("parts",)
    __class__ = property(lambda self: str)  # type: ignore[assignment]
    __array__ = None  # NumPy refuses it

    def __init__(self, parts: Iterable[str | Piece]):
        self.parts = tuple(parts)

    def __str__(self) -> str:
        return written(self.parts, [tied(p.number) for p in self.parts if type(p) is Piece])

    def __bool__(self) -> bool:
        never_empty = (p if isinstance(p, str) else p.write is format for p in self.parts)
        return any(never_empty) or str(self) != ""

    def __add__(self, other: Any) -> Any:
        return TracedText((*self.parts, *parts_of(other))) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return TracedText((*parts_of(other), *self.parts)) if isinstance(other, str) else NotImplemented

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(str, name):
            raise AttributeError(f"'str' object has no attribute '{name}'")
        return getattr(str(self), name)


def parts_of(text: Any) -> tuple[str | Piece, ...]:
    """The parts of a text."""
    return text.parts if type(text) is TracedText else (text,)


def written(parts: Iterable[Any], numbers: Iterable[Any]) -> str:
    """A text with these numbers in the places of its own; parts are strings and (write, ..., specification)."""
    given = iter(numbers)
    return "".join([p if isinstance(p, str) else p[0](next(given), p[-1]) for p in parts])


def at_present(value: Any) -> Any:
    """What a number or text of the trace is in this call, to which the trace is not tied.

    None for other values, and where tensors have not been asked yet.
    """
    if type(value) is TracedText:
        numbers = [at_present(p.number) for p in value.parts if type(p) is Piece]
        return None if None in numbers else written(value.parts, numbers)
    if type(value) is Given:
        return value.text
    if type(value) is SymbolicInt and sizes.active.assumptions is not None:
        return int(sizes.evaluate(value.expression, sizes.active.assumptions.hints))
    return value.value if type(value) is TracedFloat else None


def tied(value: Any) -> Any:
    """A number or text of the trace as Python's own, which ties the trace to it; other values as they are."""
    if type(value) in (Given, TracedRange):
        return value.tied()
    return str(value) if type(value) is TracedText else plain(value)


def tied_text(value: Any) -> Any:
    """A text of the trace as Python's own, which ties the trace to its numbers; other values as they are."""
    return str(value) if type(value) is TracedText else value


def plain_key(key: Any) -> Any:
    """A dictionary's key with Python's numbers in place of traced ones, to which hashing has tied the recording."""
    if isinstance(key, tuple) and not hasattr(key, "_fields"):
        return tuple(map(plain_key, key))
    return tied(key)


def _changing(name: str) -> Any:
    """A method that gives a text made of this one, whatever the numbers are."""

    def method(self: TracedText, *args: Any) -> Any:
        if any(type(x) in (TracedText, SymbolicInt, TracedFloat) for x in args):
            return getattr(str(self), name)(*map(tied, args))
        getattr("", name)(*args)  # raises what the method raises
        parts = tuple([(p.write, p.specification) if type(p) is Piece else p for p in self.parts])
        numbers = [p.number for p in self.parts if type(p) is Piece]
        return TracedText((Piece(functools.partial(_changed, name, args, parts), numbers, ""),))

    method.__name__ = name
    return method


def _changed(name: str, args: Any, parts: Any, numbers: list[Any], specification: str) -> str:
    return getattr(written(parts, map(tied, numbers)), name)(*args)  # type: ignore[no-any-return]


for _name in ("strip", "lstrip", "rstrip", "upper", "lower", "title", "capitalize", "swapcase", "casefold", "center",
              "ljust", "rjust", "zfill", "expandtabs", "replace", "removeprefix", "removesuffix"):  # fmt: skip
    setattr(TracedText, _name, _changing(_name))


def _on_text(function: Callable[..., Any]) -> Any:
    """What only the text itself tells."""
    return lambda self, *others: function(str(self), *map(tied, others))


for _name, _function in (
    ("repr", repr), ("format", format), ("hash", hash), ("len", len), ("iter", iter), ("contains", operator.contains),
    ("getitem", operator.getitem), ("mul", operator.mul), ("rmul", operator.mul), ("mod", operator.mod),
    *((name, getattr(operator, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")),
):  # fmt: skip
    setattr(TracedText, f"__{_name}__", _on_text(_function))
TracedText.__reduce_ex__ = lambda self, protocol: "itself"  # type: ignore  # for copies
