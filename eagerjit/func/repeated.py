"""Transforms that are called again and again: compiled after some calls, in the background.

A plain call records the function anew. Calls of one kind, the same transforms of functions of the same code, share what
is compiled; what lies in closures is given to the compiled call as its arguments are, so that a function made anew for
every call is none to it. It is jitted functions that do this: what they cannot do runs plainly.
"""

from __future__ import annotations

import gc
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from eagerjit.compiled.options import Options
from eagerjit.compiled.variants import Variant
from eagerjit.func.opened import Key, Opened, Transform, closed, opened
from eagerjit.jit import JitFunction
from eagerjit.recording.recording_lock import Busy
from eagerjit.state import runs_plainly, state
from eagerjit.watching.observation import TraceBreak


class Policy:
    """When calls are compiled: how many of a kind run plainly before, and whether the next ones wait for it."""

    after = 8
    background = True


_MOST_COUNTED = 256
_MOST_KINDS = 32
_MOST_VERSIONS = 8


class _Thread(threading.local):
    within = False
    """Whether a call runs plainly that is going to be compiled as a whole."""


_thread = _Thread()


class Unasked(JitFunction):
    """A jitted function that nobody has asked for: nothing is warned of, and further versions come ever later."""

    def __init__(self, function: Callable[..., Any], name: str):
        super().__init__(function, Options(background=Policy.background))
        self.__name__ = self.__qualname__ = self._recording.name = name
        self._left = 0

    def _another(self, *call: Any) -> Variant | None:
        self._left -= 1
        if self._left > 0 or self.is_complete:
            raise Busy
        self._left = Policy.after << len(self.variants)
        began = time.perf_counter()
        try:
            return super()._another(*call)
        except Busy:
            # A thread that asks for the interpreter's lock beside one that computes waits again and again.
            self._pending.wait(time.perf_counter() - began)
            raise

    def _warn(self, reason: str, source: str, consequence: str) -> None:
        """Calls run as they do anyway."""

    @property
    def is_complete(self) -> bool:
        """Whether no more versions are compiled."""
        return self._eager or len(self.variants) >= _MOST_VERSIONS


class Kind:
    """Calls of the same transforms of functions of the same code."""

    def __init__(self, key: Key, name: str):
        self.key, self.is_used = key, True
        self.jitted = Unasked(self.call, name)
        self._given: dict[int, tuple[Callable[..., Any], Opened]] = {}

    def run(self, plain: Callable[..., Any], parts: Opened, args: Any, kwargs: Any) -> Any:
        """The result of a call of `plain`, which was taken apart."""
        self._given[id(parts.contents)] = plain, parts
        try:
            return self.jitted(parts.contents, args, kwargs)
        finally:
            del self._given[id(parts.contents)]

    def call(self, contents: list[Any], args: Any, kwargs: Any) -> Any:
        """The plain call; where it is recorded, one of functions made anew of what lies in their closures."""
        plain, _ = self._given.get(id(contents), (None, None))
        if plain is not None:
            return run_plainly(plain, args, kwargs, not self.jitted.is_complete)
        result = run_plainly(closed(self.key, iter(contents)), args, kwargs, True)
        self._refuse_written_cells()
        return result

    def _refuse_written_cells(self) -> None:
        """End a recording in which others wrote to the closures whose contents it was given."""
        journal = None if state.tracer is None else state.tracer.journal
        written = () if journal is None else journal.written
        if any((id(cell), "contents") in written for _, parts in self._given.values() for cell in parts.cells):
            raise TraceBreak("a closure of the function is written", self.jitted.__qualname__)


def run_plainly(plain: Callable[..., Any], args: Any, kwargs: Any, within: bool) -> Any:
    """A plain call, `within` which no transform is compiled on its own."""
    before, _thread.within = _thread.within, within
    try:
        return plain(*args, **kwargs)
    finally:
        _thread.within = before


_counts: OrderedDict[int, int] = OrderedDict()
_kinds: OrderedDict[Key, Kind] = OrderedDict()


def _kind(key: Key, name: str) -> Kind | None:
    """The kind of calls with this key; None while there were few."""
    kind = _kinds.pop(key, None)
    if kind is None:
        number = hash(key)  # which keeps nothing alive
        count = _counts.pop(number, 0) + 1
        _counts[number] = count
        if len(_counts) > _MOST_COUNTED:
            _counts.popitem(last=False)
        if count <= Policy.after:
            return None
        kind = Kind(key, name)
    _kinds[key] = kind
    kind.is_used = True
    if len(_kinds) > _MOST_KINDS:
        _kinds.popitem(last=False)
    return kind


def _collected(phase: str, details: dict[str, int]) -> None:
    """Forget the kinds that were not called between two full collections, with all that they keep alive."""
    global _kinds
    if phase == "stop" and details["generation"] == 2 and _kinds:
        _kinds = OrderedDict([(key, kind) for key, kind in _kinds.items() if kind.is_used])
        for kind in _kinds.values():
            kind.is_used = False


gc.callbacks.append(_collected)


def transformed(again: partial[Callable[..., Any]], func: Callable[..., Any], plain: Callable[..., Any]) -> Any:
    """`plain`, the function that `again` makes of `func`, compiled where it is called often."""
    name = f"{again.func.__name__}({getattr(func, '__name__', type(func).__name__)})"
    made = Transform(again, func)

    @wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if _thread.within or runs_plainly():
            return plain(*args, **kwargs)
        parts = opened(made)
        kind = None if parts is None else _kind(parts.key, name)
        if parts is None or kind is None:
            return run_plainly(plain, args, kwargs, parts is not None)
        return kind.run(plain, parts, args, kwargs)

    vars(wrapped)["_transform"] = made
    return wrapped


def known(again: partial[Callable[..., Any]], func: Callable[..., Any], made: Callable[..., Any]) -> Any:
    """`made`, which transforms of it know for `again(func)`."""
    vars(made)["_transform"] = Transform(again, func)
    return made
