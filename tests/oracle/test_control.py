"""Structured control flow against PyTorch's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracle import pair
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan as torch_scan
from torch._higher_order_ops.while_loop import while_loop as torch_while_loop

import eagerjit as ej
from eagerjit import control


def numbers(*shape):
    return np.random.default_rng(2).normal(size=shape)


def functions(library):
    """(scan, map, while_loop, cond) of a library."""
    if library is torch:
        return torch_scan, torch_map, torch_while_loop, torch.cond
    return control.scan, control.map, control.while_loop, ej.cond


def carries_and_outputs(library, xs, weight):
    scan, *_ = functions(library)

    def step(carry, x):
        h = (carry["h"] @ weight + x).tanh()
        return {"h": h, "total": carry["total"] + h}, (h * 2, carry["total"] * 3)

    zeros = library.zeros(2, 3, dtype=library.float64)
    last, (ys, totals) = scan(step, {"h": zeros, "total": zeros.clone()}, xs)
    return [last["h"], last["total"], ys, totals]


def backwards_along_another_dimension(library, xs, weight):
    scan, *_ = functions(library)
    last, ys = scan(lambda c, x: (c * 0.5 + x, (c + x) @ weight), xs[:, 0] * 0, xs, dim=1, reverse=True)
    return [last, ys]


def over_elements(library, xs, weight):
    _, map_, *_ = functions(library)
    return [map_(lambda x, w: (x @ w).exp(), xs, weight)]


def choices(library, xs, weight):
    *_, cond = functions(library)
    return [
        cond(xs.sum() > limit, lambda x, w: (x @ w).sin(), lambda x, w: x * 2 + w.sum(), (xs, weight))
        for limit in (-1e9, 1e9)
    ]


@pytest.mark.parametrize("program", [carries_and_outputs, backwards_along_another_dimension, over_elements, choices])
def test_as_pytorch(program):
    xs, weight = pair(numbers(4, 2, 3), grad=True), pair(numbers(3, 3), grad=True)
    found = program(ej, xs[0], weight[0])
    expected = program(torch, xs[1], weight[1])
    for a, b in zip(found, expected, strict=True):
        assert tuple(a.shape) == tuple(b.shape) and str(a.dtype).rpartition(".")[2] == str(b.dtype).rpartition(".")[2]
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9)
    gradients = []
    for library, results, side in ((ej, found, 0), (torch, expected, 1)):
        total = sum((r * r).sum() for r in results if r.dtype == library.float64)
        gradients.append(library.autograd.grad(total, [xs[side], weight[side]]))
    for a, b in zip(*gradients, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-7)


def test_while_loop_as_pytorch():
    found = []
    for library, x in zip((ej, torch), pair(numbers(2, 3)), strict=True):
        *_, while_loop, _ = functions(library)
        found.append(
            while_loop(lambda i, x: x.abs().sum() < 100, lambda i, x: (i + 1, x * 1.5), (library.tensor(0), x))
        )
    (n, x), (m, y) = found
    assert n.item() == m.item()
    np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda library, f: f[0](lambda c, x: (c.double(), x), library.zeros(2), library.ones(3, 2)),
        lambda library, f: f[0](None, library.zeros(2), library.ones(3, 2)),
        lambda library, f: f[3](library.ones(2) > 0, lambda: library.ones(2), lambda: library.ones(2)),
        lambda library, f: f[3](library.ones(1) > 0, lambda x: x.sum(), lambda x: x, (library.ones(2),)),
        lambda library, f: f[3](library.ones(1) > 0, 1, lambda x: x, (library.ones(2),)),
    ],
)
def test_refused_as_pytorch_does(call):
    for library in (torch, ej):
        with pytest.raises(RuntimeError):
            call(library, functions(library))


def test_while_loop_has_its_name_in_the_main_namespace() -> None:
    assert callable(torch.while_loop)
    assert ej.while_loop is control.while_loop
