"""Gradients where functions have corners, poles or several equal extremes: what PyTorch gives."""

import pytest
import torch

import eagerjit

CALLS = {
    "median": lambda t, x: x.median(),
    "nanmedian": lambda t, x: x.nanmedian(),
    "median of NaN": lambda t, x: (x / (x - x)).median(),
    "median of integers": lambda t, x: x.median() + x.long().median(),
    "max": lambda t, x: x.max(),
    "amin": lambda t, x: x.amin(),
    "atan2 at the origin": lambda t, x: t.atan2(x, x * 0.0),
    "logit": lambda t, x: t.logit(x / 10),
    "logit kept away from its poles": lambda t, x: t.logit(x / 10, 0.2),
    "logit outside": lambda t, x: t.logit(x),
    "entr": lambda t, x: t.special.entr(x),
    "infinity norm": lambda t, x: x.norm(float("inf")),
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


def test_selected_rows_lie_in_order():
    x = eagerjit.arange(12.0).reshape(3, 4)
    assert x.index_select(1, eagerjit.tensor([0, 2])).stride() == (2, 1)
    assert x.kthvalue(2, 1).values.stride() == (1,)
