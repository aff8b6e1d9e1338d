"""Forms of calls that older programs have: add_(alpha, other) and its like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import eagerjit

FORMS: dict[str, Any] = {
    "add_": lambda t, a, b: a.clone().add_(0.5, b),
    "add": lambda t, a, b: a.add(0.5, b),
    "torch.add": lambda t, a, b: t.add(a, 0.5, b),
    "sub_": lambda t, a, b: a.clone().sub_(0.5, b),
    "torch.sub": lambda t, a, b: t.sub(a, 2, b),
    "addcmul_": lambda t, a, b: a.clone().addcmul_(0.5, b, b),
    "torch.addcdiv": lambda t, a, b: t.addcdiv(a, 0.5, b, b),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.filterwarnings("ignore:This overload:UserWarning")
def test_scale_before_the_operand(name: str) -> None:
    values = np.array([[1.0, -2.0], [3.0, 0.5]], np.float32), np.array([2.0, 4.0], np.float32)
    results, gradients = [], []
    for t in (torch, eagerjit):
        a, b = (t.tensor(v, requires_grad=True) for v in values)
        out = FORMS[name](t, a, b)
        out.sum().backward()
        results.append(out.detach().numpy())
        gradients.append((a.grad.numpy(), b.grad.numpy()))
    assert np.array_equal(*results)
    for expected, actual in zip(*gradients, strict=True):
        assert np.array_equal(expected, actual)
    compiled = eagerjit.jit(lambda a, b: FORMS[name](eagerjit, a, b))
    assert np.array_equal(compiled(*map(eagerjit.tensor, values)).numpy(), results[1])


def test_lazy_properties_are_computed_once() -> None:
    from eagerjit.distributions.distribution import lazy_property

    class Squares:
        calls = 0

        @lazy_property
        def value(self) -> eagerjit.Tensor:
            self.calls += 1
            return eagerjit.ones(2)

    squares = Squares()
    assert squares.value is squares.value and squares.calls == 1
