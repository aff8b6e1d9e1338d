"""Gradients of ops as functions over ops: from declared rules, or derived by differentiating the op's body."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from eagerjit.compiled.evaluated import conjugated, has_complex
from eagerjit.runtime import mode
from eagerjit.state import state
from eagerjit.tensors.tensor import Tensor

if TYPE_CHECKING:
    from eagerjit.calling.dispatch import Op

Body = Callable[..., tuple[Any, ...]]


def ruled_gradient(op: Op, needs: tuple[bool, ...], n_outputs: int) -> Body:
    """The gradient from the op's declared rules, fitted to each argument's shape and dtype."""
    rules = op.rules
    assert rules is not None
    chosen = [(i, rule) for i, (rule, needed) in enumerate(zip(rules, needs, strict=True)) if rule and needed]

    def gradient(*values: Any) -> tuple[Any, ...]:
        grads, outputs = values[:n_outputs], values[n_outputs : 2 * n_outputs]
        arguments = values[2 * n_outputs :]
        g, out = (grads[0], outputs[0]) if n_outputs == 1 else (grads, outputs)
        results: list[Any] = [None] * len(arguments)
        flipped = not op.wirtinger and has_complex((*grads, *arguments))
        for i, rule in chosen:
            found = conjugated(rule, g, out, arguments) if flipped else rule(g, out, *arguments)
            results[i] = fit(found, arguments[i])
        return tuple(results)

    return gradient


def fit(grad: Any, argument: Any) -> Any:
    """A gradient summed over the dimensions that were broadcast, in the argument's dtype."""
    if not isinstance(argument, Tensor) or grad is None:
        return grad
    if grad.dtype.is_complex and not argument.dtype.is_complex:
        grad = grad.real.contiguous()  # as a result of an op: a view's strides would tell of the complex numbers
    if grad.dtype is not argument.dtype:
        grad = grad.to(argument.dtype)
    shape, given = argument.shape, grad.shape
    return grad if given is shape or given == shape else grad.sum_to_size(shape)  # remembered sizes are one object


def derived_gradient(op: Op, needs: tuple[bool, ...], n_outputs: int, zeros: bool = True) -> Body:
    """The gradient by running the op's body on aliases of the arguments and walking back through it.

    Arguments that results with a gradient do not depend on get zeros, or None without `zeros`. The gradients' sizes are
    asked for: compiled together with what gave them they are known to be the results', and views where copies would be
    made otherwise, of which BLAS adds in another order.
    """

    def gradient(*values: Any) -> tuple[Any, ...]:
        from eagerjit.autograd import engine

        grads, arguments = values[:n_outputs], values[2 * n_outputs :]
        create_graph, began = mode.grad_mode(), mode.next_sequence()
        aliases = [_alias(a) if needed else a for a, needed in zip(arguments, needs, strict=True)]
        before = mode.set_grad_mode(True)
        try:
            result = op.body(*aliases)
        finally:
            mode.set_grad_mode(before)
        results = list(result) if isinstance(result, tuple) else [result]
        connected = [(r, fit(g, r)) for r, g in zip(results, grads, strict=True) if g is not None and r._requires_grad]
        targets = [a for a, needed in zip(aliases, needs, strict=True) if needed and isinstance(a, Tensor)]
        first = 0
        if state.tracer is not None:  # the walk ends at the arguments, whose histories may begin before the recording
            targets += [a for a in arguments if isinstance(a, Tensor) and a._node is not None]
            first = began
        roots, given = [r for r, _ in connected], [g for _, g in connected]
        found = iter(engine.run(roots, given, targets, create_graph, create_graph, None, first))
        return tuple(
            _or_zeros(next(found), a, zeros) if needed and isinstance(a, Tensor) else None
            for a, needed in zip(aliases, needs, strict=True)
        )

    return gradient


def _or_zeros(grad: Any, argument: Tensor, zeros: bool) -> Any:
    """A gradient of zeros for an argument that the results do not depend on: which ones have gradients never varies."""
    return argument.detach().new_zeros(argument.shape) if grad is None and zeros else grad


def _alias(argument: Any) -> Any:
    """The argument as a starting point of its own, still connected to its history where that is recorded."""
    if not isinstance(argument, Tensor):
        return argument
    if mode.grad_mode() and argument._requires_grad:
        return argument.view_as(argument)
    return argument.detach().requires_grad_()
