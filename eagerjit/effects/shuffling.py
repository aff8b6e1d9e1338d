"""Lists put into a random order: every call asks for the order, as it asks for random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.effects.world_calls import SHUFFLED, draws, owner_of
from eagerjit.recording.numbers import SymbolicInt, TracedFloat


def instead(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], ask: Callable[..., Any]) -> Any:
    """What is called in place of a generator's `shuffle` of a list; None for other calls."""
    name, generator, bound = owner_of(function, args)
    given = args[bound:]
    if name != "shuffle" or kwargs or len(given) != 1 or type(given[0]) is not list or not draws(type(generator)):
        return None

    def shuffle(values: Any) -> None:
        if all(type(x) in (int, float, SymbolicInt, TracedFloat) for x in values):
            values[:] = ask(generator, SHUFFLED, list(values))
        else:
            order = ask(generator, SHUFFLED, list(range(len(values))))
            values[:] = [values[i] for i in order]

    return lambda *args: shuffle(args[bound])
