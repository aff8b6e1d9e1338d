"""Gradients of compiled calls that native code finds and runs by itself, once Python has computed them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from eagerjit.runtime.connections import History, KnownGradient, runs_in_native_code
from eagerjit.runtime.execute import NativeExecutable
from eagerjit.runtime.native.context import MOST_CONNECTED, NO_GRADIENT, NOT_WANTED

if TYPE_CHECKING:
    from eagerjit.compiled.joint import Backward
    from eagerjit.compiled.parts import Part
    from eagerjit.compiled.second_gradients import Twice


def as_known(
    part: Part,
    backward: Backward,
    keys: Sequence[Hashable],
    present: tuple[int, ...],
    wanted: tuple[Hashable, ...],
    summed: tuple[Hashable, ...],
    n_values: int = 0,
    of_call: tuple[int, ...] = (),
    twice: Twice | None = None,
) -> KnownGradient | None:
    """What native code has to know of a part of a call's gradients; None where it is left to Python.

    `keys` are those of the inputs of the node that gets the gradients, `wanted` of those that need one, `summed` of
    those that had one. `twice` is the history that they have.
    """
    cut, targets, history = part.adding(summed), part.targets, None
    if twice is not None:
        if twice.keeping is not None:
            cut, targets = twice.keeping, twice.targets
        history = _history(twice, targets, len(keys), summed)
        if history is None or not runs_in_native_code(cut.executable):
            return None
    given = cut.given.plain()
    if part.late is not None or given is None or not isinstance(cut.executable, NativeExecutable):
        return None
    if n_values + len(present) + len(of_call) + len(summed) + len(cut.kept) + len(given) > MOST_CONNECTED:
        return None
    results = dict.fromkeys(wanted, NO_GRADIENT) | {key: i for i, key in enumerate(targets) if key in wanted}
    visit, freed = part.visit, None
    if visit is not None:
        freed = visit.freed(frozenset())
    return KnownGradient(
        cut.executable, n_values, present, of_call, [summed.index(key) if key in summed else -1 for key in keys],
        len(summed), cut.kept, given,
        [results.get(key, NOT_WANTED) for key in keys], [key in part.repeated for key in keys], visit, (freed,),
        visit is not None and bool(visit.lasting), visit is not None and backward.ends(visit, freed or frozenset()),
        len(backward.hidden), history,
    )  # fmt: skip


def _history(twice: Twice, targets: Sequence[Hashable], n_leaves: int, summed: Any) -> History | None:
    """How native code puts gradients on the tape that had nothing to be added to; None where Python has to."""
    if twice.asks or summed or len(twice.flags) + len(twice.hidden) + n_leaves > MOST_CONNECTED:
        return None
    outputs = [targets.index(key) for key in twice.outputs]
    return History(twice, twice.known, twice.flags, twice.hidden, outputs, len(targets))
