"""What a function takes, read off its code: `inspect.signature` takes twenty times as long, and there are 400 ops."""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_VARARGS, Parameter, unwrap
from typing import Any, NamedTuple


class Parameters(NamedTuple):
    """Parameters that may be given by position and their defaults (`Parameter.empty`: none); then those after a `*`.

    `more` is the name of the tuple of any number of arguments, `keywords` those that have to be named.
    """

    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    more: str = ""
    keywords: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[str, ...]:
        """Those that have no default."""
        return tuple(n for n, d in zip(self.names, self.defaults, strict=True) if d is Parameter.empty)

    def together(self) -> Parameters:
        """The same, with the tuple of any number of arguments as one more parameter, which is required."""
        return Parameters((*self.names, self.more), (*self.defaults, Parameter.empty)) if self.more else self


def parameters(function: Callable[..., Any]) -> Parameters:
    """What a function written in Python takes, or the one that it wraps; its attribute `takes` where that says it."""
    given = getattr(function, "takes", None)
    if given is not None:
        return given
    function = unwrap(function)
    code, defaults = function.__code__, function.__defaults__ or ()  # type: ignore[attr-defined]
    count = code.co_argcount
    end = count + code.co_kwonlyargcount
    names, keywords = code.co_varnames[:count], code.co_varnames[count:end]
    more = code.co_varnames[end] if code.co_flags & CO_VARARGS else ""
    return Parameters(names, (Parameter.empty,) * (count - len(defaults)) + defaults, more, keywords)
