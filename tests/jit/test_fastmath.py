"""`jit(fastmath=True)`: products and sums are rounded once instead of twice, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerjit as torch


def residual(a: Any, b: Any, c: Any) -> Any:
    return a * b - c


def arguments(dtype: Any) -> tuple[Any, ...]:
    generator = np.random.default_rng(0)
    a, b = (torch.tensor(generator.standard_normal(1000)).to(dtype) for _ in range(2))
    return a, b, a * b


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_product_in_a_sum_is_not_rounded(dtype: Any) -> None:
    a, b, c = arguments(dtype)
    assert (residual(a, b, c) == 0).all() and (torch.jit(residual)(a, b, c) == 0).all()
    fast = torch.jit(residual, fastmath=True)
    found = fast(a, b, c)
    if dtype is torch.float32:
        exact = a.double() * b.double() - c.double()
        assert (found.double() == exact).all()
    assert (found != 0).any() and (found.abs() <= c.abs() * (1.2e-7 if dtype is torch.float32 else 2.3e-16)).all()
    (kernel,) = fast.explain(a, b, c).kernels
    assert "fmul contract" in kernel.source and " contract {" in kernel.ir
    assert "contract" not in torch.jit(residual).explain(a, b, c).kernels[0].source


def test_sums_of_products_are_close_and_gradients_too() -> None:
    def dot(x: Any, y: Any) -> Any:
        return (torch.sin(x) * y + x * 0.1).sum()

    results = []
    for call in (dot, torch.jit(dot, fastmath=True)):
        x, y = (torch.linspace(-2, 3, 10_000).requires_grad_() for _ in range(2))
        value = call(x, y)
        value.backward()
        results.append([t.detach().numpy() for t in (value, x.grad, y.grad)])
    for plain, fast in zip(*results, strict=True):
        np.testing.assert_allclose(fast, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("values", [(np.inf, 0.0, 1.0), (np.nan, 1.0, 1.0), (1.0, 2.0, np.inf), (np.inf, 1.0, np.inf)])
def test_nan_infinities_and_zeros_keep_their_meaning(values: tuple[float, ...]) -> None:
    tensors = [torch.tensor([v] * 40) for v in values]
    for function in (residual, lambda a, b, c: (a + c) - a, lambda a, b, c: a - a + b * 0.0, lambda a, b, c: -(a * b)):
        plain, fast = function(*tensors).numpy(), torch.jit(function, fastmath=True)(*tensors).numpy()
        np.testing.assert_array_equal(fast, plain)
        np.testing.assert_array_equal(np.signbit(fast[~np.isnan(fast)]), np.signbit(plain[~np.isnan(plain)]))


def test_elementary_functions_and_half_precision_stay_as_they_are() -> None:
    x = torch.linspace(-3, 3, 2000)
    for function in (torch.sin, torch.exp, torch.tanh, torch.log, lambda x: torch.pow(x.abs(), 1.7)):
        assert np.array_equal(torch.jit(function, fastmath=True)(x).numpy(), function(x).numpy(), equal_nan=True)
    half = arguments(torch.float16)
    assert torch.jit(residual, fastmath=True)(*half).tolist() == residual(*half).tolist()


def test_one_function_both_ways_in_one_cache() -> None:
    a, b, c = arguments(torch.float32)
    for _ in range(2):
        assert (torch.jit(residual)(a, b, c) == 0).all()
        assert (torch.jit(fastmath=True)(residual)(a, b, c) != 0).any()
