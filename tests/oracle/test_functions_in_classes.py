"""Functions in the bodies of classes: PyTorch's are C functions, which are no methods of what holds them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import eagerjit as ej

LIBRARIES = (ej, torch)


def _module(t: Any) -> Any:
    class Holder(t.nn.Module):
        convolved, stacked, alike = t.conv2d, t.stack, t.nn.functional.cosine_similarity
        activation, made, norm = t.tanh, t.arange, t.linalg.norm
        reset_parameters = t.nn.Linear.reset_parameters

    return Holder


def _plain(t: Any) -> Any:
    class Holder:
        activation, joined, convolved, made, flat = t.sigmoid, t.cat, t.nn.functional.conv2d, t.zeros, t.flatten

    return Holder


@pytest.mark.parametrize("t", LIBRARIES, ids=lambda t: t.__name__)
def test_modules_hold_functions(t: Any) -> None:
    holder, x = _module(t)(), t.arange(9.0).view(1, 1, 3, 3)
    assert holder.convolved(x, x).item() == 204
    assert holder.stacked([x, x], 1).shape == (1, 2, 1, 3, 3)
    assert holder.alike(x[0, 0], x[0, 0]).allclose(t.ones(3))
    assert holder.activation(t.zeros(2)).tolist() == [0, 0]
    assert holder.made(3).tolist() == [0, 1, 2]
    assert holder.norm(t.ones(4)).item() == 2
    assert type(holder).convolved is t.conv2d and type(holder).stacked is t.stack
    assert holder.reset_parameters.__self__ is holder


@pytest.mark.parametrize("t", LIBRARIES, ids=lambda t: t.__name__)
def test_other_classes_hold_functions(t: Any) -> None:
    holder, x = _plain(t)(), t.zeros(2)
    assert holder.activation(x).tolist() == [0.5, 0.5]
    assert holder.joined([x, x]).shape == (4,)
    assert holder.convolved(t.ones(1, 1, 2, 2), t.ones(1, 1, 2, 2)).item() == 4
    assert holder.made(2).tolist() == [0, 0]
    assert holder.flat(t.ones(2, 2)).shape == (4,)
    assert type(holder).activation is t.sigmoid


def test_methods_of_tensors_are_methods() -> None:
    class Kind(ej.Tensor):
        exponential = ej.exp

    assert ej.ones(1).as_subclass(Kind).exponential().tolist() == ej.ones(1).exp().tolist()


def test_methods_of_no_module_are_methods() -> None:
    made: dict[str, Any] = {}
    exec("def forward(self, x):\n    return x + 1", made)
    made["forward"].__module__ = None
    kind = type("Kind", (ej.nn.Module,), {"forward": made["forward"]})
    assert kind()(ej.zeros(1)).item() == 1
