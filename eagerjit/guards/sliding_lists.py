"""Lists and deques that every call changes and reads, such as those of the last losses: their items are inputs."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from eagerjit.guards.comparing import contents
from eagerjit.guards.growing_lists import GROWS, MOST_ITEMS, Histories, wait_until_full

if TYPE_CHECKING:
    from eagerjit.effects.journal import Journal
    from eagerjit.recording.varying import Varying


class Listed:
    """A deque as a list, which native code can read; as a guard it brings the list up to date."""

    def __init__(self, container: deque[Any]):
        self.container, self.items = container, list(container)

    def __call__(self) -> bool:
        self.items = list(self.container)
        return True


class Windows:
    """Those of one recording: known from earlier recordings, which calls with other items did not fit."""

    def __init__(self, journal: Journal):
        self.journal = journal
        self.known: set[int] = set()
        self.seen: dict[tuple[int, Any], Any] | None = None
        self.histories = Histories(journal)
        self._listed: dict[int, Listed] = {}
        self._taken: list[tuple[Any, list[Any]]] = []

    def open(self, varying: Varying) -> None:
        """Begin with what is known of the recordings before."""
        self.histories.open(varying)
        changing = {holder for holder, key in varying.slots if key is None}
        self.known, self.seen = changing - self.histories.known, varying.seen

    def touch(self, container: Any, method: str = "") -> None:
        """Code is about to read a container, or to change it by a method: make the items of a window inputs."""
        if self.histories.changes(container, method) or id(container) not in self.known:
            return
        self.known.discard(id(container))
        size = len(container)
        if not (self.journal.is_outside(container) and type(container) in (list, deque) and size <= MOST_ITEMS):
            return
        missing = container.maxlen - size if type(container) is deque and container.maxlen is not None else 0
        wait_until_full(container, missing, self.seen)
        self.journal.save_contents(container)
        self._taken.append((container, list(container)))
        for position, item in enumerate(self._taken[-1][1]):
            self.journal.keep(container, position, item, "item")
            self.journal.input(container, position, item, "item")

    def listed(self, container: deque[Any]) -> Listed:
        """A deque as a list."""
        if id(container) not in self._listed:
            self._listed[id(container)] = Listed(container)
            self.journal.checks.append(self._listed[id(container)])
        return self._listed[id(container)]

    def finished(self) -> None:
        """Windows that end as they began, but for items that are inputs, fit the next call."""
        inputs = self.journal.inputs
        for container, before in self._taken:
            if len(container) != len(before):
                continue
            both = enumerate(zip(container, before, strict=True))
            if all(a is b or (id(container), position) in inputs for position, (a, b) in both):
                inputs.add((id(container), None))

    def found(self, seen: dict[tuple[int, Any], Any], guards: list[Any]) -> set[tuple[int, Any]]:
        """The containers that calls change, or that held something else in a recording before, which `seen` knows."""
        journal = self.journal
        slots = {slot for slot in journal.written if slot[1] is None and journal.is_observed(slot, guards)}
        for container, before in journal.beginning.containers:
            slot, now = (id(container), None), contents(before, [])
            known = seen.setdefault(slot, now)
            slots |= {slot} if known != now else set()
            slots |= {(id(container), GROWS)} if type(container) is list and len(known[1]) != len(now[1]) else set()
        return slots
