"""Derivatives of products and determinants where quotients have none: zeros, singular matrices, complex numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from oracle import same

import eagerjit as ej


def _walked(t: Any, function: Callable[[Any, Any], Any], values: Any, order: int, weights: Any) -> Any:
    """The gradient of an order, each one weighted and summed before the next."""
    x = t.tensor(values).requires_grad_()
    found = function(t, x)
    for _ in range(order):
        total = found.sum()
        (found,) = t.autograd.grad(total.real if total.is_complex() else total, x, create_graph=True)
        result, found = found, found * found * t.tensor(weights)
    return result.detach()


PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "prod": lambda t, x: x.prod(),
    "prod of a dimension": lambda t, x: t.prod(x, 0, keepdim=True) + x.prod(-1).sum(),
    "cumprod": lambda t, x: x.cumprod(-1),
}
ZEROS = [[2.0, 3.0, 4.0, 0.5], [0.0, 3.0, 4.0, 0.5], [2.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 2.0], [0.0] * 4]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("values", ZEROS, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_zeros(name: str, values: list[float], order: int) -> None:
    weights = np.linspace(0.5, 2.0, 4)
    ours, theirs = (_walked(t, PRODUCTS[name], np.array(values), order, weights) for t in (ej, torch))
    same(ours, theirs)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_zeros_in_less_precision(name: str, dtype: str) -> None:
    for values in ZEROS:
        found = []
        for t in (ej, torch):
            x = t.tensor(values, dtype=getattr(t, dtype), requires_grad=True)
            (first,) = t.autograd.grad(PRODUCTS[name](t, x).sum(), x, create_graph=True)
            (second,) = t.autograd.grad((first * first).sum(), x)
            found.append((first.detach().double().numpy(), second.double().numpy()))
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol={"float32": 1e-5, "float16": 1e-2, "bfloat16": 6e-2}[dtype])


def test_products_of_zeros_compiled() -> None:
    compiled = ej.jit(lambda x: ej.autograd.grad(ej.autograd.grad(x.prod(), x, create_graph=True)[0].prod(), x)[0])
    plain = compiled.__wrapped__
    for values in ZEROS:
        first, second = (ej.tensor(values, requires_grad=True) for _ in range(2))
        assert (compiled(first) == plain(second)).all()


MATRICES = {
    "regular": [[1.0, 2.0, -1.0], [0.5, -1.0, 2.0], [3.0, 1.0, 1.0]],
    "rank 2": [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 1.0, 1.0]],
    "complex": [[1.0 + 1j, 2.0, -1j], [0.5, 2j - 1.0, 2.0], [3.0, 1.0 - 1j, 1.0]],
    "several": [[[2.0, 1.0], [0.3, 1.0]], [[1.0, 2.0], [2.0, 4.0]]],
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", MATRICES)
def test_determinants(name: str, order: int) -> None:
    values = np.array(MATRICES[name])
    weights = np.linspace(0.5, 2.0, values.size).reshape(values.shape).astype(values.dtype)
    ours, theirs = (_walked(t, lambda t, x: t.linalg.det(x), values, order, weights) for t in (ej, torch))
    same(ours, theirs)


@pytest.mark.parametrize("name", ["regular", "complex"])
def test_third_derivatives_of_determinants(name: str) -> None:
    values = np.array(MATRICES[name])
    ours, theirs = (_walked(t, lambda t, x: t.linalg.det(x), values, 3, values) for t in (ej, torch))
    same(ours, theirs)


def test_second_derivatives_of_matrices_of_rank_one() -> None:
    """PyTorch's are not numbers here: those of a polynomial, d2 det / dA11 dA22 = A33."""
    x = ej.zeros(3, 3, dtype=ej.float64).index_put((ej.tensor([2]), ej.tensor([2])), ej.tensor([5.0]).double())
    x.requires_grad_()
    (gradient,) = ej.autograd.grad(ej.linalg.det(x), x, create_graph=True)
    (second,) = ej.autograd.grad(gradient[0, 0], x)
    np.testing.assert_allclose(second.numpy(), np.diag([0.0, 5.0, 0.0]), atol=1e-12)


def test_pinv_of_hermitian_matrices_has_the_gradient_of_all_elements() -> None:
    values, weights = np.array([[2.0, 0.5], [0.1, 3.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])
    both = (_walked(t, lambda t, x: t.linalg.pinv(x, hermitian=True) * t.tensor(weights), values, 1, 1.0)
            for t in (ej, torch))  # fmt: skip
    same(*both)


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient_with_equal_steps_is_walked_again(edge_order: int) -> None:
    def use(t: Any) -> Any:
        x = t.linspace(-1.0, 2.0, 9, dtype=t.float64).requires_grad_()
        slopes = t.gradient(x * x, spacing=0.3, edge_order=edge_order)[0]
        again = t.gradient(x, spacing=0.3, edge_order=edge_order)[0]
        (again * again).sum().backward()
        again.sum().backward()
        return slopes.detach(), x.grad

    same(use(ej), use(torch))
