"""Kernels of calls that measure sizes: what needs no such size joins what does, unless a size is measured of it."""

from __future__ import annotations

from typing import Any

import pytest

import eagerjit as torch
from eagerjit.nn import functional as F


def test_an_update_is_one_kernel_where_a_mask_decides_how_many_losses_there_are() -> None:
    """Decay and moments need no gradient: as kernels of their own they would pass over memory once more each."""
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        known = y >= 0
        loss = F.cross_entropy(model(x)[known], y[known])
        loss.backward()
        optimizer.step()
        return loss

    jitted = torch.jit(step, fullgraph=True)
    x, y = torch.randn(12, 8), torch.randint(-1, 5, (12,))
    for _ in range(4):
        jitted(x, y)
    names = [k.name for k in jitted.explain(x, y).kernels]
    assert [n for n in names if "sqrt" in n] and not [n for n in names if n.split("_", 1)[-1] == "mul"], names


def count_of_what_others_join(x: Any, w: Any) -> Any:
    y = x * 2
    picked = y[y > 0]
    z = w * 3
    return (y + 1) * picked.sum() + z, z, picked


def measured_twice(x: Any, w: Any) -> Any:
    first = (x + 1)[x > 0]
    early, late = w * 2, w * 3
    second = first[first * early.sum() > 1]
    return second * early.mean() + late.sum(), early * second.sum(), late


def measured_of_what_waited(x: Any, w: Any) -> Any:
    y = w * 2
    first = x[x > 0]
    z = y + first.sum()
    second = w[y > 1]
    return z * second.sum(), y, second


@pytest.mark.parametrize("function", [count_of_what_others_join, measured_twice, measured_of_what_waited])
@pytest.mark.parametrize("size", [1, 7, 5000])
def test_what_joins_is_there_when_sizes_are_measured(function: Any, size: int) -> None:
    jitted = torch.jit(function, fullgraph=True)
    for seed in range(4):
        torch.manual_seed(seed)
        x, w = torch.randn(size, requires_grad=True), torch.randn(size, requires_grad=True)
        results = []
        for call in (function, jitted, jitted):
            outs = call(x, w)
            grads = torch.autograd.grad(sum(o.sum() for o in outs), (x, w))
            results.append([t.detach().numpy().tobytes() for t in (*outs, *grads)])
        assert results[0] == results[1] == results[2]
