"""Half-precision tensors times and over numbers: a number is taken as it is, not rounded to a half first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "x * n": lambda t, x: x * 0.1,
    "n * x": lambda t, x: 0.1 * x,
    "x / n": lambda t, x: x / 3.3,
    "x // n": lambda t, x: x // 0.3,
    "x *= n": lambda t, x: x.clone().mul_(0.1),
    "x /= n": lambda t, x: x.clone().div_(0.7),
    "int": lambda t, x: x * 1001,
    "0-d": lambda t, x: x * t.tensor(0.1),
    "0-d double": lambda t, x: x / t.tensor(0.1, dtype=t.float64),
    "0-d int": lambda t, x: x * t.tensor(1001),
    "0-d half": lambda t, x: x * t.tensor(0.1, dtype=x.dtype),
    "0-d first": lambda t, x: t.tensor(0.1) * x,
    "0-d double first": lambda t, x: t.tensor(0.1, dtype=t.float64) / x,
    "0-d int first": lambda t, x: t.tensor(70001) * x,
    "n // x": lambda t, x: 0.3 // x,
    "both 0-d": lambda t, x: x[5] * 0.1,
    "large": lambda t, x: x * 0.001 * 1e6,
    "empty": lambda t, x: x[:0] * 0.1,
    "strided": lambda t, x: x.view(100, 10).t()[::2] * 0.1,
    "add": lambda t, x: x + 0.1,
    # Where no vector is full, PyTorch rounds otherwise.
    "x + a * y": lambda t, x: t.add(x[:992], x[:992].flip(0), alpha=0.3),
    "x - a * y": lambda t, x: x[:992].sub(x[:992].flip(0), alpha=3.3),
    "x += a * y": lambda t, x: x[:992].clone().add_(x[:992].flip(0), alpha=0.3).sub_(0.3, alpha=7),
    "n + a * x": lambda t, x: t.add(x[0], x[:992], alpha=0.7),
    "n / x": lambda t, x: 0.1 / x,
    "int / x": lambda t, x: 3 / x,
    "x / n towards 0": lambda t, x: t.div(x * 100, 0.3, rounding_mode="trunc"),
    "x / 0-d towards 0": lambda t, x: t.div(x * 100, t.tensor(0.3, dtype=x.dtype), rounding_mode="trunc"),
    "x / y towards 0": lambda t, x: t.div(x * 100, x.flip(0), rounding_mode="trunc"),
    "x // y": lambda t, x: (x * 300) // x.flip(0),
    "int // x": lambda t, x: 50000 // x,
    "softsign": lambda t, x: t.nn.functional.softsign(x),
    "tanhshrink": lambda t, x: t.nn.functional.tanhshrink(x),
    "threshold": lambda t, x: t.nn.functional.threshold(x, 0.3, 0.7),
    "threshold of its own": lambda t, x: t.nn.functional.threshold(x, float(t.tensor(0.3, dtype=x.dtype)) - 1e-6, 0.7),
    "decimals": lambda t, x: x.round(decimals=2),
    "x log y": lambda t, x: t.xlogy(x, x.flip(0).abs()),
    "x log n": lambda t, x: t.xlogy(x, 7.3),
    "cube": lambda t, x: x**3,
    "x**-2": lambda t, x: x**-2,
    "compared": lambda t, x: x * 0.1 < 0.3,
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_as_in_pytorch(name: str, dtype: str) -> None:
    values = (np.random.default_rng(0).standard_normal(1000) * 3).astype(np.float32)
    theirs = torch.tensor(values).to(getattr(torch, dtype))
    ours = ej.tensor(theirs.float().numpy()).to(getattr(ej, dtype))
    expected = CALLS[name](torch, theirs)
    for jit in (lambda f: f, ej.jit):
        found = jit(lambda x: CALLS[name](ej, x))(ours)
        assert str(found.dtype).split(".")[-1] == str(expected.dtype).split(".")[-1]
        np.testing.assert_array_equal(found.float().numpy(), expected.float().numpy())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_as_in_pytorch(dtype: str) -> None:
    found = []
    for t in (torch, ej):
        x = (t.arange(64.0) / 7).to(getattr(t, dtype)).requires_grad_()
        (x * 0.1 / 0.3).backward((t.arange(64.0) / 3).to(getattr(t, dtype)))
        found.append(x.grad.float().numpy())
    np.testing.assert_array_equal(*found)


WEIGHTED: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "addmm": lambda t, c, a, b: t.addmm(c, a, b, beta=-2.3, alpha=1.7),
    "baddbmm": lambda t, c, a, b: t.baddbmm(c[None], a[None], b[None], beta=-2.3, alpha=1.7)[0],
    "addmv": lambda t, c, a, b: t.addmv(c[0], a, b[:, 0], beta=-2.3, alpha=1.7),
    "addr": lambda t, c, a, b: t.addr(c, a[:, 0], b[0], beta=-2.3, alpha=1.7),
    "addmm_": lambda t, c, a, b: c.clone().addmm_(a, b, beta=-2.3, alpha=1.7),
}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", WEIGHTED)
def test_weighted_products_round_the_product_and_the_sum(name: str, dtype: str, jitted: bool) -> None:
    """The rounding of the product, times alpha, and that of the sum: none of beta's and alpha's products."""
    rng = np.random.default_rng(0)
    given = [ej.tensor(rng.normal(size=size)).to(getattr(ej, dtype)) for size in ((24, 24), (24, 24), (24, 24))]

    def call(c: Any, a: Any, b: Any) -> Any:
        return WEIGHTED[name](ej, c, a, b)

    def product(c: Any, a: Any, b: Any) -> Any:
        return call(c * 0, a, b)

    found = (ej.jit(call) if jitted else call)(*given)
    assert found.dtype is given[0].dtype
    exact, product_of = call(*(x.double() for x in given)), product(*(x.double() for x in given))
    allowed = (exact.abs() + product_of.abs()) * ej.finfo(found.dtype).eps / 2
    assert bool(((found.double() - exact).abs() <= allowed * 1.05 + 1e-6).all())
