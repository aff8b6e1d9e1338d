"""Searches, by routines of the native runtime: places in sorted rows, extremes so far, where a condition holds."""

from __future__ import annotations

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import TensorType
from eagerjit.compiler.ops.declare import Primitive, declare
from eagerjit.runtime import dtypes

KEYS = (dtypes.float32, dtypes.float64, dtypes.int64)
"""What these compare; others are converted."""


def _search_type(ordered: TensorType, values: TensorType, right: bool, increasing: bool = False) -> TensorType:
    if ordered.dtype is not values.dtype or ordered.dtype not in KEYS:
        raise ValueError(f"search: no {values} in {ordered}")
    if len(ordered.shape) != len(values.shape) or not all(map(sizes.equal, ordered.shape[:-1], values.shape[:-1])):
        raise ValueError(f"search: rows of {values} in rows of {ordered}")
    return TensorType(dtypes.int64, values.shape)


def _search_reference(ordered: np.ndarray, values: np.ndarray, right: bool, increasing: bool = False) -> np.ndarray:
    out = np.empty(values.shape, np.int64)
    for place in np.ndindex(values.shape):
        row, value = ordered[place[:-1]], values[place]
        low, high = 0, len(row)
        while low < high:
            middle = (low + high) // 2
            if row[middle] > value if right else row[middle] >= value:
                high = middle
            else:
                low = middle + 1
        out[place] = low
    return out


search = declare(
    Primitive(
        "search",
        "routine",
        _search_type,
        _search_reference,
        "How many elements of a sorted row come before each value, equal ones too with `right`. Values may increase.",
        derivative=(None, None),
        cost=40,
        traits=frozenset({"exact"}),
    )
)


def _running_type(x: TensorType, dim: int, largest: bool) -> TensorType:
    if x.dtype not in KEYS or not 0 <= dim < len(x.shape):
        raise ValueError(f"running: none of {x} along dimension {dim}")
    return TensorType(dtypes.int64, x.shape)


def _running_reference(x: np.ndarray, dim: int, largest: bool) -> np.ndarray:
    values = (np.maximum if largest else np.minimum).accumulate(x, axis=dim)
    hit = (x == values) | (x != x)
    place = np.arange(x.shape[dim]).reshape([-1 if i == dim else 1 for i in range(x.ndim)])
    return np.maximum.accumulate(np.where(hit, place, 0), axis=dim)


running = declare(
    Primitive(
        "running",
        "routine",
        _running_type,
        _running_reference,
        "Where along dim the largest (or smallest) element up to each is, the last of equal ones; NaN is either.",
        derivative=(None,),
        cost=4,
        traits=frozenset({"exact"}),
    )
)


def _recurrence_type(a: TensorType, b: TensorType, dim: int) -> TensorType:
    same = len(a.shape) == len(b.shape) and all(map(sizes.equal, a.shape, b.shape))
    if not same or {a.dtype, b.dtype} != {dtypes.float64} or not 0 <= dim < len(a.shape):
        raise ValueError(f"recurrence: none of {a} and {b} along dimension {dim}")
    return a


def _recurrence_reference(a: np.ndarray, b: np.ndarray, dim: int) -> np.ndarray:
    out = np.zeros_like(b)
    total = np.zeros(b.shape[:dim] + b.shape[dim + 1 :])
    for i in range(b.shape[dim]):
        place = (slice(None),) * dim + (i,)
        total = a[place] * total + b[place]
        out[place] = total
    return out


recurrence = declare(
    Primitive(
        "recurrence",
        "routine",
        _recurrence_type,
        _recurrence_reference,
        "h[i] = a[i] * h[i-1] + b[i] along dim, from h = 0 on.",
        derivative=(None, None),
        cost=4,
    )
)


def _positions_type(flags: TensorType, count: sizes.Expr) -> TensorType:
    if flags.dtype is not dtypes.bool_ or len(flags.shape) != 1:
        raise ValueError(f"positions: the flags must be a row of bools, not {flags}")
    return TensorType(dtypes.int64, (count,))


positions = declare(
    Primitive(
        "positions",
        "routine",
        _positions_type,
        lambda flags, count: np.flatnonzero(flags),
        "Where flags hold, in order; as many of them as `count` says do.",
        derivative=(None,),
        cost=2,
        traits=frozenset({"exact"}),
    )
)
