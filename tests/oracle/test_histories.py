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
    "copied edges": lambda t, x: t.nn.functional.pad(x, (1, 1), mode="replicate"),
    "around": lambda t, x: t.nn.functional.pad(x, (1, 1), mode="circular"),
    "average": lambda t, x: t.nn.functional.avg_pool1d(x[None], 2),
    "interpolated": lambda t, x: t.nn.functional.interpolate(x[None], scale_factor=2),
    "softshrink": lambda t, x: t.nn.functional.softshrink(x),
    "area": lambda t, x: t.nn.functional.interpolate(x[None], size=2, mode="area"),
    "hardshrink": lambda t, x: t.nn.functional.hardshrink(x),
    "adaptive": lambda t, x: t.nn.functional.adaptive_avg_pool1d(x[None], 2),
    "adaptive uneven": lambda t, x: t.nn.functional.adaptive_avg_pool1d(x[None], 3),
    "global": lambda t, x: t.nn.functional.adaptive_avg_pool1d(x[None], 1),
    "adaptive max": lambda t, x: t.nn.functional.adaptive_max_pool1d(x[None], 2),
    "maxima of windows": lambda t, x: t.nn.functional.max_pool1d(x[None], 2),
    "maxima and places": lambda t, x: t.nn.functional.max_pool1d(x[None], 2, return_indices=True)[0],
    "relu": lambda t, x: (x - 3).relu(),
    "relu in place": lambda t, x: (x - 3).relu_(),
    "relu6": lambda t, x: t.nn.functional.relu6(x),
    "leaky relu": lambda t, x: t.nn.functional.leaky_relu(x - 3, 0.25),
    "hardtanh": lambda t, x: t.nn.functional.hardtanh(x, 2.0, 5.0),
    "threshold": lambda t, x: t.nn.functional.threshold(x, 2.5, 1.0),
    "rrelu": lambda t, x: t.nn.functional.rrelu(x - 3),
    "negative likelihood": lambda t, x: t.nn.functional.nll_loss(x, t.tensor([0, 1, 3])),
    "abs": lambda t, x: x.abs(),
    "absolute error": lambda t, x: t.nn.functional.l1_loss(x, t.ones(3, 4)),
    "clamp": lambda t, x: x.clamp(2, 5),
    "maximum": lambda t, x: t.maximum(x, t.ones(3, 4) * 3),
    "nearest of a grid": lambda t, x: t.nn.functional.grid_sample(
        t.ones(1, 1, 3, 3), x.view(1, 3, 2, 2) / 12, mode="nearest", align_corners=True
    ),
    "floor": lambda t, x: (x / 3).floor(),
    "margin of ranks": lambda t, x: t.nn.functional.margin_ranking_loss(x, t.ones(3, 4) * 2, -t.ones(3, 4)),
}


def found(t: Any, function: Function, inner: Callable[..., Any], outer: Callable[..., Any]) -> tuple[bool, Any, Any]:
    """Whether the gradient of a function, which may be jitted with it or without, has a gradient, and both."""
    x = (t.arange(12.0).reshape(3, 4) + 1).requires_grad_()

    def gradient(x: Any) -> Any:
        return t.autograd.grad(inner(lambda x: function(t, x))(x).sum(), x, create_graph=True)[0]

    g = outer(gradient)(x)
    (h,) = t.autograd.grad(g.sum(), x, allow_unused=True) if g.requires_grad else (None,)
    return g.requires_grad, g.tolist(), None if h is None else (h + 0).tolist()


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


@pytest.mark.parametrize("name", AS_IN_PYTORCH | PIECEWISE)
def test_gradients_have_gradients_alike(name: str) -> None:
    function = (AS_IN_PYTORCH | PIECEWISE)[name]
    eager = found(ej, function, plain, plain)
    assert found(ej, function, ej.jit, plain) == eager
    assert found(ej, function, plain, ej.jit) == eager
    requires, values, second = found(torch, function, plain, plain)
    np.testing.assert_allclose(eager[1], values, rtol=1e-5, atol=1e-6)
    assert requires == eager[0]
    assert (second is None) == (eager[2] is None)
    if second is not None:
        np.testing.assert_allclose(eager[2], second, rtol=1e-4, atol=1e-5)


