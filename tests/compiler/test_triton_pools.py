"""Gradients of maxima over windows on GPUs, where places look at the windows that see them: the bits of a scatter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerjit as ej
from eagerjit.compiled import gpu_kernels
from eagerjit.jit import jit

F = ej.nn.functional
RANDOM = np.random.default_rng(8)

CASES: dict[str, tuple[int, tuple[int, ...], tuple[Any, ...]]] = {
    "side by side": (2, (8, 8), (2,)),
    "side by side, with a rest": (2, (7, 9), (2,)),
    "rounded up": (2, (7, 9), (2, 2, 0, 1, True)),
    "overlapping": (2, (9, 7), (3, 2, 1)),
    "overlapping, rounded up": (2, (10, 8), (3, 2, 0, 1, True)),
    "at every place": (2, (6, 7), (5, 1, 2)),
    "different along dimensions": (2, (6, 5), ((3, 2), (1, 2), (1, 0))),
    "dilated": (2, (9, 9), (3, 2, 1, 2)),
    "with places between": (2, (7, 8), (2, 3, 1, 1, True)),
    "one dimension": (1, (11,), (3, 2, 1, 1, True)),
    "three dimensions": (3, (5, 4, 6), (2, 2, 1)),
    "seen by many": (2, (9, 9), (7, 1, 3)),
}


def with_gradients(rank: int, how: tuple[Any, ...]) -> Callable[[Any, Any], tuple[Any, ...]]:
    """A pool, its gradient for numbers given, and the gradient of that for them."""
    pool = getattr(F, f"max_pool{rank}d")

    def run(x: Any, w: Any) -> tuple[Any, ...]:
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = pool(x, *how)
        (gradient,) = ej.autograd.grad((y * w).sum(), x, create_graph=True)
        (second,) = ej.autograd.grad((gradient * gradient.detach()).sum(), w)
        return y, gradient, second

    return run


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_those_of_a_scatter(name: str, dtype: str) -> None:
    """Few different numbers, so that windows choose among equal ones, and NaNs, infinities and a zero of each sign."""
    rank, size, how = CASES[name]
    numbers = RANDOM.integers(-3, 4, (2, 3, *size)).astype(np.float32)
    numbers.reshape(-1)[[3, 50]] = np.nan, np.inf
    x = ej.tensor(numbers).to(getattr(ej, dtype))
    shape = getattr(F, f"max_pool{rank}d")(x, *how).shape
    w = ej.tensor(np.where(RANDOM.random(tuple(shape)) < 0.1, -0.0, RANDOM.normal(size=tuple(shape)))).to(x.dtype)
    run = with_gradients(rank, how)
    expected = run(x, w)
    with gpu_kernels.interpreted() as made:
        found = jit(run, fullgraph=True)(x, w)
    assert [a._data.tobytes() for a in found] == [a._data.tobytes() for a in expected]
    launched = [launch.source.name for m in made for launch in m.launched]
    assert any("scatter_add" in kernel for kernel in launched) == (name == "seen by many")


def test_windows_that_see_every_place_need_no_border() -> None:
    """For all sizes that they fill: others are a version of their own."""

    @jit(fullgraph=True)
    def call(x: Any) -> Any:
        return ej.func.grad(lambda x: (ej.nn.functional.max_pool2d(x, 2) ** 2).sum())(x)

    for sizes, bordered in (((8, 12), False), ((9, 12), True)):
        with gpu_kernels.interpreted() as made:
            results = [(n, call(ej.tensor(RANDOM.normal(size=(1, 2, n, n))).float())) for n in sizes]
        names = [launch.source.name for m in made for launch in m.launched]
        assert any("replace_block" in name for name in names) == bordered
        assert all((found != 0).sum().item() == 2 * (n // 2) ** 2 for n, found in results)
