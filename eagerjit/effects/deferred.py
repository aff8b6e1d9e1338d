"""Calls of traced code that are made when the compiled call ends: prints, log records, warnings, writes."""

from __future__ import annotations

import builtins
import functools
import logging
import sys
import warnings
from collections.abc import Callable
from types import CoroutineType, FrameType
from typing import Any

from eagerjit.effects.cautions import warn_again
from eagerjit.effects.clocks import Later
from eagerjit.effects.journal import Journal
from eagerjit.recording.numbers import plain
from eagerjit.recording.traced_texts import TracedText
from eagerjit.runtime.source import is_library
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.containers import containers_in
from eagerjit.watching.observation import TraceBreak
from eagerjit.watching.texts import LOGGED


def prints_later(value: Any) -> bool:
    """Whether a value looks the same at the end of a call."""
    if isinstance(value, (tuple, frozenset)) or type(value) in (list, dict):
        return all(map(prints_later, (*value, *value.values()) if type(value) is dict else value))
    if isinstance(value, Tensor):  # others print more than their elements
        return type(value) is Tensor and not value._requires_grad
    return value is None or isinstance(value, (bool, int, float, str, bytes, type)) or (
        type(value).__module__.startswith("eagerjit")
    )


def _as_it_is(value: Any) -> Any:
    """A value that shows later what it shows now: of a tensor, a copy."""
    if type(value) in (tuple, list):
        return type(value)(map(_as_it_is, value))
    if type(value) is dict:
        return {key: _as_it_is(held) for key, held in value.items()}
    return value.clone() if isinstance(value, Tensor) else value


def put_off(journal: Journal, function: Callable[..., Any], source: str, *args: Any, **kwargs: Any) -> None:
    """Note a call to be made when the compiled call ends."""
    if args and isinstance(args[0], logging.Logger):
        args = args[1:]
    journal.call(function, tuple(map(_as_it_is, args)), kwargs, source)


def write_later(journal: Journal, write: Callable[..., Any], source: str, *args: Any) -> Any:
    """Note a text to be written when the compiled call ends; returns what `write` does."""
    text = args[-1] if args and isinstance(args[-1], (str, bytes)) else None
    journal.call(write, () if text is None else (text,), {}, source)
    return None if text is None else Later(len, (text,), int) if type(text) is TracedText else len(text)


def log_again(logger: logging.Logger, name: str, place: Any, message: Any, *args: Any, **kwargs: Any) -> None:
    """Make the record of a call of a logger, at the place where it was made."""
    level = LOGGED[name]
    if not logger.isEnabledFor(level):
        return
    file, line, function = place
    record = logger.makeRecord(
        logger.name, level, file, line, message, args, None, function, kwargs.get("extra"), None
    )  # fmt: skip
    logger.handle(record)


class PutOff:
    """Judges calls that a compiled call makes when it ends."""

    def __init__(self, journal: Journal):
        self.journal = journal
        self._output, self._filters = (sys.stdout, sys.stderr), warnings.filters

    def refused(self, what: str, source: str, kind: type[TraceBreak] = TraceBreak) -> Callable[..., Any]:
        """What is called in place of something that must not happen while tracing."""
        problem = self.journal.refuse(f"it {what}, which compiled code would not do", source, kind)

        def fail(*args: Any, **kwargs: Any) -> Any:
            for coroutine in args:
                if isinstance(coroutine, CoroutineType):
                    coroutine.close()  # the plain call makes one of its own
            raise problem

        return fail

    def _print(self, args: Any, kwargs: Any, source: str) -> Any:
        if (sys.stdout, sys.stderr) != self._output:
            return self.refused("prints while the output goes elsewhere", source)
        if any(isinstance(a, Tensor) and not prints_later(a) for a in args):
            return self.refused("prints a tensor with a gradient", source)
        if not all(prints_later(a) for a in args):
            return self.refused("prints an object that may change", source)
        self._note_shown(args)
        return functools.partial(put_off, self.journal, builtins.print, source)

    def _note_shown(self, values: tuple[Any, ...]) -> None:
        """Everything that lies in these values is read."""
        for container in containers_in(values):
            self.journal.note_read(container, None)

    def _log(self, owner: Any, function: Any, args: Any, kwargs: Any, frame: FrameType, source: str) -> Any:
        name, of_logger = function.__name__, isinstance(owner, logging.Logger)
        if name in ("isEnabledFor", "getEffectiveLevel", "hasHandlers", "getChild", "getLevelName"):
            return functools.partial(self._ask_logging, getattr(owner, name) if of_logger else function)
        logger, args = (owner, args) if of_logger else (logging.getLogger(), (None, *args))
        if name not in LOGGED or kwargs.keys() - {"extra"} or not all(map(prints_later, args[1:])):
            return self.refused(f"calls {name} of a logger", source)
        self._note_shown(args[1:])
        place = frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        return functools.partial(put_off, self.journal, functools.partial(log_again, logger, name, place), source)

    def _ask_logging(self, question: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a logger answers, or `logging` itself: levels, names and handlers decide that may change anywhere."""
        args = tuple(map(plain, args[1:] if args[:1] == (getattr(question, "__self__", None),) else args))
        kwargs = {name: plain(value) for name, value in kwargs.items()}
        answer = question(*args, **kwargs)
        self.journal.checks.append(lambda: bool(question(*args, **kwargs) == answer))
        return answer

    def _warn(self, args: Any, kwargs: Any, frame: FrameType, source: str) -> Any:
        if warnings.filters is not self._filters:
            return self.refused("warns while filters of warnings are set aside", source)
        stacklevel = kwargs.get("stacklevel", args[2] if len(args) > 2 else 1)
        above = _caller(frame, stacklevel - 1) if type(stacklevel) is int else None
        if above is None or kwargs.keys() - {"stacklevel", "category"} or len(args) > 3:
            return self.refused("warns for its caller", source)
        place = above.f_code.co_filename, above.f_lineno, above.f_globals
        return functools.partial(put_off, self.journal, functools.partial(warn_again, place), source)


def _caller(frame: FrameType | None, levels: int) -> FrameType | None:
    """The frame of the user's so many calls above; None where that has called the function that is recorded."""
    for _ in range(levels):
        frame = None if frame is None else frame.f_back
        if frame is None or is_library(frame.f_code.co_filename):
            return None
    return frame


class Refusing:
    """Takes the place of something that must not be used."""

    def __init__(self, fail: Callable[..., Any]):
        self.fail = fail

    def _used(self, *args: Any) -> Any:
        return self.fail()

    __index__ = __iter__ = __contains__ = __enter__ = __setitem__ = __delitem__ = _used
    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = __imod__ = __ipow__ = __imatmul__ = _used
    __ior__ = __iand__ = __ixor__ = __ilshift__ = __irshift__ = _used

    def __exit__(self, *exc: object) -> None:
        pass
