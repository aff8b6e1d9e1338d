"""How a plain call is told what was answered before to compiled versions of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

from eagerjit.effects.lru_caches import Cache, Remembering, given
from eagerjit.effects.world import Heard, Listener
from eagerjit.effects.world_calls import method
from eagerjit.runtime import frames
from eagerjit.state import taken_apart
from eagerjit.watching.instructions import handlers
from eagerjit.watching.observation import is_internal
from eagerjit.watching.observer import Observer


class _Told(Listener):
    """What a plain call is told: first what was heard before, in order, then what the world says."""

    def __init__(self, heard: Heard):
        self.heard, self.position = heard, 0
        self.kept = dict(heard.kept)

    def is_taken(self, value: Any) -> bool:
        """Whether items of an iterator were taken before."""
        return isinstance(value, Iterator) and any(answer.owner is value for answer in self.heard)

    def reads(self, clock: Any) -> bool:
        """Whether a clock was asked before."""
        return any(answer.owner is clock for answer in self.heard)

    def ask(self, owner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """The next answer, where the question is the one that it was given to."""
        if self.position < len(self.heard):
            answer = self.heard[self.position]
            if answer.owner is owner and answer.name == name:
                self.position += 1
                return answer.given()
        return method(owner, name)(*args, **kwargs)

    def instead(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
        """What is called in place of a callable that asks, or keeps what its recording was given; None for others."""
        if self.kept and type(function) is Remembering:
            name = function, Cache(function).key(args, kwargs)
            if name in self.kept:
                return lambda *_, **__: given(self.kept.pop(name))
        if type(function) is Remembering and any(answer.owner is function for answer in self.heard):
            return functools.partial(self.ask, function, "__call__")
        return super().instead(function, args, kwargs)


class _Retelling(Observer):
    """Watches a plain call for its questions."""

    def __init__(self, heard: Heard):
        self.told, self.calls = _Told(heard), self  # type: ignore[assignment]

    def about_to(self, function: Any, args: Any, kwargs: Any, frame: FrameType, source: str) -> Any:
        """What is called instead of a callable, None for itself."""
        return self.told.instead(function, args, kwargs) or self.told.with_items(function, args, kwargs)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        if is_internal(frame.f_code):
            frame.f_trace_lines = False
            return None
        frame.f_trace = self._event
        frame.f_trace_opcodes = True
        self._onlooker.tell(frame, event, argument)
        return self._event

    def _event(self, frame: FrameType, event: str, argument: Any) -> Any:
        name, operand = handlers(frame.f_code).get(frame.f_lasti, ("", None)) if event == "opcode" else ("", None)
        if name in ("call", "call_with", "iterate", "search"):
            getattr(self, name)(frame, operand)
        if event != "opcode":
            self._onlooker.tell(frame, event, argument)
        return self._event

    def _take(self, frame: FrameType, depth: int, value: Any) -> None:
        instead = self.told.items(value)
        if instead is not value:
            frames.replace(frame, depth, instead)

    def _note_got(self, function: Any, args: tuple[Any, ...]) -> None:
        """What a plain call reads is its own affair."""

    def _note_all(self, values: Iterable[Any]) -> None:
        """What a plain call reads is its own affair."""

    def search(self, frame: FrameType, _: None) -> None:
        """Something is looked for in a value, or its items are taken."""
        self._take(frame, 0, frames.stack(frame, 1)[0])

    iterate = search


def told_again(function: Callable[..., Any], args: Any, kwargs: Any, heard: Heard) -> Any:
    """The plain call, which hears first what was answered to compiled versions of it."""
    if not heard and not heard.kept:
        return function(*args, **kwargs)
    with taken_apart(), _Retelling(heard):  # compiled functions that it calls would ask the world once more
        return function(*args, **kwargs)
