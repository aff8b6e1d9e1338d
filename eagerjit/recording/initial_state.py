"""What a recorded call found in the objects that it read or changed, so that it can be recorded again later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from eagerjit.runtime.own_attributes import dictionary_of
from eagerjit.state import modes
from eagerjit.watching.containers import CONTAINERS, copy_of, restore_contents, same_contents
from eagerjit.watching.observation import NotYet
from eagerjit.watching.slots import ABSENT, DELETE, LOOK, STORE, GradientOf, Slot


@dataclass
class Beginning:
    """Attributes, items, variables and whole containers with what they held when a call began.

    slots       (holder, key, kind, value): what was read of them is guarded, so every call of the version finds it
    containers  (container, copy of what it held)
    modes       what operations depended on
    gradients   those that the call reads or changes; it has found none where its arguments do not have them
    filled      (dictionary, items, line): what it held where calls find more, which the plain call makes at that line
    """

    slots: list[tuple[Any, Any, str, Any]] = field(default_factory=list)
    containers: list[tuple[Any, Any]] = field(default_factory=list)
    modes: tuple[Any, ...] = field(default_factory=modes)
    gradients: list[GradientOf] = field(default_factory=list)
    filled: list[tuple[dict[Any, Any], dict[Any, Any], str]] = field(default_factory=list)

    def note(self, holder: Any, key: Any, kind: str, value: Any) -> None:
        """Remember what was read, where it is kept there itself."""
        if LOOK[kind](holder, key) is value:
            self.slots.append((holder, key, kind, value))

    def note_module(self, module: Any) -> None:
        """Remember a Module's mode, and the tensors that it holds: others may stand there for a while."""
        self.note(module, "training", "attribute", module.training)
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                self.note(table, name, "item", tensor)

    def note_contents(self, container: Any) -> None:
        """Remember what a container that was read holds."""
        if isinstance(container, CONTAINERS):
            self.containers.append((container, copy_of(container)))

    def refuse_filled(self) -> None:
        """End a recording that has read what is filled before calls: what it read may have been empty."""
        for filled, items, source in self.filled:
            read = any(holder is filled and key in items for holder, key, *_ in self.slots)
            if read or any(held is filled for held, _ in self.containers):
                raise NotYet("it reads the states of an optimizer, which its first step makes", source)

    def empty_again(self) -> None:
        """Take out what was filled: the plain call fills it."""
        for filled, items, _ in self.filled:
            for key, value in items.items():
                put(filled, key, "item", value)

    def contents_of(self, container: Any) -> Any:
        """A copy of a container, with what those of its items held that have been changed since."""
        held = copy_of(container)
        for holder, key, kind, value in reversed(self.slots):
            if holder is container and kind == "item":
                put(held, key, kind, value)
        return held

    def forget(self, is_no_matter: Callable[[Any], bool]) -> None:
        """Leave out objects that the call made, or that it is given."""
        self.slots = [slot for slot in self.slots if not is_no_matter(slot[0])]
        self.containers = [pair for pair in self.containers if not is_no_matter(pair[0])]

    @contextmanager
    def again(self, arguments: Sequence[Any]) -> Iterator[None]:
        """Everything as it was when a call with these arguments began; then as it is now."""
        inputs, found = slot_values(arguments), getattr(arguments, "slots", {})
        gradients = [(tensor := place.owner(arguments), tensor._grad) for place in self.gradients]
        now = [(holder, key, kind, LOOK[kind](holder, key)) for holder, key, kind, _ in self.slots]
        both = zip(self.slots, now, strict=True)
        made = [holder for (holder, *_, value), (*_, held) in both if value is ABSENT and held is not ABSENT]
        tables = [t for t in (h if isinstance(h, dict) else vars_of(h) for h in made) if t is not None]
        held = [(c, copy_of(c)) for c in (*(c for c, _ in self.containers), *tables)]  # in this order, too
        try:
            for container, before in self.containers:
                restore(container, before)
            for holder, key, kind, value in self.slots:
                put(holder, key, kind, inputs.get((id(holder), key), value))
            for (tensor, _), place in zip(gradients, self.gradients, strict=True):
                tensor._grad = found.get(place)
            yield
        finally:
            for tensor, gradient in gradients:
                tensor._grad = gradient
            for holder, key, kind, value in now:
                put(holder, key, kind, value)
            for container, before in held:
                restore(container, before)


def restore(container: Any, before: Any) -> None:
    """Let a container hold what it did, if it holds anything else: other threads may look at it."""
    if not same_contents(container, before):
        restore_contents(container, before)


def vars_of(holder: Any) -> Any:
    """An object's attributes as a dictionary that may be written, None where it has none."""
    found = dictionary_of(holder)
    return found if isinstance(found, dict) else None


def put(holder: Any, key: Any, kind: str, value: Any) -> None:
    """Let an attribute, an item or a variable hold a value, or with ABSENT nothing."""
    present = LOOK[kind](holder, key)
    if value is not ABSENT and value is not present:
        STORE[kind](holder, key, value)
    elif value is ABSENT and present is not ABSENT:
        DELETE[kind](holder, key)


def slot_values(arguments: Sequence[Any]) -> dict[Any, Any]:
    """What a call found in the slots that are inputs of it."""
    found = getattr(arguments, "slots", {})
    return {(id(s.holder), s.key): value for s, value in found.items() if type(s) is Slot and not s.path}
