"""What loops of ours do not compute but routines of the native runtime do: scans and orders along one dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import TensorType
from eagerjit.compiler.ops.declare import Primitive, declare
from eagerjit.runtime import dtypes, mode

SCANS: dict[str, Any] = {"add": np.cumsum, "mul": np.cumprod}
SCANNED = (dtypes.float32, dtypes.float64, dtypes.int64)
"""What scans work on; others are converted."""


def _scan_type(x: TensorType, dim: int, combine: str) -> TensorType:
    if x.dtype not in (*SCANNED, *dtypes.COMPLEX) or combine not in SCANS or not 0 <= dim < len(x.shape):
        raise ValueError(f"scan: no {combine!r} of {x} along dimension {dim}")
    return x


def _scan_reference(x: np.ndarray, dim: int, combine: str) -> np.ndarray:
    wide = x.astype(np.float64) if x.dtype == np.float32 else x
    out = SCANS[combine](wide, dim)
    if combine == "add":
        out = out + wide.dtype.type(0)  # sums start from 0.0, products from 1.0
    return out.astype(x.dtype)


def backwards(g: Any, dim: int) -> Any:
    """Sums of all elements from each on."""
    return g.flip(dim).cumsum(dim).flip(dim)


def product_rule(g: Any, out: Any, x: Any, dim: int) -> Any:
    """Later products without this factor: quotients before the first zero, and what that zero has hidden from it on."""
    zero = x == 0
    count = zero.long().cumsum(dim)
    first = zero.logical_and(count == 1)
    factor = x.where(zero.logical_not(), 1.0)
    before = backwards(g * out, dim) / factor
    rest = backwards(g * x.where(first.logical_not(), 1.0).cumprod(dim), dim)
    # After the first zero all is 0, but as a product with that zero: it has a derivative.
    hidden = (x * first).sum(dim, keepdim=True)
    after = (rest * hidden / factor).where(zero.logical_not(), 0.0)
    if mode.grad_mode():
        second = zero.logical_and(count == 2)
        either = first.logical_or(second)
        visible = backwards(g * x.where(either.logical_not(), 1.0).cumprod(dim), dim)
        after = after.where(second.logical_not(), visible * hidden)
    return before.where(count == 0, rest.where(first, after))


def _scan_derivative(g: Any, out: Any, x: Any, dim: int, combine: str) -> Any:
    return backwards(g, dim) if combine == "add" else product_rule(g, out, x, dim)


scan = declare(
    Primitive(
        "scan",
        "routine",
        _scan_type,
        _scan_reference,
        "All elements up to each along dim combined in order, floats in double precision.",
        derivative=(_scan_derivative,),
        cost=4,
    )
)


def _order_type(x: TensorType, dim: int, count: sizes.Expr, descending: bool) -> TensorType:
    if x.dtype not in (*dtypes.ALL, *dtypes.COMPLEX) or not 0 <= dim < len(x.shape):
        raise ValueError(f"order: none of {x} along dimension {dim}")
    return TensorType(dtypes.int64, (*x.shape[:dim], count, *x.shape[dim + 1 :]))


def _order_reference(x: np.ndarray, dim: int, count: int, descending: bool) -> np.ndarray:
    keys = x.astype(np.float32) if x.dtype == dtypes.bfloat16.numpy else x
    if descending:
        order = x.shape[dim] - 1 - np.flip(np.argsort(np.flip(keys, dim), dim, kind="stable"), dim)
    else:
        order = np.argsort(keys, dim, kind="stable")
    return np.ascontiguousarray(order[(slice(None),) * dim + (slice(0, count),)])


order = declare(
    Primitive(
        "order",
        "routine",
        _order_type,
        _order_reference,
        "Where the first `count` elements along dim are, from the smallest (or largest) on; equal ones in their order.",
        derivative=(None,),
        cost=40,
        traits=frozenset({"exact"}),
    )
)
