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


def turned_without_gradients(t: Any, x: Any) -> Any:
    leaf = x.clone().requires_grad_()
    with t.no_grad():
        leaf.t_()
    return (leaf,)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "t_": lambda t, x: (x.t_(),),
    "a view turned": lambda t, x: (x, x[1:].t_()),
    "one after another": lambda t, x: (x.unsqueeze_(0).squeeze_().transpose_(0, 1).swapaxes_(0, 1).squeeze_(0),),
    "squeeze_ of nothing": lambda t, x: (x.squeeze_(),),
    "as_strided_": lambda t, x: (x.as_strided_((2,), (1,)),),
    "resize_": lambda t, x: (x.resize_(2, 2),),
    "resize_ to more": lambda t, x: (x.resize_(9, 9),),
    "resize_ to the same": lambda t, x: (x.resize_(2, 3),),
    "resize_as_": lambda t, x: (x.resize_as_(t.ones(1)),),
    "set_": lambda t, x: (x, t.ones(4).set_(x), x.add_(1)),
    "set_ to a part": lambda t, x: (x, t.ones(4).set_(x[1:]).mul_(2)),
    "set_ to a storage": lambda t, x: (x, t.ones(4).set_(x.untyped_storage(), 1, (2,), (2,))),
    "set_ to nothing": lambda t, x: (x.set_(),),
    "without gradients": turned_without_gradients,
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_counted(name: str) -> None:
    found = []
    for t in (torch, ej):
        changed = CHANGES[name](t, t.arange(6.0).reshape(2, 3))
        found.append([(y._version, y.storage_offset(), len(y.untyped_storage())) for y in changed])
    assert found[1] == found[0]


@pytest.mark.parametrize("t", (torch, ej))
def test_gradients_that_read_what_was_turned_are_refused(t: Any) -> None:
    x = t.ones(2, 3, requires_grad=True)
    y = x * 2
    squared, doubled = (y * y).sum(), (y * 2).sum()
    y.t_()
    doubled.backward(retain_graph=True)
    assert x.grad.tolist() == [[4.0] * 3] * 2
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        squared.backward()


def gradient_without_grad_mode(t: Any, change: str, jitted: bool, mode: str) -> Any:
    def function(w: Any) -> Any:
        y = w * 2
        with getattr(t, mode)():
            getattr(y, change)(*{"unsqueeze_": (0,), "transpose_": (0, 1)}.get(change, ()))
        return y

    w = t.arange(1.0, 4.0).reshape(1, 3).requires_grad_()
    y = (t.jit(function) if jitted else function)(w)
    assert y.requires_grad and not y.is_leaf
    (y * y).sum().backward()
    return w.grad.tolist()


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("change", ["squeeze_", "unsqueeze_", "transpose_", "t_"])
def test_a_shape_that_changes_without_grad_mode_keeps_the_history(change: str, jitted: bool) -> None:
    """PyTorch keeps the node of the former shape, which refuses gradients of most others."""
    mine = gradient_without_grad_mode(ej, change, jitted, "no_grad")
    assert mine == gradient_without_grad_mode(torch, change, False, "enable_grad")
    if change == "unsqueeze_":
        assert mine == gradient_without_grad_mode(torch, change, False, "no_grad")
