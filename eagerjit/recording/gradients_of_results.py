"""What results of a compiled call are to gradients: kept ones, new ones, leaves and tensors that require them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eagerjit.recording.results import is_traced
from eagerjit.recording.trace import Tracer
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import NotYet
from eagerjit.watching.slots import Slot, value_at


def retained(results: Sequence[Any]) -> list[int]:
    """The results whose gradients are to be kept: the compiled call's results are asked to, not those of the trace."""
    out = []
    for index, result in enumerate(results):
        keep = (result._hooks or {}).get("retained", {}).get(0) if is_traced(result) else None
        if keep is not None and result._node is not None and result._node.inputs is not None:
            hooks = result._node.hooks[result._index]
            hooks.pop(next(key for key, hook in hooks.items() if hook is keep))
            out.append(index)
    return out


def new_gradients(tracer: Tracer, results: list[Any]) -> list[tuple[int, int]]:
    """Gradients that the call leaves in tensors from outside, added to its results: (leaf, result or -1 for None)."""
    out = []
    for tensor, grad in tracer.gradients.values():
        if grad is tensor._grad and id(tensor) not in tracer.assigned:
            continue
        if grad is None:
            out.append((tracer.leaf_of[id(tensor)], -1))
            continue
        found = next((i for i, r in enumerate(results) if r is grad), None)
        if found is None:
            results.append(grad)
            found = len(results) - 1
        out.append((tracer.leaf_of[id(tensor)], found))
    return out


def changed_flags(tracer: Tracer) -> list[tuple[int, Tensor | Slot, bool]]:
    """(leaf, tensor or where it lies, whether it requires a gradient now) where that has changed outside."""
    changed = [(tracer.leaf_of[id(t)], t, not flag) for t, flag in tracer.flags.values() if t._requires_grad != flag]
    return [(leaf, tracer.slots.get(leaf, t), flag) for leaf, t, flag in changed]


def own_gradients(results: list[Any]) -> list[tuple[int, int]]:
    """(result, its gradient): gradients that the call itself left in results that it made, added to the results."""
    out = []
    for index, result in enumerate(list(results)):
        grad = result._grad if is_traced(result) else None
        if grad is not None:
            found = next((i for i, r in enumerate(results) if r is grad), len(results))
            if found == len(results):
                results.append(grad)
            out.append((index, found))
    return out


@dataclass
class KeepGradients:
    """Gives results the gradients that the call left in them, and lets others keep those to come."""

    own: list[tuple[int, int]]
    retained: list[int]

    def __call__(self, flat: Sequence[Any], arguments: Sequence[Any]) -> None:
        for index, grad in self.own:
            flat[index]._grad = flat[grad]
        for index in self.retained:
            flat[index].retain_grad()


def required(results: list[Any], place: Any) -> list[Any]:
    """What makes leaves of results that require gradients with no history: `zeros(2, requires_grad=True)`.

    Raises TraceBreak where gradients of other results flow to such a leaf.
    """
    leaves = [i for i, r in enumerate(results) if is_traced(r) and r._requires_grad and r._node is None]
    if reached := [results[i] for i in leaves if is_reached(results[i], results)]:
        reason = "it returns a tensor made to require gradients along with what depends on it"
        node = reached[0]._data
        raise NotYet(reason, place if node.op.family == "argument" else node.source or place)
    return [RequireResults(leaves)] if leaves else []


def is_reached(leaf: Tensor, results: list[Any]) -> bool:
    """Whether gradients of other results flow to a leaf."""
    waiting = [r for r in results if is_traced(r)]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()._node
        if node is None or id(node) in seen or node.inputs is None:
            continue
        seen.add(id(node))
        given = [x for i in node.inputs for x in (i if isinstance(i, (tuple, list)) else (i,))]
        inputs = [x for x in given if isinstance(x, Tensor)]
        if any(x is leaf for x in inputs):
            return True
        waiting += inputs
    return False


@dataclass
class RequireResults:
    """Makes results leaves that require gradients."""

    results: list[int]

    def __call__(self, flat: Sequence[Any], arguments: Sequence[Any]) -> None:
        for index in self.results:
            flat[index]._requires_grad = True


@dataclass
class RequireGradients:
    """Sets `requires_grad` of outside tensors: (leaf, tensor or where it lies, value)."""

    changes: list[tuple[int, Tensor | Slot, bool]]

    def __call__(self, flat: Sequence[Any], arguments: Sequence[Any]) -> None:
        for leaf, outside, value in self.changes:
            target = arguments[leaf] if leaf < len(arguments) else value_at(outside, arguments)
            target._requires_grad = value
