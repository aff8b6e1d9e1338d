"""Hooks of what lies on the tape: those of an operation's results, and those of the operation itself or of a
leaf's end.

A node keeps them in one table, by the index of a result; the operation's own lie under `BEFORE` and `AFTER`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor
from eagerjit.watching.observation import TraceBreak, call_back, user_line

if TYPE_CHECKING:
    from eagerjit.autograd.leaf_nodes import AccumulateGrad
    from eagerjit.autograd.node import GradNode

BEFORE, AFTER = -1, -2


def result_hooked(node: GradNode, index: int, grad: Tensor | None, end: float = math.inf) -> Tensor | None:
    """The gradient of a result as its hooks leave it; those whose numbers are from `end` on wait."""
    from eagerjit.autograd.accumulation import hook_called

    if grad is None or node.hooks is None:
        return grad
    for _, hook in sorted(item for item in node.hooks.get(index, {}).items() if item[0] < end):
        grad = hook_called(hook, grad)
    return grad


def before(node: GradNode | AccumulateGrad, received: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """The gradients of all results as the operation's hooks leave them."""
    for hook in list((node.hooks or {}).get(BEFORE, {}).values()):
        received = _answer(hook, received, call_back(hook, tuple(received)))
    return received


def after(node: GradNode | AccumulateGrad, results: Sequence[Any], incoming: Sequence[Tensor | None]) -> Sequence[Any]:
    """The gradients that the operation gives its arguments, as its hooks leave them."""
    hooks = list((node.hooks or {}).get(AFTER, {}).values())
    if not hooks:
        return results
    grads: Sequence[Any] = [grad for _, grad in _of_tensors(node, results)]
    for hook in hooks:
        grads = _answer(hook, grads, call_back(hook, tuple(grads), tuple(incoming)))
    left = iter(grads)
    out: list[Any] = [list(r) if isinstance(r, (list, tuple)) else r for r in results]
    for (position, part), _ in _of_tensors(node, results):
        if part is None:
            out[position] = next(left)
        elif out[position] is None:
            next(left)  # a list none of whose tensors needs a gradient
        else:
            out[position][part] = next(left)
    return out


def _of_tensors(
    node: GradNode | AccumulateGrad, results: Sequence[Any]
) -> Iterator[tuple[tuple[int, int | None], Any]]:
    """Where each tensor among the arguments is, also in a list, and its gradient."""
    for position, (x, grad) in enumerate(zip(node.inputs or (), results, strict=False)):
        if isinstance(x, Tensor):
            yield (position, None), grad
        elif type(x) in (list, tuple):
            for part, e in enumerate(x):
                if isinstance(e, Tensor):
                    yield (position, part), None if grad is None else grad[part]


def _answer(hook: Callable[..., Any], given: Sequence[Any], answer: Any) -> Sequence[Any]:
    """What a hook leaves of the gradients it was given. Raises TypeError or RuntimeError for what cannot be any."""
    if answer is None:
        return given
    if isinstance(answer, Tensor):
        answer = (answer,)
    if not isinstance(answer, tuple):
        raise TypeError(f"expected a tuple of gradients, but hook returned '{type(answer).__name__}'")
    name = getattr(hook, "__name__", type(hook).__name__)
    if len(answer) != len(given):
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(answer)}, but expected {len(given)})"
        )
    for old, new in zip(given, answer, strict=True):
        if new is not None and not isinstance(new, Tensor):
            raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
        if old is not None and new is not None and new.shape != old.shape:
            raise RuntimeError(
                f"hook '{name}' has changed the size of value (was {list(old.shape)} got {list(new.shape)})"
            )
    return tuple(answer)


def register(node: GradNode | AccumulateGrad, when: int, hook: Callable[..., Any]) -> Any:
    """Put a hook of the operation in the node's table. Raises NotImplementedError for a compiled call."""
    from eagerjit.tensors.methods import add_hook

    if getattr(getattr(node, "op", None), "partial", False):
        raise NotImplementedError(f"{node.name()} stands for several operations: register a hook on a tensor instead")
    if state.tracer is not None:
        raise TraceBreak("it registers a hook on a node of the tape", user_line())
    if node.hooks is None:
        node.hooks = {}
    return add_hook(node.hooks.setdefault(when, {}), hook)
