"""Gradients that reach a tensor both through a jitted call and around it are added in the plain call's order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import eagerjit as torch

FUNCTIONS: dict[str, Callable] = {
    "one use": lambda w, x: (w * x).tanh().sum(),
    "two uses": lambda w, x: ((w * x).tanh() * w).sum(),
    "four uses": lambda w, x: (w * x).tanh() @ w + (w * w * x).sum(),
}
LOSSES: dict[str, Callable] = {
    "used before": lambda f, w, x, y: (w * y).sum() * 0.3 + f(w, x),
    "used after": lambda f, w, x, y: f(w, x) + (w / (y * y + 1.0)).exp().sum(),
    "used around": lambda f, w, x, y: (w * y).sum() + f(w, x) + (w - y).sigmoid().sum(),
    "argument with a history": lambda f, w, x, y: f(w * 1.5, y) + (w * y).sum() + f(w, x),
}


def gradient(loss: Callable, function: Callable, seed: int) -> np.ndarray:
    generator = torch.Generator().manual_seed(seed)
    w, x, y = (torch.randn(33, generator=generator) for _ in range(3))
    w.requires_grad_()
    loss(function, w, x, y).backward()
    return w.grad.numpy()


@pytest.mark.parametrize("around", LOSSES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sums_have_the_bits_of_the_plain_call(name: str, around: str) -> None:
    jitted = torch.jit(FUNCTIONS[name])
    for seed in range(12):
        expected = gradient(LOSSES[around], FUNCTIONS[name], seed)
        assert np.array_equal(gradient(LOSSES[around], jitted, seed), expected)
    assert jitted.cache_info().eager_calls == 0


def penalty(function: Callable, w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    inputs = x.detach().clone().requires_grad_()
    result = function(w, inputs)
    (gradient_,) = torch.autograd.grad(result, inputs, create_graph=True)
    return ((gradient_ * gradient_).sum() - 1.0) ** 2 + result


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_gradient_that_is_differentiated_has_the_bits_of_the_plain_call(name: str) -> None:
    jitted = torch.jit(FUNCTIONS[name])
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        w, x = (torch.randn(33, generator=generator) for _ in range(2))
        w.requires_grad_()
        found = []
        for function in (FUNCTIONS[name], jitted):
            w.grad = None
            penalty(function, w, x).backward()
            found.append(w.grad.numpy())
        assert np.array_equal(*found)
    assert jitted.cache_info().eager_calls == 0
