"""Context variables that a recorded function sets for a while."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

from eagerjit.effects.lru_caches import is_plain

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal

_ABSENT = object()


class ContextVariables:
    """The context variables that a recorded function sets: it has to set them back itself."""

    def __init__(self, journal: Journal):
        self.journal = journal
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
