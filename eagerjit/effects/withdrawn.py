"""Assignments that the library takes back before it returns: compiled calls are not to make them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal


class Withdrawing:
    """Attributes that the library is about to change, and gives back as they are now when it ends this."""

    def __init__(self, journal: Journal, attributes: list[tuple[Any, str]]):
        self.journal, self.attributes = journal, attributes
        self.first, self.written = len(journal.operations), set(journal.written)
        for holder, name in attributes:
            journal.save(holder, name, "attribute")

    def end(self) -> None:
        """Forget what code has assigned to the attributes since then."""
        names: dict[int, set[Any]] = {}
        for holder, name in self.attributes:
            names.setdefault(id(holder), set()).add(name)
            if (id(holder), name) not in self.written:
                self.journal.written.pop((id(holder), name), None)
        operations = self.journal.operations
        operations[self.first :] = [
            o for o in operations[self.first :]
            if not (o.arguments and type(o.arguments[0]) is str and o.arguments[0] in names.get(id(o.target), ()))
        ]  # fmt: skip
