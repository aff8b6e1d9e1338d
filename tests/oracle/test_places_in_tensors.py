"""Subscripts that are integer tensors without dimensions: they pick views, eagerly and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit

KEYS: dict[str, Callable[[Any], Any]] = {
    "place": lambda t: t.tensor(1),
    "from the end": lambda t: t.tensor(-1),
    "int32": lambda t: t.tensor(1, dtype=t.int32),
    "column": lambda t: (slice(None), t.tensor(1)),
    "last": lambda t: (..., t.tensor(0)),
    "both": lambda t: (t.tensor(1), t.tensor(2)),
    "beside None": lambda t: (None, t.tensor(1)),
    "beside int": lambda t: (0, t.tensor(2)),
    "beside rows": lambda t: (t.tensor(1), t.tensor([0, 2])),
}


def written(t: Any, x: Any, key: Any) -> Any:
    x[key].add_(1.0)
    return x


def augmented(t: Any, x: Any, key: Any) -> Any:
    x[key] += 2.0
    return x


def assigned(t: Any, x: Any, key: Any) -> Any:
    x[key] = 7.0
    return x


def seen_through(t: Any, x: Any, key: Any) -> Any:
    part = x[key]
    x.mul_(3.0)
    return part.clone()


def counted(t: Any, x: Any, key: Any) -> Any:
    for i in t.arange(3):
        x[i].mul_(2.0)
    return x


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("function", [written, augmented, assigned, seen_through, counted])
def test_they_pick_views(function: Callable[..., Any], key: str) -> None:
    values = [[float(3 * i + j) for j in range(3)] for i in range(3)]
    wanted = function(torch, torch.tensor(values), KEYS[key](torch)).tolist()
    assert function(eagerjit, eagerjit.tensor(values), KEYS[key](eagerjit)).tolist() == wanted
    jitted = eagerjit.jit(lambda x, key: function(eagerjit, x, key))
    x = eagerjit.tensor(values)
    assert jitted(x, KEYS[key](eagerjit)).tolist() == wanted
    assert jitted(eagerjit.tensor(values), KEYS[key](eagerjit)).tolist() == wanted


@pytest.mark.parametrize("key", KEYS)
def test_gradients(key: str) -> None:
    found = []
    for t in (torch, eagerjit):
        x = t.arange(9.0).reshape(3, 3).requires_grad_()
        y = x * 2.0
        y[KEYS[key](t)] *= 3.0
        (y[KEYS[key](t)] ** 2).sum().backward()
        found.append(x.grad.tolist())
    assert found[0] == found[1]


def test_places_that_there_are_not() -> None:
    for t in (torch, eagerjit):
        x = t.zeros(3, 3)
        for key in (t.tensor(3), (slice(None), t.tensor(-4))):
            with pytest.raises(IndexError):
                x[key]
            with pytest.raises(IndexError):
                x[key] = 1.0
    jitted = eagerjit.jit(lambda x, i: x[i] * 2.0)
    x = eagerjit.arange(3.0)
    assert [jitted(x, eagerjit.tensor(i)).item() for i in (0, 1, 2, -1)] == [0.0, 2.0, 4.0, 4.0]
    with pytest.raises(IndexError):
        jitted(x, eagerjit.tensor(3))


def test_under_vmap_they_are_read_for_each_example() -> None:
    for t, vmap in ((torch, torch.vmap), (eagerjit, eagerjit.vmap)):
        x = t.arange(12.0).reshape(3, 4)
        assert vmap(lambda row, i: row[i])(x, t.tensor([1, 0, 3])).tolist() == [1.0, 4.0, 11.0]
