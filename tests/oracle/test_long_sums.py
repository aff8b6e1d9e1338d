"""Sums of a million numbers of one sign, none of which may be much less exact than PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch as pytorch

import eagerjit as torch

ROWS = 1_000_000
NUMBERS = (1000 + np.random.default_rng(0).standard_normal((ROWS, 3))).astype(np.float32)
EXACT = NUMBERS.astype(np.float64)
SINGLE = 2.0**-22
"""Some roundings of float32."""


def bias_gradient(x: torch.Tensor) -> torch.Tensor:
    bias = torch.zeros(3, requires_grad=True)
    ((x + bias) * x).sum().backward()
    return bias.grad


def running_mean(x: torch.Tensor) -> torch.Tensor:
    mean, variance = torch.zeros(3), torch.zeros(3)
    torch.nn.functional.batch_norm(x, mean, variance, training=True, momentum=1.0)
    return mean


CASES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], np.ndarray]] = {
    "columns": (lambda x: x.sum(0), EXACT.sum(0)),
    "columns of a column": (lambda x: x[:, :1].contiguous().sum(0), EXACT[:, :1].sum(0)),
    "columns between": (lambda x: x.view(2, -1, 3).sum(1), EXACT.reshape(2, -1, 3).sum(1)),
    "columns across memory": (lambda x: x.t().contiguous().t().sum(0), EXACT.sum(0)),
    "rows": (lambda x: x.view(2, -1).sum(1), EXACT.reshape(2, -1).sum(1)),
    "all": (lambda x: x.sum(), EXACT.sum()),
    "mean": (lambda x: x.mean(0), EXACT.mean(0)),
    "var": (lambda x: x.var(0), EXACT.var(0, ddof=1)),
    "norm": (lambda x: x.norm(dim=0), np.sqrt((EXACT * EXACT).sum(0))),
    "logsumexp": (lambda x: (x - 1000).logsumexp(0), np.log(np.exp(EXACT - 1000).sum(0))),
    "gradient of a bias": (bias_gradient, EXACT.sum(0)),
    "batch norm": (running_mean, EXACT.mean(0)),
}


@pytest.mark.parametrize("name", CASES)
def test_float32(name: str) -> None:
    function, exact = CASES[name]
    x = torch.from_numpy(NUMBERS)
    result = function(x).numpy()
    assert np.abs(result / exact - 1).max() < SINGLE
    assert np.array_equal(torch.jit(function)(x).numpy(), result)


@pytest.mark.parametrize("dim", [0, 1, None], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_that_are_exact_have_an_exact_sum(dtype: str, dim: int | None) -> None:
    """The sums of parts have more digits than those of all have left for them, where each would be rounded down."""
    count = 1 << 24
    number = 1 + 2.0 ** (-15 if dtype == "float32" else -44)
    x = torch.tensor(number, dtype=getattr(torch, dtype)).expand((count, 2) if dim == 0 else (1, count))
    assert (x.sum(dim).numpy() == count * number).all()


SPECIAL: dict[str, Any] = {
    "infinity": {5: np.inf},
    "both infinities": {5: np.inf, 70_000: -np.inf},
    "NaN": {99_999: np.nan},
    "beyond all numbers": {k: 3e38 for k in range(0, 100_000, 9000)},
    "beyond, and back": {k: 3e38 if k < 50_000 else -3e38 for k in range(0, 100_000, 9000)},
    "the largest": {0: np.finfo(np.float32).max},
    "cancelled": {0: 1e30, 50_000: 0.0, 99_999: -1e30},
}


@pytest.mark.parametrize("dim", [0, 1, None], ids=str)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_numbers(name: str, dim: int | None) -> None:
    numbers = np.zeros((100_000, 2), np.float32)
    for row, number in SPECIAL[name].items():
        numbers[row, 1] = number
    numbers = numbers.T.copy() if dim == 1 else numbers
    found = torch.from_numpy(numbers).sum(dim).numpy()
    with np.errstate(all="ignore"):
        expected = numbers.astype(np.float64).sum(dim)
    if name.startswith("beyond"):
        assert not np.isfinite(found).all()
    else:
        assert np.array_equal(found, expected.astype(np.float32), equal_nan=True)
    if name != "beyond, and back":
        # PyTorch's lanes may meet both before either is beyond all numbers.
        assert np.array_equal(np.isfinite(found), np.isfinite(pytorch.from_numpy(numbers).sum(dim).numpy()))


@pytest.mark.parametrize("dim", [0, 1, None], ids=str)
@pytest.mark.parametrize("name", ["var", "std"])
def test_spreads_far_from_zero(name: str, dim: int | None) -> None:
    """A mean of 10^6 has a sixteenth as its last digit, and a sum of such numbers whole ones."""
    numbers = (1e6 + 1 + np.random.default_rng(0).standard_normal((10_000, 4))).astype(np.float32)
    numbers = numbers.T.copy() if dim == 1 else numbers
    function = lambda x: getattr(x, name)(dim)  # noqa: E731
    x = torch.from_numpy(numbers)
    found = function(x).numpy()
    expected = getattr(numbers.astype(np.float64), name)(dim, ddof=1)
    assert np.abs(found / expected - 1).max() < SINGLE
    assert np.array_equal(torch.jit(function)(x).numpy(), found)


@pytest.mark.parametrize("dim", [0, 1, None], ids=str)
def test_equal_numbers_have_no_spread(dim: int | None) -> None:
    x = torch.full((1000, 1000), 0.1)
    assert (x.var(dim) == 0).all()
    assert (x.std(dim) == 0).all()


@pytest.mark.parametrize("numbers", [[], [1.0], [1.0, np.inf], [np.nan, 1.0], [3e38, -3e38, 3e38]], ids=str)
def test_spreads_of_special_numbers(numbers: list[float]) -> None:
    found, expected = (t.tensor(numbers, dtype=t.float32).var() for t in (torch, pytorch))
    assert np.array_equal(found.numpy(), expected.numpy(), equal_nan=True)


def test_gradients_of_spreads() -> None:
    x = torch.randn(50, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: x.var(0), x)
    assert torch.autograd.gradgradcheck(lambda x: x.var(0), x)
