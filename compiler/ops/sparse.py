"""A sparse matrix, given row by row, times a dense one: a routine of the native runtime, or a kernel of a GPU."""

from __future__ import annotations

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import TensorType
from eagerjit.compiler.ops.declare import Primitive, declare
from eagerjit.runtime import dtypes

WEIGHED = (dtypes.float32, dtypes.float64)
"""What it multiplies; products of others are composed of other primitives."""


def _type(weights: TensorType, x: TensorType, starts: TensorType, places: TensorType) -> TensorType:
    ranks = [len(t.shape) for t in (weights, x, starts, places)]
    if ranks != [1, 2, 1, 1] or weights.dtype is not x.dtype or weights.dtype not in WEIGHED:
        raise ValueError(f"weighted_rows: no rows of {x} are weighted by {weights}")
    if {starts.dtype, places.dtype} != {dtypes.int64} or not sizes.equal(weights.shape[0], places.shape[0]):
        raise ValueError(f"weighted_rows: entries {weights} at {places}, rows from {starts}")
    return TensorType(x.dtype, (sizes.add(starts.shape[0], -1), x.shape[1]))


def _reference(weights: np.ndarray, x: np.ndarray, starts: np.ndarray, places: np.ndarray) -> np.ndarray:
    out = np.zeros((len(starts) - 1, x.shape[1]), x.dtype)
    np.add.at(out, np.repeat(np.arange(len(out)), np.diff(starts)), weights[:, None] * x[places])
    return out


weighted_rows = declare(
    Primitive(
        "weighted_rows",
        "routine",
        _type,
        _reference,
        "Row i is the sum of weights[e] * x[places[e]] over the entries e from starts[i] to starts[i+1], in order. "
        "All places are rows of x, and starts increase from 0 to the number of entries.",
        derivative=(None, None, None, None),
        cost=8,
    )
)
