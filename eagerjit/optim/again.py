"""What a step found of a group of parameters, which the next step takes over where nothing has changed since."""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from eagerjit.runtime import mode
from eagerjit.tensors.tensor import Tensor


class _Found(NamedTuple):
    """The parameters of a group by their identity, which of them had gradients, and the states of these.

    All changes of options and states start a new epoch, but those of lists do not.
    """

    group: Any
    epoch: int
    parameters: list[int]
    present: list[bool]
    states: list[Any]


_found: WeakKeyDictionary[Any, dict[int, _Found]] = WeakKeyDictionary()


def is_dense(gradients: list[Any]) -> bool:
    """Whether gradients are all plain tensors, which sparse ones are not."""
    return all([type(gradient) is Tensor for gradient in gradients])


def keep(optimizer: Any, group: Any, gradients: list[Tensor | None], states: list[Any]) -> None:
    """Keep what a step has found: the gradients of all parameters, and the states of those that have one."""
    if not hasattr(type(group), "holds_options"):  # a dictionary that the program has put there, which notes no changes
        return
    ids, present = [*map(id, group["params"])], [g is not None for g in gradients]
    if len(set(ids)) < len(ids):  # whose steps are several updates
        return
    _found.setdefault(optimizer, {})[id(group)] = _Found(group, mode.epoch(), ids, present, states)


def forget(optimizer: Any, group: Any) -> None:
    """Keep nothing of a group."""
    _found.get(optimizer, {}).pop(id(group), None)


def update_again(optimizer: Any, group: Any) -> bool:
    """Update as in the step before, if all is as it was then."""
    known = _found.get(optimizer, {}).get(id(group))
    if known is None or known.epoch != mode.epoch() or known.group is not group:
        return False
    parameters = group["params"]
    if [*map(id, parameters)] != known.parameters:
        return False
    gradients = [p._grad for p in parameters]
    if [g is not None for g in gradients] != known.present:
        return False
    if not all(known.present):
        parameters = [p for p, has_gradient in zip(parameters, known.present, strict=True) if has_gradient]
        gradients = [g for g in gradients if g is not None]
    if not is_dense(gradients):
        return False
    if parameters:
        optimizer.update(group, parameters, gradients, known.states)
    return True
