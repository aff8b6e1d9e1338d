"""The 1 that a walk backwards starts with may be written by who gets it: what it is in the next walk is not theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit as ej


def doubling(t: Any) -> Any:
    class Doubling(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            g *= 2
            return g

    return Doubling.apply


def written_result(t: Any, x: Any) -> Any:
    (g,) = t.autograd.grad(x.sum(), x)
    g.mul_(7)
    return g


def written_by_hook(t: Any, x: Any) -> Any:
    loss = (x * x).sum()
    loss.register_hook(lambda g: g.mul_(3) and None)
    return t.autograd.grad(loss, x)[0]


def written_by_function(t: Any, x: Any) -> Any:
    return t.autograd.grad(doubling(t)(x.sum()), x)[0]


def written_gradient(t: Any, x: Any) -> Any:
    x.grad = None
    x.sum().backward()
    x.grad.zero_()
    x.sum().backward()
    return x.grad


def written_gradient_of_inside(t: Any, x: Any) -> Any:
    loss = x.sum()
    loss.retain_grad()
    loss.backward()
    loss.grad.mul_(5)
    return loss.grad


WRITING = (written_result, written_by_hook, written_by_function, written_gradient, written_gradient_of_inside)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("function", WRITING)
def test_what_writes_the_first_gradient_leaves_the_next_walk_alone(
    function: Callable[[Any, Any], Any], shape: tuple[int, ...]
) -> None:
    def found(t: Any) -> list[Any]:
        x = t.full(shape, 3.0, requires_grad=True)
        return [function(t, x).tolist() for _ in range(3)] + [t.autograd.grad(x.sum(), x)[0].tolist()]

    assert found(ej) == found(torch)
