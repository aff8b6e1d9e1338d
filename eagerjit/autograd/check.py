"""Checking gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eagerjit.autograd.api import grad
from eagerjit.autograd.forward import push
from eagerjit.effects.cautions import caution
from eagerjit.ops.complexes import view_as_complex, view_as_real
from eagerjit.ops.index import stack
from eagerjit.runtime import dtypes
from eagerjit.tensors.placement import beside, host_array
from eagerjit.tensors.tensor import Tensor, new_tensor


class GradcheckError(RuntimeError):
    """A gradient differs from the finite difference."""


def _outputs(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    """The results that have gradients, as real numbers: of complex ones both parts."""
    result = function(*inputs)
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    differentiable = [r for r in results if isinstance(r, Tensor) and r.dtype.is_differentiable]
    return [view_as_real(r) if r.dtype.is_complex else r for r in differentiable]


def _checked(inputs: Any) -> tuple[list[Any], list[int]]:
    values = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    positions = [i for i, x in enumerate(values) if isinstance(x, Tensor) and x._requires_grad]
    if not positions:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    return values, positions


def _check_inputs(values: list[Any], positions: list[int]) -> None:
    """Raises where elements share memory, as one can't be moved alone; warns of dtypes that are not exact enough."""
    for position in positions:
        if values[position].dtype not in (dtypes.float64, dtypes.complex128):
            caution(
                f"Input #{position} requires gradient and is not a double precision floating point or complex. This "
                "check will likely fail if all the inputs are not of double precision floating point or complex. "
            )
        array = values[position]._data
        if any(stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True)):
            raise RuntimeError(
                f"The {position}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck."
            )


def _numerical(function: Callable[..., Any], values: list[Any], position: int, eps: float) -> list[np.ndarray]:
    """Per output the Jacobian (elements of the input, elements of the output) by central differences.

    The input itself is moved, and put back: the function may hold it too, as a Module does its parameters.
    """
    moved = values[position].data
    start = np.array(host_array(moved._data))
    columns: list[list[np.ndarray]] = []
    try:
        for index in np.ndindex(start.shape):
            sides = []
            for step in (eps, -eps):
                array = start.copy()
                array[index] += step
                moved.copy_(beside(new_tensor(array), moved))
                results = _outputs(function, values)
                sides.append([np.array(host_array(r._data), dtype=np.float64).reshape(-1) for r in results])
            columns.append([(a - b) / (2 * eps) for a, b in zip(*sides, strict=True)])
    finally:
        moved.copy_(beside(new_tensor(start), moved))
    return [np.array(rows) for rows in zip(*columns, strict=True)] if columns else []


def _rows(found: Sequence[Tensor | None], width: int) -> np.ndarray:
    """What was found, each in a row, as numbers."""
    rows = [np.zeros(width) if f is None else np.array(host_array(f.detach()._data)).reshape(-1) for f in found]
    return np.array(rows).reshape(len(rows), width)


def _units(like: Tensor) -> list[Tensor]:
    """Tensors of a shape that are 1 at one place each."""
    made = np.eye(like.numel()).reshape(like.numel(), *like._data.shape)
    return [beside(new_tensor(made[i, ...]), like) for i in range(len(made))]


def _backward(output: Tensor, target: Tensor, check_dtypes: bool) -> np.ndarray:
    """The Jacobian (elements of the input, elements of the output) by one backward per output element."""
    if not output._requires_grad:
        return np.zeros((target.numel(), output.numel()))
    found = [grad(output, target, unit, retain_graph=True, allow_unused=True)[0] for unit in _units(output)]
    if check_dtypes and any(f is not None and f.dtype is not target.dtype for f in found):
        raise GradcheckError(f"Expected gradients of {target.dtype}, the input's dtype")
    return _rows(found, target.numel()).T


def _batched(output: Tensor, target: Tensor) -> np.ndarray:
    """The same by one vmap of all backwards."""
    from eagerjit.func import vmap

    if not output._requires_grad or not output.numel():
        return np.zeros((target.numel(), output.numel()))

    def back(unit: Tensor) -> Tensor:
        (found,) = grad(output, target, unit, retain_graph=True, allow_unused=True)
        return target.detach() * 0 if found is None else found

    return _rows(list(vmap(back)(stack(_units(output)))), target.numel()).T


def _forward(output: Tensor, target: Tensor) -> np.ndarray:
    """The Jacobian by one tangent per element of the input."""
    return _rows([push([output], [(target, unit)], False)[0] for unit in _units(target)], output.numel())


def _batched_forward(output: Tensor, target: Tensor) -> np.ndarray:
    """The same by one vmap of all tangents."""
    from eagerjit.func import vmap

    def along(unit: Tensor) -> Tensor:
        (found,) = push([output], [(target, unit)], False)
        return output.detach() * 0 if found is None else found

    return _rows(list(vmap(along)(stack(_units(target)))), output.numel())


