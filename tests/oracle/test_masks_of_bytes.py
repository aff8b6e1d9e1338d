"""Indexing with masks of bytes: PyTorch's warning at the user's line, and where it takes none."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import eagerjit


def mask(t: Any) -> Any:
    return t.tensor([1, 0, 1], dtype=t.uint8)


def written(t: Any, key: Any, value: Any) -> Any:
    x = t.zeros(3, 3)
    x[key] = value
    return x


CALLS: dict[str, Callable[[Any], Any]] = {
    "read": lambda t: t.arange(3.0)[mask(t)],
    "rows": lambda t: t.ones(3, 2)[mask(t)],
    "all": lambda t: t.ones(2, 2)[t.tensor([[1, 0], [0, 1]], dtype=t.uint8)],
    "behind a slice": lambda t: t.ones(3, 3)[:, mask(t)],
    "beside a place": lambda t: t.ones(3, 3)[mask(t), 0],
    "array": lambda t: t.arange(3.0)[mask(t).numpy()],
    "written": lambda t: written(t, mask(t), t.ones(2, 3)),
    "number written": lambda t: written(t, mask(t), 1.0),
    "one value written": lambda t: written(t, mask(t), t.ones(1)),
    "number written behind a slice": lambda t: written(t, (slice(None), mask(t)), 2),
    "number written where two hold": lambda t: written(t, (mask(t), mask(t)), 2.0),
    "put": lambda t: t.zeros(3).index_put_((mask(t),), t.tensor(1.0)),
    "added": lambda t: t.zeros(3).index_put_((mask(t),), t.tensor(1.0), accumulate=True),
    "no dimension": lambda t: t.arange(3.0)[t.tensor(1, dtype=t.uint8)],
    "no dimension, none": lambda t: t.arange(3.0)[t.tensor(0, dtype=t.uint8)],
    "written by no dimension": lambda t: written(t, t.tensor(1, dtype=t.uint8), 3.0),
    "too long": lambda t: t.ones(2)[mask(t)],
    "bool": lambda t: t.ones(3)[mask(t).bool()],
    "where": lambda t: t.where(mask(t), t.ones(3), 0.0),
    "where of a tensor": lambda t: t.ones(3).where(mask(t), t.zeros(3)),
    "where alone": lambda t: t.where(mask(t))[0],
}


def outcome(t: Any, call: Callable[[Any], Any]) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        globals().pop("__warningregistry__", None)
        try:
            result = call(t).tolist()
        except (RuntimeError, IndexError) as problem:
            return type(problem)
    return result, [(str(w.message).partition(" (Trig")[0], w.category, w.filename, w.lineno) for w in caught]


@pytest.mark.parametrize("name", CALLS)
def test_masks_of_bytes_are_warned_of(name: str) -> None:
    assert outcome(eagerjit, CALLS[name]) == outcome(torch, CALLS[name])
