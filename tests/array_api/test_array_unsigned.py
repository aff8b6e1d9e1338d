"""The array API's functions on unsigned integers, up to the largest: against array-api-strict, and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from array_oracle import check, check_compiled

DTYPES = ("uint8", "uint16", "uint32", "uint64")
PLACES = np.array([1, 0, 2])

FUNCTIONS: dict[str, Any] = {
    "max": lambda t, x: t.max(x, axis=1),
    "min": lambda t, x: t.min(x, axis=0, keepdims=True),
    "sum": lambda t, x: t.sum(x, axis=1),
    "prod": lambda t, x: t.prod(x),
    "all": lambda t, x: t.all(x, axis=1),
    "any": lambda t, x: t.any(x, axis=0),
    "count_nonzero": lambda t, x: t.count_nonzero(x, axis=1),
    "cumulative_sum": lambda t, x: t.cumulative_sum(x, axis=1, include_initial=True),
    "cumulative_prod": lambda t, x: t.cumulative_prod(x, axis=0),
    "diff": lambda t, x: t.diff(x, prepend=x[:, :1]),
    "argmax": lambda t, x: t.argmax(x, axis=1),
    "argmin": lambda t, x: t.argmin(x),
    "nonzero": lambda t, x: t.nonzero(x),
    "searchsorted": lambda t, x: t.searchsorted(t.sort(x[0, :]), x, side="right"),
    "sort": lambda t, x: t.sort(x, axis=0),
    "sort descending": lambda t, x: t.sort(x, descending=True),
    "argsort": lambda t, x: t.argsort(x),
    "take": lambda t, x, i: t.take(x, t.astype(i, x.dtype), axis=1),
    "take_along_axis": lambda t, x, i: t.take_along_axis(x, t.astype(i[None, :], x.dtype), axis=1),
    "where": lambda t, x: t.where(x > 2, x, t.zeros_like(x)),
    "where with a number": lambda t, x: t.where(x > 2, x, 1),
    "unique_all": lambda t, x: t.unique_all(x),
    "concat": lambda t, x: t.concat([x, t.flip(x)], axis=None),
    "repeat": lambda t, x, i: t.repeat(x, t.astype(i, x.dtype), axis=1),
    "roll": lambda t, x: t.roll(x, 2),
    "stack": lambda t, x: t.stack([x, t.tile(x, (1, 1))], axis=-1),
    "matmul": lambda t, x: t.matmul(x, t.matrix_transpose(x)),
    "tensordot": lambda t, x: t.tensordot(x, x, axes=((0,), (0,))),
    "vecdot": lambda t, x: t.vecdot(x, x),
    "outer": lambda t, x: t.linalg.outer(x[0, :], x[1, :]),
    "cross": lambda t, x: t.linalg.cross(x, x[1, :]),
    "trace": lambda t, x: t.linalg.trace(x, offset=1),
    "diagonal": lambda t, x: t.linalg.diagonal(x),
}


def _case(name: str, dtype: str) -> Any:
    largest = int(np.iinfo(dtype).max)
    values = np.array([[0, largest, 3], [largest // 2 + 2, 3, largest - 1]], dtype)
    function = FUNCTIONS[name]
    takes_places = function.__code__.co_argcount == 3
    return function, [values, PLACES] if takes_places else [values]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_agrees_with_the_strict_namespace(name: str, dtype: str) -> None:
    with np.errstate(over="ignore"):
        check(_case(name, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_gives_the_same_bits(name: str, dtype: str) -> None:
    check_compiled(_case(name, dtype))