def _of_reals(function: Callable[..., Any], values: list[Any], positions: list[int]) -> tuple[Any, list[Any]]:
    """A function of real numbers alone: of complex arguments both parts, in a last dimension."""
    turned = [p for p in positions if values[p].dtype.is_complex]
    if not turned:
        return function, values
    parts = list(values)
    for p in turned:
        parts[p] = view_as_real(values[p].detach()).clone().requires_grad_()

    def of_parts(*given: Any) -> Any:
        return function(*(view_as_complex(x) if p in turned else x for p, x in enumerate(given)))

    return of_parts, parts


@dataclass(frozen=True)
class _Checks:
    """What is compared with the finite differences, and how closely."""

    rtol: float
    atol: float
    nondet_tol: float
    check_grad_dtypes: bool
    check_batched_grad: bool
    check_batched_forward_grad: bool
    check_forward_ad: bool
    check_backward_ad: bool

    def of(self, output: Tensor, target: Tensor, expected: np.ndarray, where: str) -> None:
        """Raise GradcheckError where a Jacobian is not what is expected."""
        if self.check_backward_ad:
            found, again = (_backward(output, target, self.check_grad_dtypes) for _ in range(2))
            self._agree(found, expected, f"Jacobian mismatch for {where}")
            if not np.allclose(found, again, 0, self.nondet_tol):
                raise GradcheckError(
                    f"Backward is not reentrant: its gradients differ from run to run by more than {self.nondet_tol}, "
                    f"for {where}"
                )
        if self.check_batched_grad:
            self._agree(_batched(output, target), expected, f"Jacobian by vmap of gradients mismatch for {where}")
        if self.check_forward_ad:
            found = _forward(output, target)
            self._agree(found, expected, f"Jacobian computed with forward mode mismatch for {where}")
        if self.check_batched_forward_grad:
            found = _batched_forward(output, target)
            self._agree(found, expected, f"Jacobian by vmap of forward mode mismatch for {where}")

    def _agree(self, found: np.ndarray, expected: np.ndarray, otherwise: str) -> None:
        if not np.allclose(found, expected, self.rtol, self.atol):
            raise GradcheckError(f"{otherwise},\nnumerical:{expected}\nanalytical:{found}\n")


def gradcheck(
    func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False, masked: bool | None = None,
) -> bool:  # fmt: skip
    """Whether the gradients of a function agree with finite differences, which say little below double precision.

    The Jacobians of gradients (`check_backward_ad`), of tangents (`check_forward_ad`) and of either under vmap are
    compared element by element, in `fast_mode` too, each result's alone: the others' gradients are undefined then.
    Raises GradcheckError where they do not agree, unless `raise_exception` is False.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    values, positions = _checked(inputs)
    _check_inputs(values, positions)
    function, values = _of_reals(func, values, positions)
    checks = _Checks(
        rtol, atol, nondet_tol, check_grad_dtypes, check_batched_grad, check_batched_forward_grad, check_forward_ad,
        check_backward_ad,
    )  # fmt: skip
    for position in positions:
        differences = _numerical(function, values, position, eps)
        for number, (output, expected) in enumerate(zip(_outputs(function, values), differences, strict=False)):
            try:
                checks.of(output, values[position], expected, f"output {number} with respect to input {position}")
            except GradcheckError:
                if raise_exception:
                    raise
                return False
    return True


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True,
    nondet_tol: float = 0.0, check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
    check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
    fast_mode: bool = False, masked: bool = False,
) -> bool:  # fmt: skip
    """Whether the gradients of a function's gradients agree with finite differences; see `gradcheck`.

    `gen_non_contig_grad_outputs` makes gradients of results that are views of larger ones where none are given.
    """
    values, positions = _checked(inputs)
    function, values = _of_reals(func, values, positions)
    outputs = [o for o in _outputs(function, values) if o._requires_grad]
    if grad_outputs is None:
        generator = np.random.default_rng(0)
        drawn = [beside(new_tensor(generator.standard_normal((*o._data.shape, 2))), o)[..., 0] for o in outputs]
        seeds = [(d if gen_non_contig_grad_outputs else d.clone()).detach().requires_grad_() for d in drawn]
    else:
        given = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
        seeds = [view_as_real(g.detach()).requires_grad_() if g.dtype.is_complex else g for g in given]

    def gradient(*arguments: Any) -> Any:
        given, weights = arguments[: len(values)], arguments[len(values) :]
        results = [o for o in _outputs(function, given) if o._requires_grad]
        found = grad(results, [given[p] for p in positions], weights, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradient, [*values, *seeds], eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev,
    )  # fmt: skip
