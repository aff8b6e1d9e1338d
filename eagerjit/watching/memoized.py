"""What compiled calls need not repeat: functions that keep their results, and context variables set for a while."""

from __future__ import annotations

import enum
import functools
import logging
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

from eagerjit.devices import Device
from eagerjit.runtime.dtypes import DType
from eagerjit.state import set_tracer
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import pause_observation, resume_observation

if TYPE_CHECKING:
    from eagerjit.watching.journal import Journal

_PLAIN = (int, float, complex, bool, str, bytes, type(None), DType, Device, type)
_ABSENT = object()
Remembering = type(functools.lru_cache(lambda: None))
"""The class of functions that keep their results."""


def is_plain(value: Any) -> bool:
    """Whether a value has nothing that could change, and is no stand-in for one of another call."""
    if type(value) in (tuple, frozenset):
        return all(map(is_plain, value))
    return type(value) in _PLAIN or isinstance(value, enum.Enum)


def remembered(journal: Journal, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], source: str) -> Any:
    """What is called in place of a function behind `functools.lru_cache`; None where that cannot be compiled.

    It runs outside of the recording, so that it may keep what it makes. Compiled calls begin with the same call, as the
    plain one makes it, and need the same object as its result.
    """
    logger = args and isinstance(args[0], logging.Logger)
    if any(q.size is None for q in journal.tracer.questions) or not all(
        map(is_plain, (*(args[1:] if logger else args), *kwargs.values()))
    ):
        return None

    def call(*args: Any, **kwargs: Any) -> Any:
        tracer, observation = set_tracer(None), pause_observation()
        try:
            result = function(*args, **kwargs)
        finally:
            set_tracer(tracer)
            resume_observation(observation)
        parts = result if type(result) is tuple else (result,)
        if not all(is_plain(part) or isinstance(part, Tensor) for part in parts):
            raise journal.refuse(f"it calls {function.__name__}, which keeps an object that may change", source)
        # The last of the guards, so that only a call that comes here makes it.
        journal.tracer.kept_results.append(lambda: function(*args, **kwargs) is result)
        journal.variables.kept_at = source
        return result

    return call


class ContextVariables:
    """The context variables that a recorded function sets: it has to set them back itself."""

    def __init__(self, journal: Journal):
        self.journal = journal
        self.kept_at = ""
        self.set_inside: list[tuple[ContextVar[Any], Token[Any], str]] = []

    def method(self, variable: ContextVar[Any], name: str, args: Any, source: str) -> Callable[..., Any] | None:
        """What is called in place of a variable's method; None for one that cannot be compiled."""
        if name == "get" and self._is_known(variable):
            return lambda *given: variable.get(*args)
        if name == "set":
            return lambda *given: self._set(variable, source, *args)
        return (lambda *given: self._reset(variable, source, *args)) if name == "reset" else None

    def _is_known(self, variable: ContextVar[Any]) -> bool:
        """Whether what a variable holds was set inside, or can be compared by every call."""
        if not any(known is variable for known, *_ in self.set_inside):
            before = variable.get(_ABSENT)
            if before is not _ABSENT and not is_plain(before):
                return False
            self.journal.checks.append(lambda: variable.get(_ABSENT) is before)
        return True

    def _set(self, variable: ContextVar[Any], source: str, value: Any) -> Token[Any]:
        token = variable.set(value)
        self.set_inside.append((variable, token, source))
        return token

    def _reset(self, variable: ContextVar[Any], source: str, token: Token[Any]) -> None:
        known = [entry for entry in self.set_inside if entry[1] is token]
        if not known:
            raise self.journal.refuse("it sets a context variable back that was set outside", source)
        variable.reset(token)
        self.set_inside.remove(known[0])

    def undo(self) -> None:
        """Give the variables back what they held before the recording."""
        while self.set_inside:
            variable, token, _ = self.set_inside.pop()
            variable.reset(token)

    def finished(self) -> None:
        """Refuse a function that leaves a variable set."""
        if self.set_inside:
            variable, _, source = self.set_inside[-1]
            self.undo()
            raise self.journal.refuse(f"it sets the context variable {variable.name}, and leaves it so", source)
        if self.journal.tracer.kept_results and any(q.size is None for q in self.journal.tracer.questions):
            raise self.journal.refuse("it decides by values, and calls a function that keeps its results", self.kept_at)
