"""Sizes and numbers inside of loops' functions: one compiled version serves all of them, gradients included."""

from __future__ import annotations

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.control import cond, map, scan, while_loop


def drawn(*shape):
    torch.manual_seed(sum(shape))
    return torch.randn(*shape)


PROGRAMS = {
    "a slice up to an argument": (
        lambda xs, k: scan(lambda c, x: (c + x[:k].sum(), x[:k] * k), torch.tensor(0.0), xs),
        [(drawn(n, 9), k) for n, k in ((3, 2), (4, 5), (5, 7))],
    ),
    "over what a mask selects": (
        lambda x: scan(lambda c, x: (c * 0.5 + x, c * x.exp()), torch.tensor(0.0), x[x > 0]),
        [(drawn(n),) for n in (10, 20, 31)],
    ),
    "sizes as numbers": (
        lambda xs: scan(
            lambda c, x: (c + x * xs.shape[0], torch.arange(xs.shape[1]) * x.mean()), torch.zeros(xs.shape[1]), xs
        ),
        [(drawn(n, m),) for n, m in ((3, 4), (5, 2), (6, 9))],
    ),
    "as often as an argument says": (
        lambda xs, n: while_loop(lambda i, c: i < n, lambda i, c: (i + 1, c * xs[i]), (0, torch.ones(3)))[1],
        [(drawn(8, 3), torch.tensor(k)) for k in (2, 5, 7)],
    ),
    "a branch per element": (
        lambda xs: map(lambda x: cond((x > 0).all(), lambda: x.log(), lambda: x.abs().sqrt()), xs),
        [(drawn(n, 2),) for n in (3, 5)],
    ),
    "a descent with a rate": (
        lambda xs, rate: scan(
            lambda w, x: (w - rate * torch.func.grad(lambda w: ((w @ x) ** 2).sum())(w), w @ x), torch.ones(3), xs
        ),
        [(drawn(n, 3), rate) for n, rate in ((3, 0.1), (5, 0.2), (7, 0.05))],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_version(name):
    function, calls = PROGRAMS[name]
    jitted = torch.jit(function, fullgraph=True)
    for arguments in calls:
        found = []
        for f in (function, jitted):
            given = [x.clone() if isinstance(x, torch.Tensor) else x for x in arguments]
            given[0].requires_grad_()
            results = f(*given)
            results = list(results) if isinstance(results, tuple) else [results]
            gradients = torch.grad(sum((r * r).sum() for r in results), given[0])
            found.append([*results, *gradients])
        for a, b in zip(*found, strict=True):
            assert np.array_equal(a.detach().numpy(), b.detach().numpy())
    assert jitted.cache_info().compiles == 1
