"""Factors before tensors, as programs from before PyTorch 1.5 give them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import eagerjit as ej

RANDOM = np.random.default_rng(4)
M, N, V = RANDOM.normal(size=(3, 3)), RANDOM.normal(size=(3, 3)) + 3.0, RANDOM.normal(size=3)
B = RANDOM.normal(size=(2, 3, 3))
CALLS: dict[str, Any] = {
    "add": lambda t, m, n, v, b: (t.add(m, 0.5, n), m.add(0.5, n), m.clone().add_(0.5, n), m.clone().sub_(2, n)),
    "addcmul": lambda t, m, n, v, b: (t.addcmul(m, 0.5, m, n), m.addcmul(2, m, n), m.clone().addcmul_(-0.5, m, n)),
    "addcdiv": lambda t, m, n, v, b: (t.addcdiv(m, 0.5, m, n), m.addcdiv(2, m, n), m.clone().addcdiv_(-0.5, m, n)),
    "addmm": lambda t, m, n, v, b: (
        t.addmm(0.5, m, m, n), t.addmm(0.5, m, 2, m, n), m.addmm(3, m, n), m.clone().addmm_(0.5, 2.0, m, n),
    ),
    "addmv": lambda t, m, n, v, b: (t.addmv(0.5, v, m, v), v.addmv(0.5, 2, m, v), v.clone().addmv_(2, m, v)),
    "addr": lambda t, m, n, v, b: (t.addr(0.5, m, v, v), m.addr(0.5, 2, v, v), m.clone().addr_(2, v, v)),
    "batches": lambda t, m, n, v, b: (
        t.addbmm(0.5, m, b, b), m.addbmm(0.5, 2, b, b), t.baddbmm(2, b, 0.5, b, b), b.clone().baddbmm_(3, b, b),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_factors_first(name: str) -> None:
    """Results and gradients, eagerly and compiled."""
    found = []
    for library in (ej, torch):
        given = [library.tensor(x, requires_grad=True) for x in (M, N, V, B)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = CALLS[name](library, *given)
            sum((r * r).sum() for r in results).backward()
        found.append([x.detach().numpy() for x in (*results, *(g.grad for g in given if g.grad is not None))])
    for actual, expected in zip(*found, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12)
    compiled = ej.jit(lambda *given: CALLS[name](ej, *given), fullgraph=True)(*map(ej.tensor, (M, N, V, B)))
    assert [r.numpy().tobytes() for r in compiled] == [r.tobytes() for r in found[0][: len(compiled)]]


@pytest.mark.parametrize("library", [ej, torch], ids=["eagerjit", "torch"])
def test_what_is_no_order_is_refused(library: Any) -> None:
    x = library.ones(2, 2)
    for call in (
        lambda: library.addcdiv(x, x, x, x),
        lambda: library.addcmul(x, 0.5, 0.5, x),
        lambda: library.addmm(0.5, 0.5, x, x),
        lambda: library.addmm(0.5, 2, 3, x, x, x),
        lambda: x.addbmm(0.5, x, 2, x, x),
    ):
        with pytest.raises(TypeError):
            call()
