"""Associative scans against plain loops: values, gradients, compiled calls and PyTorch's errors."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.autograd import gradcheck
from eagerjit.control import associative_scan


def recurrence(left, right):
    """h = a * h + b, two steps as one."""
    (a, b), (c, d) = left, right
    return a * c, c * b + d


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_linear_recurrence(length, reverse):
    torch.manual_seed(0)
    a, b = torch.randn(2, length, 3, dtype=torch.float64), torch.randn(2, length, 3, dtype=torch.float64)
    expected, state = [], torch.zeros(2, 3, dtype=torch.float64)
    for i in reversed(range(length)) if reverse else range(length):
        state = a[:, i] * state + b[:, i]
        expected.append(state)
    plain = torch.stack(expected[::-1] if reverse else expected, 1)

    def states(a, b):
        return associative_scan(recurrence, (a, b), -2, reverse, "generic")[1]

    found = states(a, b)
    np.testing.assert_allclose(found.numpy(), plain.numpy(), rtol=1e-10)
    assert torch.equal(torch.jit(states, fullgraph=True)(a, b), found)
    if length < 6:
        assert gradcheck(states, (a.requires_grad_(), b.requires_grad_()))


def test_functions_see_single_elements():
    products = associative_scan(lambda x, y: x @ y, torch.full((4, 2, 2), 0.5), 0, combine_mode="generic")
    assert torch.equal(products, torch.full((4, 2, 2), 0.5))


def test_wrong_calls():
    x = torch.ones(3)
    for call, error, message in (
        (lambda: associative_scan(None, x, 0), ValueError, "must be a callable"),
        (lambda: associative_scan(torch.add, x, 0.0), ValueError, "Dim must be an int"),
        (lambda: associative_scan(torch.add, x, 0, 1), RuntimeError, "Reverse must be a bool"),
        (lambda: associative_scan(torch.add, x, 0, False, "other"), ValueError, "Combine_mode"),
        (lambda: associative_scan(torch.add, x, 0), ValueError, "need to be on CUDA"),
        (lambda: associative_scan(torch.add, [], 0, combine_mode="generic"), ValueError, "at least 1 xs leaf"),
        (lambda: associative_scan(torch.add, [1.0], 0, combine_mode="generic"), ValueError, "must be a Tensor"),
        (lambda: associative_scan(torch.add, x, 1, combine_mode="generic"), IndexError, "out of range"),
        (lambda: associative_scan(torch.add, x[:0], 0, combine_mode="generic"), ValueError, "scan dimension > 0"),
        (lambda: associative_scan(lambda a, b: (a, b), x, 0, combine_mode="generic"), RuntimeError, "nested"),
    ):
        with pytest.raises(error, match=message):
            call()
