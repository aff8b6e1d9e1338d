"""Checking gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eagerjit.autograd.api import grad
from eagerjit.runtime import dtypes
from eagerjit.tensors.placement import beside, host_array
from eagerjit.tensors.tensor import Tensor, new_tensor


class GradcheckError(RuntimeError):
    """A gradient differs from the finite difference."""


def _outputs(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    result = function(*inputs)
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    return [r for r in results if isinstance(r, Tensor) and r.dtype.is_floating_point]


def _checked(inputs: Any) -> tuple[list[Any], list[int]]:
    values = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    positions = [i for i, x in enumerate(values) if isinstance(x, Tensor) and x._requires_grad]
    if not positions:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    return values, positions


def _numerical(function: Callable[..., Any], values: list[Any], position: int, eps: float) -> list[np.ndarray]:
    """Per output the Jacobian (elements of the input, elements of the output) by central differences."""
    array = np.array(host_array(values[position]._data), dtype=np.float64)
    columns: list[list[np.ndarray]] = []
    for index in np.ndindex(array.shape):
        sides = []
        for step in (eps, -eps):
            moved = array.copy()
            moved[index] += step
            changed = beside(new_tensor(moved), values[position]).requires_grad_()
            results = _outputs(function, [changed if i == position else v for i, v in enumerate(values)])
            sides.append([np.array(host_array(r._data), dtype=np.float64).reshape(-1) for r in results])
        columns.append([(a - b) / (2 * eps) for a, b in zip(*sides, strict=True)])
    return [np.array(rows) for rows in zip(*columns, strict=True)] if columns else []


def _analytical(output: Tensor, target: Tensor) -> np.ndarray:
    """The Jacobian (elements of the input, elements of the output) by one backward per output element."""
    rows = []
    for index in range(output.numel()):
        seed = np.zeros(output._data.shape)
        seed.reshape(-1)[index] = 1
        (found,) = grad(output, target, beside(new_tensor(seed), output), retain_graph=True, allow_unused=True)
        rows.append(np.zeros(target.numel()) if found is None else np.array(host_array(found._data)).reshape(-1))
    return np.array(rows).reshape(output.numel(), target.numel()).T


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Whether the gradients of a function of float64 tensors agree with finite differences.

    Raises GradcheckError where they do not, unless `raise_exception` is False.
    """
    values, positions = _checked(inputs)
    for position in positions:
        if values[position].dtype is not dtypes.float64:
            raise ValueError("gradcheck needs float64 inputs: finite differences of others say nothing")
        differences = _numerical(func, values, position, eps)
        outputs = _outputs(func, values)
        for number, (output, expected) in enumerate(zip(outputs, differences, strict=False)):
            actual = _analytical(output, values[position]) if output._requires_grad else np.zeros_like(expected)
            if not np.allclose(actual, expected, rtol, atol):
                if raise_exception:
                    raise GradcheckError(
                        f"Jacobian mismatch for output {number} with respect to input "
                        f"{position},\nnumerical:{expected}\nanalytical:{actual}\n"
                    )
                return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Whether the gradients of a function's gradients agree with finite differences; see `gradcheck`."""
    values, positions = _checked(inputs)
    outputs = [o for o in _outputs(func, values) if o._requires_grad]
    if grad_outputs is None:
        generator = np.random.default_rng(0)
        seeds = [beside(new_tensor(generator.standard_normal(o._data.shape)), o).requires_grad_() for o in outputs]
    else:
        seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)

    def gradient(*arguments: Any) -> Any:
        given, weights = arguments[: len(values)], arguments[len(values) :]
        results = [o for o in _outputs(func, given) if o._requires_grad]
        found = grad(results, [given[p] for p in positions], weights, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    everything = [*values, *seeds]
    return gradcheck(gradient, everything, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)
