"""Steps of optimizers along sparse gradients: of the rows alone that these have."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.dispatch import Op
from eagerjit.sparse.conversion import coalesce, flat
from eagerjit.sparse.tensor import SparseTensor
from eagerjit.tensors.tensor import Tensor


def split(gradients: list[Tensor]) -> tuple[list[int], list[int]]:
    """The numbers of the dense gradients and of the sparse ones."""
    sparse = [i for i, g in enumerate(gradients) if isinstance(g, SparseTensor)]
    return [i for i in range(len(gradients)) if i not in sparse], sparse


def rows_of(tensor: Tensor, gradient: SparseTensor) -> tuple[Tensor, Tensor]:
    """A view of a tensor with one dimension for all sparse ones, and the places of the gradient's values there."""
    pattern = gradient._pattern
    if len(pattern.sizes) == 1:
        return tensor, pattern.checked()[0]
    shape = (math.prod(pattern.sizes), *tensor.shape[len(pattern.sizes) :])
    return tensor.view(shape), flat(pattern.checked(), pattern.sizes)


def add(tensor: Tensor, gradient: SparseTensor, values: Tensor) -> None:
    """Add values at the places of a gradient to a tensor, in place."""
    rows, places = rows_of(tensor, gradient)
    rows.index_add_(0, places, values)


def descend(parameter: Tensor, gradient: SparseTensor, lr: float, maximize: bool) -> None:
    """A step of plain gradient descent."""
    add(parameter, gradient, gradient._entries * (lr if maximize else -lr))


def _adagrad(values: Tensor, sums: Tensor, lr: Any, eps: Any) -> Tensor:
    """By how much the values change, for sums of squares that these are part of."""
    return values / (sums.sqrt() + eps) * -lr


_adagrad_op = Op("sparse_adagrad", _adagrad, numbers=("lr", "eps"), differentiable=False)


def adagrad(
    parameter: Tensor, gradient: SparseTensor, sums: Tensor, lr: float, lr_decay: float, eps: float, maximize: bool,
    step: float,
) -> None:  # fmt: skip
    """A step of Adagrad, whose number is `step`."""
    gradient = coalesce(gradient)
    values = -gradient._entries if maximize else gradient._entries
    add(sums, gradient, values * values)
    rows, places = rows_of(sums, gradient)
    rate = lr / (1 + (step - 1) * lr_decay)
    add(parameter, gradient, _adagrad_op.call(values, rows[places], float(rate), float(eps)))


def _adam(
    values: Tensor, average: Tensor, square: Tensor, beta1: Any, beta2: Any, step_size: Any, eps: Any
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """By how much both averages and the parameter change."""
    first = (values - average) * (1 - beta1)
    second = (values * values - square) * (1 - beta2)
    return first, second, (first + average) / ((second + square).sqrt() + eps) * -step_size


_adam_op = Op("sparse_adam", _adam, numbers=("beta1", "beta2", "step_size", "eps"), differentiable=False)


def adam(
    parameter: Tensor, gradient: SparseTensor, average: Tensor, square: Tensor, betas: tuple[float, float], lr: float,
    eps: float, maximize: bool, step: int,
) -> None:  # fmt: skip
    """A step of Adam for the rows of the gradient alone."""
    gradient = coalesce(gradient)
    values = -gradient._entries if maximize else gradient._entries
    if not values.numel():
        return
    step_size = lr * (1 - betas[1] ** step) ** 0.5 / (1 - betas[0] ** step)
    (averages, places), (squares, _), (rows, _) = (rows_of(t, gradient) for t in (average, square, parameter))
    numbers = (*map(float, betas), float(step_size), float(eps))
    changes = _adam_op.call(values, averages[places], squares[places], *numbers)
    for tensor, change in zip((averages, squares, rows), changes, strict=True):
        tensor.index_add_(0, places, change)
