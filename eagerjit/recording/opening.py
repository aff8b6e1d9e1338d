"""Which objects among a function's arguments are taken apart, so that calls with others of their classes are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eagerjit.guards.forms import is_its_attributes
from eagerjit.pytree import NO_WAYS, Ways
from eagerjit.watching.observation import ByIdentity, TraceBreak

if TYPE_CHECKING:
    from eagerjit.compiled.variants import Variant

_NAMESPACES = frozenset((("types", "SimpleNamespace"), ("argparse", "Namespace"), ("collections", "UserDict")))


class Opening:
    """What a function's calls have shown: objects are leaves until a second one of their class is met."""

    def __init__(self) -> None:
        self.ways: Ways = NO_WAYS

    def learn(self, known: Sequence[Variant], leaves: Sequence[Any]) -> bool:
        """Take apart classes of leaves of which versions know other objects; whether there is one."""
        met = {part for variant in known for part in variant.key if _is_object(part)}
        kinds = {kind for kind, _ in met} - self.ways.keys()
        new = {type(x) for x in leaves if type(x) in kinds and (type(x), id(x)) not in met}
        new = {kind for kind in new if (kind.__module__, kind.__name__) in _NAMESPACES or is_its_attributes(kind)}
        new -= {type(x) for x in leaves if type(x) in new and any(_is_computed(type(x), name) for name in vars(x))}
        self.ways = {**self.ways, **dict.fromkeys(new, True)}
        return bool(new)

    def close(self, problem: TraceBreak) -> bool:
        """Take fewer classes apart, since a recording has ended so; whether there are fewer."""
        asked = problem.kind if isinstance(problem, ByIdentity) else None
        closed = {kind for kind, opens in self.ways.items() if opens} if asked is None else {asked}
        closed = {kind for kind in closed if self.ways.get(kind) is not False}
        self.ways = {**self.ways, **dict.fromkeys(closed, False)}
        return bool(closed)


def _is_computed(kind: type, name: str) -> bool:
    """Whether a class computes an attribute, whatever objects hold under its name."""
    return hasattr(type(getattr(kind, name, None)), "__set__")


def _is_object(part: Any) -> bool:
    """Whether a part of a version's key is an object that it knows by identity."""
    return type(part) is tuple and len(part) == 2 and isinstance(part[0], type)
