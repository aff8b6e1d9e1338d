"""Tensors whose shape changes in place, among views and gradients of what they were before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej


def base_turned_and_written(x: Any, w: Any, t: Any) -> Any:
    y = x * w
    row = y[0]
    y.t_()
    y.mul_(2)
    return y, row


def base_turned_after_reads(x: Any, w: Any, t: Any) -> Any:
    y = x * w
    row, total, tripled = y[0], y.sum(1), y * 3
    y.t_().unsqueeze_(0)
    return y, row * 1, total, tripled


def view_of_a_view_turned(x: Any, w: Any, t: Any) -> Any:
    y = x * w
    rows = y[1:]
    end = rows[:, 1:]
    rows.t_()
    rows.mul_(w.sum() + 3)
    end.mul_(w[0] + 2)
    return y, rows * 1, end * 1


def view_given_dimensions(x: Any, w: Any, t: Any) -> Any:
    y = x * w
    row = y[0]
    row.unsqueeze_(0)
    row *= w.sum()
    kept = row * 1.0
    row.squeeze_().mul_(3)
    return y, row, kept


def there_and_back(x: Any, w: Any, t: Any) -> Any:
    y = x * w
    total = y.sum()
    y.transpose_(0, 1)
    both = t.cat([y, y])
    y.swapaxes_(0, 1)
    return total, both, y * y


FUNCTIONS = (
    base_turned_and_written, base_turned_after_reads, view_of_a_view_turned, view_given_dimensions, there_and_back,
)  # fmt: skip


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_in_pytorch(function: Callable[..., Any], requires_grad: bool) -> None:
    found = []
    for t, called in ((torch, function), (ej, function), (ej, ej.jit(function))):
        x = t.arange(6.0).reshape(2, 3).requires_grad_(requires_grad)
        w = t.tensor([1.0, -2.0, 4.0], requires_grad=requires_grad)
        results = called(x, w, t)
        if requires_grad:
            sum((r * r).sum() for r in results).backward()
        gradients = [x.grad, w.grad] if requires_grad else []
        found.append([r.detach().numpy() for r in (*results, *gradients)])
    for ours in found[1:]:
        for a, b in zip(ours, found[0], strict=True):
            np.testing.assert_array_equal(a, b)
