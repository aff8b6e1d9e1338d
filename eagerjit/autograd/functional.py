"""Derivatives of functions as tensors: jacobian, hessian, and their products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.autograd.api import grad
from eagerjit.tensor import Tensor


def _started(inputs: Any, create_graph: bool) -> tuple[bool, list[Tensor]]:
    """Whether one tensor was given, and the inputs as starting points of gradients."""
    single = isinstance(inputs, Tensor)
    values = [inputs] if single else list(inputs)
    if create_graph:
        return single, [v.view_as(v) if v._requires_grad else v.detach().requires_grad_() for v in values]
    return single, [v.detach().requires_grad_() for v in values]


def _rows(output: Tensor, targets: list[Tensor], create_graph: bool) -> list[Tensor]:
    """Per target the Jacobian, of the output's shape followed by the target's."""
    from eagerjit.creation import zeros_like
    from eagerjit.ops.index import stack

    flat = output.reshape(-1)
    rows: list[list[Tensor]] = [[] for _ in targets]
    for index in range(int(flat.shape[0])):
        element = flat[index]
        found: Any = [None] * len(targets)
        if element._requires_grad:
            found = grad(element, targets, retain_graph=True, create_graph=create_graph, allow_unused=True)
        for row, target, g in zip(rows, targets, found, strict=True):
            row.append(zeros_like(target) if g is None else g)
    return [
        stack(row).reshape(*output.shape, *target.shape) if row else target.new_zeros(*output.shape, *target.shape)
        for row, target in zip(rows, targets, strict=True)
    ]


def jacobian(func: Callable[..., Any], inputs: Any, create_graph: bool = False) -> Any:
    """d output / d input, of the output's shape followed by the input's; a tuple per input (and per output)."""
    single, values = _started(inputs, create_graph)
    result = func(*values)
    outputs = [result] if isinstance(result, Tensor) else list(result)
    found = [tuple(_rows(o, values, create_graph)) for o in outputs]
    rows = [f[0] if single else f for f in found]
    return rows[0] if isinstance(result, Tensor) else tuple(rows)


def hessian(func: Callable[..., Any], inputs: Any, create_graph: bool = False) -> Any:
    """The second derivatives of a scalar function."""
    single, values = _started(inputs, create_graph)

    def gradient(*arguments: Tensor) -> Any:
        output = func(*arguments)
        if output.numel() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        found = grad(output.reshape(()), list(arguments), create_graph=True, allow_unused=True)
        return tuple(a.new_zeros(a.shape) if g is None else g for a, g in zip(arguments, found, strict=True))

    rows = jacobian(gradient, tuple(values), create_graph)
    return rows[0][0] if single else rows


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False) -> tuple[Any, Any]:
    """(func(inputs), the product of v with the Jacobian)."""
    single, values = _started(inputs, create_graph)
    output = func(*values)
    found = grad(output, values, v, create_graph=create_graph, materialize_grads=True)
    return output if create_graph else output.detach(), found[0] if single else found
