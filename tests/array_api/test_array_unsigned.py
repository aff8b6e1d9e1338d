"""The unsigned dtypes that PyTorch has in part, in every function that takes integers: values against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerjit as torch
from eagerjit import array_api as xp

DTYPES = ["uint8", "uint16", "uint32", "uint64"]

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "sort": lambda t, x: t.sort(x, axis=1),
    "sort down": lambda t, x: t.flip(t.sort(x, axis=0), axis=0),
    "argsort": lambda t, x: t.argsort(x, axis=1, stable=True),
    "max": lambda t, x: t.max(x),
    "max of rows": lambda t, x: t.max(x, axis=1),
    "min of columns": lambda t, x: t.min(x, axis=0, keepdims=True),
    "argmax": lambda t, x: t.argmax(x, axis=1),
    "argmin": lambda t, x: t.argmin(x),
    "sum": lambda t, x: t.sum(x),
    "sum of rows": lambda t, x: t.sum(x, axis=0),
    "prod": lambda t, x: t.prod(x % 5 + 1, axis=1),
    "cumulative sum": lambda t, x: t.cumulative_sum(x, axis=1),
    "cumulative product": lambda t, x: t.cumulative_prod(x % 3 + 1, axis=0),
    "all": lambda t, x: t.all(x, axis=0),
    "any": lambda t, x: t.any(x, axis=1),
    "count_nonzero": lambda t, x: t.count_nonzero(x),
    "nonzero": lambda t, x: t.nonzero(x),
    "diff": lambda t, x: t.diff(x, axis=1),
    "where": lambda t, x: t.where(x > 7, x, t.flip(x, axis=1)),
    "unique": lambda t, x: t.sort(t.unique_values(x)),
    "unique counts": lambda t, x: tuple(t.unique_counts(x)),
    "searchsorted": lambda t, x: t.searchsorted(t.sort(t.reshape(x, (-1,))), x[0]),
    "take": lambda t, x: t.take(x, t.asarray([2, 0]), axis=1),
    "take by unsigned": lambda t, x: t.take(x[0], x[1] % 3),
    "concat": lambda t, x: t.concat([x, x[:1]]),
    "stack": lambda t, x: t.stack([x, x], axis=1),
    "roll": lambda t, x: t.roll(x, 2, axis=1),
    "repeat": lambda t, x: t.repeat(x, 2, axis=0),
    "tile": lambda t, x: t.tile(x, (2, 1)),
    "tril": lambda t, x: t.tril(x, k=1),
    "tensordot": lambda t, x: t.tensordot(x, x.mT, axes=1),
    "vecdot": lambda t, x: t.vecdot(x, t.flip(x, axis=0)),
    "outer": lambda t, x: t.linalg.outer(x[0], x[1]),
    "trace": lambda t, x: t.linalg.trace(x),
    "clip": lambda t, x: t.clip(x, 3, 100),
    "shifts": lambda t, x: (x << 3) ^ (x >> 2),
    "arithmetic": lambda t, x: (x * x + 3) // (x % 11 + 1) - x,
    "comparison": lambda t, x: (x > t.flip(x, axis=1)) & (x != 0),
    "real": lambda t, x: t.sqrt(t.astype(x, t.float64)) * 0.5,
    "mask": lambda t, x: x[x > 100],
    "rows": lambda t, x: x[t.asarray([1, 1, 0])],
}  # fmt: skip


def numbers(dtype: str) -> np.ndarray:
    """Small and large numbers, the largest among them, some twice."""
    array = np.random.default_rng(4).integers(0, 50, (4, 6)).astype(dtype)
    top = np.iinfo(dtype).max
    array[0, :4], array[2, 1:4], array[3, 5] = [top, top - 1, 0, top // 2 + 1], [top // 2, top, 7], top
    return array


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_values_are_numpys(name: str, dtype: str) -> None:
    array = numbers(dtype)
    call = CALLS[name]
    with np.errstate(all="ignore"):
        wanted = call(np, array)
    for found in (call(xp, torch.tensor(array)), torch.jit(lambda x: call(xp, x))(torch.tensor(array))):
        pairs = [(found, wanted)] if not isinstance(found, tuple) else zip(found, wanted, strict=True)
        for ours, theirs in pairs:
            assert ours.dtype.name == str(theirs.dtype)
            np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_writes(dtype: str) -> None:
    array = numbers(dtype)
    x = torch.tensor(array)
    x[1], array[1] = 9, 9
    x[:, 0] += 3
    array[:, 0] += np.array(3, dtype)
    x[x > 100], array[array > 100] = 5, 5
    x.mul_(7)
    np.testing.assert_array_equal(x.numpy(), array * np.array(7, dtype), strict=True)
    for name in ("float32", "int16", "uint64"):
        other = torch.zeros(4, 6, dtype=getattr(torch, name))
        other.copy_(x)
        np.testing.assert_array_equal(other.numpy(), x.numpy().astype(name))
