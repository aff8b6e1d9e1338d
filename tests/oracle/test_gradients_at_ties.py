"""Gradients where functions have corners, poles or several equal extremes: what PyTorch gives."""

import pytest
import torch

import eagerjit

CALLS = {
    "median": lambda t, x: x.median(),
    "nanmedian": lambda t, x: x.nanmedian(),
    "median of NaN": lambda t, x: (x / (x - x)).median(),
    "median of integers": lambda t, x: x.median() + x.long().median(),
    "relu of NaN": lambda t, x: (x / x).relu() + x.sqrt().relu(),
    "max": lambda t, x: x.max(),
    "amin": lambda t, x: x.amin(),
    "atan2 at the origin": lambda t, x: t.atan2(x, x * 0.0),
    "logit": lambda t, x: t.logit(x / 10),
    "logit kept away from its poles": lambda t, x: t.logit(x / 10, 0.2),
    "logit outside": lambda t, x: t.logit(x),
    "entr": lambda t, x: t.special.entr(x),
    "infinity norm": lambda t, x: x.norm(float("inf")),
    "multi margin": lambda t, x: t.nn.functional.multi_margin_loss(x[None], t.tensor([2]), margin=5.0),
    "multilabel margin": lambda t, x: t.nn.functional.multilabel_margin_loss(
        x, t.tensor([1, 2, -1, 0, 0, 0]), reduction="sum"
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("jitted", [False, True])
def test_gradient(name, jitted):
    def gradient(t, call):
        x = t.tensor([0.0, 1.0, 5.0, 5.0, 10.0, 10.0], requires_grad=True)
        call(x).sum().backward()
        return x.grad

    call = CALLS[name]
    function = lambda x: call(eagerjit, x)  # noqa: E731
    found = gradient(eagerjit, eagerjit.jit(function) if jitted else function)
    expected = gradient(torch, lambda x: call(torch, x))
    torch.testing.assert_close(torch.tensor(found.tolist()), expected, equal_nan=True)


TWICE = {
    "prod": lambda t, x: x.prod(),
    "prod of rows": lambda t, x: x.reshape(2, 3).prod(1),
    "cumprod": lambda t, x: x.cumprod(0),
    "elu": lambda t, x: t.nn.functional.elu(x, 0.7),
    "selu": lambda t, x: t.selu(x),
    "celu": lambda t, x: t.nn.functional.celu(x, 0.7),
    "i0e": lambda t, x: t.special.i0e(x),
    "i1": lambda t, x: t.special.i1(x),
    "i1e": lambda t, x: t.special.i1e(x),
    "norm": lambda t, x: (x * 0.0).norm(3),
    "xlogy": lambda t, x: t.xlogy(x, x.flip(0) ** 2 + 2.0),
    "logaddexp": lambda t, x: t.logaddexp(x, x.flip(0)) + t.logaddexp(x, t.zeros_like(x)),
    "logaddexp2": lambda t, x: t.logaddexp2(x, x.flip(0)) + t.logaddexp2(t.zeros_like(x), x),
    "lp_pool": lambda t, x: t.nn.functional.lp_pool1d(x[None], 2, 2),
}
POINTS = [[0.0, 1.0, 2.0, -1.0, 0.5, 3.0], [0.0, 1.0, 0.0, -1.0, 0.5, 3.0], [0.0] * 6]


@pytest.mark.parametrize("name", TWICE)
@pytest.mark.parametrize("jitted", [False, True])
def test_second_gradient(name, jitted):
    def gradients(t, call, point):
        x = t.tensor(point, requires_grad=True, dtype=t.float64)
        weights = t.tensor([1.0, -2.0, 3.0, 0.5, 4.0, 5.0], dtype=t.float64)
        out = call(x)
        first = t.autograd.grad((out * weights[: out.numel()].reshape(out.shape)).sum(), x, create_graph=True)[0]
        second = t.autograd.grad((first * weights).sum(), x, allow_unused=True, materialize_grads=True)[0]
        return first.tolist(), second.tolist()

    function = lambda x: TWICE[name](eagerjit, x)  # noqa: E731
    for point in POINTS:
        found = gradients(eagerjit, eagerjit.jit(function) if jitted else function, point)
        expected = gradients(torch, lambda x: TWICE[name](torch, x), point)
        torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), equal_nan=True)


@pytest.mark.parametrize("name", ["norm", "std"])
def test_tangent_at_zero(name):
    found, expected = [
        t.func.jvp(lambda x: getattr(x, name)(), (t.zeros(3),), (t.ones(3),))[1].item() for t in (eagerjit, torch)
    ]
    assert found == expected == 0.0


def test_selected_rows_lie_in_order():
    x = eagerjit.arange(12.0).reshape(3, 4)
    assert x.index_select(1, eagerjit.tensor([0, 2])).stride() == (2, 1)
    assert x.kthvalue(2, 1).values.stride() == (1,)
