"""Whether gradients have gradients: eager as jitted, and as in PyTorch where nothing depends on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej

Function = Callable[[Any, Any], Any]
AS_IN_PYTORCH: dict[str, Function] = {
    "addcmul": lambda t, x: t.addcmul(t.ones(3, 4), x, t.ones(3, 4)),
    "pad": lambda t, x: t.nn.functional.pad(x, (1, 1)),
    "hinge": lambda t, x: t.nn.functional.hinge_embedding_loss(x, t.ones(3, 4)),
    "kl": lambda t, x: t.nn.functional.kl_div(x, t.ones(3, 4), reduction="sum"),
    "margin": lambda t, x: t.nn.functional.margin_ranking_loss(x, t.ones(3, 4), t.ones(3, 4)),
    "einsum": lambda t, x: t.einsum("ij,jk->ik", x, t.ones(4, 2)),
    "huber": lambda t, x: t.nn.functional.huber_loss(x, t.ones(3, 4)),
    "mse": lambda t, x: t.nn.functional.mse_loss(x, t.ones(3, 4)),
    "var": lambda t, x: x.var(0),
    "std": lambda t, x: x.std(),
    "cat": lambda t, x: t.cat([x, x]),
    "layer norm": lambda t, x: t.nn.functional.layer_norm(x, (4,)),
    "weighted": lambda t, x: t.einsum("ij,kj->ik", x, x),
}  # fmt: skip
PIECEWISE: dict[str, Function] = {
    "prelu": lambda t, x: t.nn.functional.prelu(x, t.ones(1)),
    "reflected": lambda t, x: t.nn.functional.pad(x, (1, 1), mode="reflect"),
    "average": lambda t, x: t.nn.functional.avg_pool1d(x[None], 2),
    "interpolated": lambda t, x: t.nn.functional.interpolate(x[None], scale_factor=2),
    "softshrink": lambda t, x: t.nn.functional.softshrink(x),
    "adaptive": lambda t, x: t.nn.functional.adaptive_avg_pool1d(x[None], 2),
}


def found(t: Any, function: Function, inner: Callable[..., Any], outer: Callable[..., Any]) -> tuple[bool, Any]:
    """Whether the gradient of a function, which may be jitted with it or without, has a gradient, and the gradient."""
    x = (t.arange(12.0).reshape(3, 4) + 1).requires_grad_()

    def gradient(x: Any) -> Any:
        return t.autograd.grad(inner(lambda x: function(t, x))(x).sum(), x, create_graph=True)[0]

    g = outer(gradient)(x)
    return g.requires_grad, g.tolist()


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


@pytest.mark.parametrize("name", AS_IN_PYTORCH | PIECEWISE)
def test_gradients_have_gradients_alike(name: str) -> None:
    function = (AS_IN_PYTORCH | PIECEWISE)[name]
    eager = found(ej, function, plain, plain)
    assert found(ej, function, ej.jit, plain) == eager
    assert found(ej, function, plain, ej.jit) == eager
    requires, values = found(torch, function, plain, plain)
    np.testing.assert_allclose(eager[1], values, rtol=1e-5, atol=1e-6)
    if name in AS_IN_PYTORCH:  # through the others PyTorch goes on, with zeros
        assert requires == eager[0]


def test_gradients_that_depend_on_one_of_several_arguments() -> None:
    x, y = ej.ones(3, requires_grad=True), ej.ones(3, requires_grad=True)
    loss = ej.nn.functional.mse_loss(x, y * 2.0, reduction="sum")
    (g,) = ej.autograd.grad(loss, x, create_graph=True)
    assert g.requires_grad
    (h,) = ej.autograd.grad(g.sum(), y)
    assert h.tolist() == [-4.0] * 3


def test_a_gradient_that_came_in_with_a_history_goes_on() -> None:
    x, given = ej.ones(2, 3, requires_grad=True), ej.ones(2, 5, requires_grad=True)
    padded = ej.nn.functional.pad(x, (1, 1))
    (g,) = ej.autograd.grad(padded, x, given, create_graph=True)
    assert g.requires_grad
    assert ej.autograd.grad(g.sum(), given)[0].tolist() == [[0.0, 1.0, 1.0, 1.0, 0.0]] * 2


def test_other_numbers_are_not_looked_at_anew() -> None:
    from eagerjit.dispatch import Op

    x, made = ej.ones(3, requires_grad=True), ej.addcmul(ej.ones(3), ej.ones(3, requires_grad=True), ej.ones(3))
    op = made.grad_fn.op
    assert isinstance(op, Op)
    known = dict(op.__dict__.get("gradients_depend", {}))
    for i in range(20):
        ej.autograd.grad(ej.addcmul(x, x, x, value=2.0 + i).sum(), x, create_graph=True)
    assert len(op.__dict__["gradients_depend"].keys() - known.keys()) <= 1
