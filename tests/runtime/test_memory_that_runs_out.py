"""Each allocation that Python makes in a steady call fails once: the call raises MemoryError or does its work."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit.nn import functional as F
from eagerjit.runtime.native import improving

_testcapi = pytest.importorskip("_testcapi")

x, weight = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
table = {"count": 0}


@torch.jit
def views(x: Any) -> Any:
    return [x[0], x.T, {"flat": (x.view(-1), x[:, 1:3])}]


@torch.jit
def written(x: Any) -> Any:
    table["count"] += 1
    x[1:3] = 2
    x.T[0].add_(1)
    return x


def rows() -> Any:
    out = torch.zeros(5, 8)
    for i in range(4):
        out[i + 1] = out[i] * 0.5 + x[i]
    return out


def gradient_of(result: Any) -> Any:
    weight.grad = None
    result.backward()
    return weight.grad


def gradient_of_written() -> Any:
    out = torch.zeros(8, 8)
    out[1:3].copy_(weight[:2])
    out[0] = weight[1]
    return gradient_of(out.square().sum())


def gradient_of_gradient() -> Any:
    (first,) = torch.autograd.grad((weight * weight).sum().tanh(), weight, create_graph=True)
    return gradient_of(first.sum())


@torch.jit
def compiled(x: Any, weight: Any) -> Any:
    return torch.tanh(x @ weight), {"sum": x.sum(0), "both": [x, weight]}


CALLS: dict[str, Callable[[], Any]] = {
    "in place": lambda: x.clone().add_(1).mul_(2),
    "on the tape": lambda: F.linear(x, weight).tanh(),
    "rows": rows,
    "gradient": lambda: gradient_of(F.linear(x, weight).mul_(2).tanh().sum()),
    "gradient of what was written": gradient_of_written,
    "gradient of a gradient": gradient_of_gradient,
    "parts": lambda: torch.stack(list(x.split(2))),
    "compiled views": lambda: views(x)[1],
    "compiled writes": lambda: written(x.clone()),
    "compiled gradient": lambda: gradient_of(compiled(x, weight)[0].sum()),
}


def failing_at(n: int, call: Callable[[], Any]) -> Any:
    _testcapi.set_nomemory(n, n + 1)
    try:
        return call()
    finally:
        _testcapi.remove_mem_hooks()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # generators that end without memory
@pytest.mark.parametrize("name", CALLS)
def test_calls_raise_or_do_their_work(name: str) -> None:
    call = CALLS[name]
    for _ in range(4):
        expected = call().detach().numpy().copy()
    improving.wait()
    failed, n = 0, 0
    while n - failed < 10:
        n += 1
        try:
            result = failing_at(n, call)
        except (MemoryError, ctypes.ArgumentError):  # as ctypes calls it
            failed += 1
        else:
            assert np.array_equal(result.detach().numpy(), expected)
        assert np.array_equal(call().detach().numpy(), expected)
    assert failed