TOGETHER: dict[str, tuple[Function, tuple[int, ...]]] = {
    "convolution": (lambda t, x, w, b: t.nn.functional.conv1d(x[None], w, b), (2, 3, 3)),
    "a kernel per channel": (lambda t, x, w, b: t.nn.functional.conv1d(x[None], w, b, groups=3), (3, 1, 3)),
    "transposed": (lambda t, x, w, b: t.nn.functional.conv_transpose1d(x[None], w, b), (3, 2, 3)),
    "layer norm": (lambda t, x, w, b: t.nn.functional.layer_norm(x, (4,), w, b), (4,)),
    "batch norm": (lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, True), (4,)),
    "known": (lambda t, x, w, b: t.nn.functional.batch_norm(x, t.zeros(4), t.ones(4), w, b), (4,)),
    "instance norm": (lambda t, x, w, b: t.nn.functional.instance_norm(x[None], weight=w, bias=b), (3,)),
    "group norm": (lambda t, x, w, b: t.nn.functional.group_norm(x[None], 3, w, b), (3,)),
    "linear": (lambda t, x, w, b: t.nn.functional.linear(x, w, b), (2, 4)),
}  # fmt: skip


@pytest.mark.parametrize("inputs", [True, False])
@pytest.mark.parametrize("name", TOGETHER)
def test_gradients_that_are_made_together_have_histories_together(name: str, inputs: bool) -> None:
    function, shape = TOGETHER[name]

    def histories(t: Any, inner: Callable[..., Any], outer: Callable[..., Any]) -> list[bool]:
        x, w = (t.arange(12.0).reshape(3, 4) + 1).requires_grad_(inputs), t.ones(shape, requires_grad=inputs)
        b = t.ones(2 if name in ("convolution", "transposed", "linear") else shape[0], requires_grad=True)

        def gradients(x: Any, w: Any, b: Any) -> Any:
            loss = inner(lambda *tensors: function(t, *tensors))(x, w, b).sum()
            return t.autograd.grad(loss, [v for v in (x, w, b) if v.requires_grad], create_graph=True)

        found = outer(gradients)(x, w, b)
        for g in found:
            if g.requires_grad:
                g.sum().backward(retain_graph=True)
        return [g.requires_grad for g in found]

    expected = histories(torch, plain, plain)
    assert histories(ej, plain, plain) == expected
    assert histories(ej, ej.jit, plain) == expected
    assert histories(ej, plain, ej.jit) == expected


def test_gradients_that_depend_on_one_of_several_arguments() -> None:
    x, y = ej.ones(3, requires_grad=True), ej.ones(3, requires_grad=True)
    loss = ej.nn.functional.mse_loss(x, y * 2.0, reduction="sum")
    (g,) = ej.autograd.grad(loss, x, create_graph=True)
    assert g.requires_grad
    (h,) = ej.autograd.grad(g.sum(), y)
    assert h.tolist() == [-4.0] * 3


OF_THREE: dict[str, Callable[..., Any]] = {
    "addcmul": lambda t, a, b, c: t.addcmul(a, b, c),
    "addcdiv": lambda t, a, b, c: t.addcdiv(a, b, c),
    "addmm": lambda t, a, b, c: t.addmm(a, b, c),
    "lerp": lambda t, a, b, c: t.lerp(a, b, c),
    "divergence": lambda t, a, b, c: t.nn.functional.kl_div(a, b, reduction="sum") + c,
    "einsum": lambda t, a, b, c: t.einsum("ij,jk,kl->il", a, b, c),
    "squared error": lambda t, a, b, c: t.nn.functional.mse_loss(a, b) * c,
}


