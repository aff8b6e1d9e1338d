"""Gradients of gradients through checkpoints within checkpoints, as PyTorch's without any."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import eagerjit as ej

WEIGHTS = [torch.sin(torch.arange(9.0) * (i + 1)).reshape(3, 3).tolist() for i in range(4)]


def derivatives(library: Any, checkpoint: Any, order: int, jitted: bool = False) -> list[Any]:
    ws = [library.tensor(w, requires_grad=True) for w in WEIGHTS]

    def inner(a: Any) -> Any:
        return (a @ ws[1]).tanh() @ ws[2]

    def outer(a: Any) -> Any:
        y = (a @ ws[0]).sin()
        y = y * y
        return (checkpoint(inner, y) * y) @ ws[3]

    def loss(x: Any) -> Any:
        return checkpoint(outer, x).square().mean()

    x = library.ones(2, 3).requires_grad_()
    found = [(ej.jit(loss) if jitted else loss)(x)]
    for _ in range(order):
        found = list(library.autograd.grad(sum(t.square().sum() for t in found), [x, *ws], create_graph=True))
    return found


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_of_any_order(order: int, jitted: bool) -> None:
    def through(function: Any, argument: Any) -> Any:
        return ej.utils.checkpoint.checkpoint(function, argument, use_reentrant=False)

    def plain(function: Any, argument: Any) -> Any:
        return function(argument)

    found = derivatives(ej, through, order, jitted)
    expected = derivatives(torch, plain, order)
    without = derivatives(ej, plain, order)
    for g, e, w in zip(found, expected, without, strict=True):
        torch.testing.assert_close(torch.tensor(g.tolist()), e.detach(), rtol=1e-4, atol=1e-5)
        assert g.equal(w)


@pytest.mark.parametrize("jitted", [False, True])
def test_derivatives_of_tangents_through_lists_of_indices(jitted: bool) -> None:
    scale = ej.tensor([[1.0, 2.0, 3.0]], requires_grad=True)

    def part(x: Any) -> Any:
        return (x[:, [2, 0, 1]] * scale).sin()

    def gradient(function: Any) -> Any:
        def step(x: Any) -> None:
            value, tangent = ej.func.jvp(lambda x: function(x.sort(-1)[0]).norm(), (x,), (ej.ones_like(x),))
            (value + tangent.square()).backward()

        scale.grad = None
        (ej.jit(step) if jitted else step)(ej.arange(6.0).reshape(2, 3) + 1)
        return scale.grad

    expected = gradient(part)
    assert gradient(lambda x: ej.utils.checkpoint.checkpoint(part, x, use_reentrant=False)).equal(expected)


@pytest.mark.parametrize("transform", ["jacfwd", "jacrev", "hessian"])
def test_derivatives_of_jacobians(transform: str) -> None:
    scale = ej.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def inner(x: Any) -> Any:
        return (x.prod(-1, keepdim=True) + x).sin() * scale

    def gradient(checkpoint: Any) -> Any:
        def function(x: Any) -> Any:
            found = checkpoint(lambda x: checkpoint(inner, x) * x, x)
            return found.sum() if transform == "hessian" else found

        scale.grad = None
        getattr(ej.func, transform)(function)(ej.arange(3.0) / 9 + 0.1).square().sum().backward()
        return scale.grad

    expected = gradient(lambda function, x: function(x))
    found = gradient(lambda function, x: ej.utils.checkpoint.checkpoint(function, x, use_reentrant=False))
    assert found.equal(expected)
