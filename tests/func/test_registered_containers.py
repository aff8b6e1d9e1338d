"""Transforms of functions of containers that programs register, compared with PyTorch's."""

from __future__ import annotations

import collections
import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit


class Pair:
    def __init__(self, first: Any, second: Any, name: str):
        self.first, self.second, self.name = first, second, name


for library in ("torch", "eagerjit"):
    importlib.import_module(f"{library}.utils._pytree").register_pytree_node(
        Pair, lambda p: ([p.first, p.second], p.name), lambda parts, name: Pair(*parts, name)
    )

X = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "vmap": lambda t, x: t.vmap(lambda p: Pair(p.first * 2, p.second.sum(), p.name))(Pair(x, x, "a")),
    "vmap of more": lambda t, x: t.vmap(lambda p, y: Pair(p.first + y, p.second, ""), (0, None))(Pair(x, x, ""), x[0]),
    "vmap in chunks": lambda t, x: t.vmap(lambda p: Pair(p.second, p.first, "c"), chunk_size=2)(Pair(x, x + 1, "")),
    "vmap, other dimensions": lambda t, x: t.vmap(lambda p: Pair(p.first, p.second * 2, ""), 1, 1)(Pair(x, x, "")),
    "default dictionary": lambda t, x: t.vmap(lambda d: d["a"] + d["b"])(collections.defaultdict(int, a=x, b=x)),
    "deque": lambda t, x: t.vmap(lambda d: collections.deque([d[0] + d[1]]))(collections.deque([x, x])),
    "grad": lambda t, x: t.func.grad(lambda p: (p.first**2 * p.second).sum())(Pair(x, x, "g")),
    "grad and auxiliary": lambda t, x: t.func.grad(lambda z: ((z**2).sum(), Pair(z, z, "")), has_aux=True)(x),
    "vmap of grad": lambda t, x: t.vmap(t.func.grad(lambda p: (p.first * p.second).sum()))(Pair(x, x + 1, "")),
    "jacrev": lambda t, x: t.func.jacrev(lambda p: Pair(p.first.sum(0), p.second * 2, "r"))(Pair(x, x[0], "in")),
    "jacfwd": lambda t, x: t.func.jacfwd(lambda p: Pair(p.first.sum(0), p.second * 2, "f"))(Pair(x, x[0], "in")),
    "vjp": lambda t, x: t.func.vjp(lambda p: Pair(p.first * p.second, p.second, "o"), Pair(x, x, "i"))[1](
        Pair(x, x, "o")
    ),
    "jvp": lambda t, x: t.func.jvp(
        lambda p: Pair(p.first * p.second, p.second, "o"), (Pair(x, x, ""),), (Pair(x, x, ""),)
    ),
    "linearize": lambda t, x: t.func.linearize(lambda p: Pair(p.first * p.second, p.second, "o"), Pair(x, x, "i"))[1](
        Pair(x, x, "i")
    ),
}  # fmt: skip


def described(value: Any) -> Any:
    if isinstance(value, Pair):
        return "pair", value.name, described(value.first), described(value.second)
    if isinstance(value, (tuple, list, collections.deque)):
        return type(value), [described(v) for v in value]
    return value.tolist()


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
@pytest.mark.parametrize("name", CALLS)
def test_as_pytorch(name: str) -> None:
    expected = described(CALLS[name](torch, torch.tensor(X)))
    for _ in range(12):  # calls that come often are compiled
        assert described(CALLS[name](eagerjit, eagerjit.tensor(X))) == expected