@pytest.mark.parametrize("name", OF_THREE)
def test_gradients_of_gradients_for_what_these_do_not_depend_on(name: str) -> None:
    """Each gradient's gradient for every argument: none where it does not depend on it, whatever others do."""

    def seconds(t: Any, inner: Callable[..., Any], outer: Callable[..., Any]) -> list[Any]:
        tensors = [(t.arange(4.0).reshape(2, 2) + k).requires_grad_() for k in (1, 2, 3)]

        def gradients(*tensors: Any) -> Any:
            loss = inner(lambda *tensors: OF_THREE[name](t, *tensors))(*tensors).sum()
            return t.autograd.grad(loss, tensors, create_graph=True)

        found = [g.sum() for g in outer(gradients)(*tensors) if g.requires_grad]
        again = [t.autograd.grad(g, tensors, retain_graph=True, allow_unused=True) for g in found]
        return [[None if h is None else h.tolist() for h in hs] for hs in again]

    eager = seconds(ej, plain, plain)
    assert seconds(ej, ej.jit, plain) == eager
    assert seconds(ej, plain, ej.jit) == eager
    for ours, theirs in zip(eager, seconds(torch, plain, plain), strict=True):
        assert [h is None for h in ours] == [h is None for h in theirs]
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a or 0.0, b or 0.0, rtol=1e-5)


def test_a_gradient_that_came_in_with_a_history_goes_on() -> None:
    x, given = ej.ones(2, 3, requires_grad=True), ej.ones(2, 5, requires_grad=True)
    padded = ej.nn.functional.pad(x, (1, 1))
    (g,) = ej.autograd.grad(padded, x, given, create_graph=True)
    assert g.requires_grad
    assert ej.autograd.grad(g.sum(), given)[0].tolist() == [[0.0, 1.0, 1.0, 1.0, 0.0]] * 2


def test_other_numbers_are_not_looked_at_anew() -> None:
    from eagerjit.calling.dispatch import Op

    x, made = ej.ones(3, requires_grad=True), ej.addcmul(ej.ones(3), ej.ones(3, requires_grad=True), ej.ones(3))
    op = made.grad_fn.op
    assert isinstance(op, Op)
    known = dict(op.__dict__.get("gradients_depend", {}))
    for i in range(20):
        ej.autograd.grad(ej.addcmul(x, x, x, value=2.0 + i).sum(), x, create_graph=True)
    assert len(op.__dict__["gradients_depend"].keys() - known.keys()) <= 1


LEAVES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda t, a, b: (a + b).sum(),
    "turned": lambda t, a, b: (a.t() ** 2).sum() + b.sum(),
    "reshaped": lambda t, a, b: ((a + b).reshape(12) ** 2).sum(),
    "one more dimension": lambda t, a, b: ((a[None] + b) ** 3).sum(),
    "row": lambda t, a, b: (a[1] ** 2 * b[1]).sum(),
}


def leaves_after(t: Any, name: str, jitted: str) -> list[Any]:
    """What the gradients with histories that a walk leaves are, and become when a program writes to them."""
    a, b = ((t.arange(12.0).reshape(3, 4) + k).requires_grad_() for k in (1, 2))

    def loss(a: Any, b: Any) -> Any:
        return LEAVES[name](t, a, b)

    inner = ej.jit(loss, fullgraph=True) if jitted == "loss" else loss

    def step(a: Any, b: Any) -> None:
        inner(a, b).backward(create_graph=True)

    (ej.jit(step, fullgraph=True) if jitted == "step" else step)(a, b)
    found = [(g.requires_grad, g._is_view(), g.stride(), g.tolist()) for g in (a.grad, b.grad)]
    a.grad.detach_().mul_(2)
    return [*found, a.grad.tolist(), b.grad.tolist(), a.tolist()]


@pytest.mark.parametrize("jitted", ["nothing", "loss", "step"])
@pytest.mark.parametrize("name", LEAVES)
def test_gradients_with_histories_have_memory_of_their_own(name: str, jitted: str) -> None:
    for _ in range(2):
        assert leaves_after(ej, name, jitted) == leaves_after(torch, name, "nothing")


@pytest.mark.parametrize("inner", [plain, ej.jit])
def test_gradients_of_gradients_that_a_walk_has_left(inner: Callable[..., Any]) -> None:
    results = []
    for t, wrap in ((ej, inner), (torch, plain)):
        x = (t.arange(12.0).reshape(3, 4) + 1).requires_grad_()
        wrap(lambda x: (x.t()[None] ** 3).sum())(x).backward(create_graph=True)
        first = x.grad
        x.grad = None
        (first * first).sum().backward()
        results.append((first.tolist(), x.grad.tolist()))
    assert results[0] == results[1]
