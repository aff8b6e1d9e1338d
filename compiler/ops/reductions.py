"""Reductions over a run of adjacent axes; the public ops split other axis sets into such runs, innermost first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eagerjit.compiler import sizes
from eagerjit.compiler.ir import TensorType
from eagerjit.compiler.ops.declare import Derivative, Primitive, declare
from eagerjit.runtime import dtypes

Axes = tuple[int, ...]


def _reduction(
    name: str, accumulator: str, reference: Callable[..., Any], rule: Derivative, doc: str, result: str = "same"
) -> Primitive:
    """Declare a reduction: `axes` are sorted, adjacent and non-negative (for positions also last); they vanish."""

    def type_rule(x: TensorType, axes: Axes) -> TensorType:
        rank = len(x.shape)
        if not axes or axes != tuple(range(axes[0], axes[-1] + 1)) or axes[-1] >= rank:
            raise ValueError(f"{name}: axes {axes} of a {rank}-dimensional tensor are not adjacent")
        if result == "index" and axes[-1] != rank - 1:
            raise ValueError(f"{name}: axes {axes} of a {rank}-dimensional tensor are not its last")
        extent = sizes.product(tuple(x.shape[a] for a in axes))
        if accumulator not in IDENTITY and extent == 0:
            raise ValueError(f"{name}: cannot reduce over a dimension of size 0")
        shape = tuple(d for i, d in enumerate(x.shape) if i not in axes)
        return TensorType(dtypes.int64 if result == "index" else x.dtype, shape)

    def compute(x: np.ndarray, axes: Axes) -> np.ndarray:
        out = reference(x, axes)
        return np.asarray(out, dtype=np.int64 if result == "index" else x.dtype)

    return declare(Primitive(name, "reduction", type_rule, compute, doc, scalar=accumulator, derivative=(rule,)))


IDENTITY = {"add": 0, "mul": 1, "and": True, "or": False}
"""What reducing nothing gives; the other accumulators refuse."""


def _flat_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """argmax or argmin over adjacent axes, as an index into them flattened."""

    def compute(x: np.ndarray, axes: Axes) -> Any:
        kept = [d for i, d in enumerate(x.shape) if i not in axes]
        moved = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim)).reshape(*kept, -1)
        return function(moved, axis=-1)

    return compute


def _restore(g: Any, axes: Axes) -> Any:
    """A reduced tensor viewed with its axes back, of size 1."""
    for axis in axes:
        g = g.unsqueeze(axis)
    return g


def _extreme_rule(g: Any, out: Any, x: Any, axes: Axes) -> Any:
    """Gradient shared equally among the elements that attain the extreme, as PyTorch's amax does."""
    hit = x == _restore(out, axes)
    count = hit.to(g.dtype).sum(axes, keepdim=True)
    return (_restore(g, axes) / count).where(hit, 0.0)


def _product_rule(g: Any, out: Any, x: Any, axes: Axes) -> Any:
    """The product of all others: out / x, and where there are zeros the product of the rest if there is only one."""
    zero = x == 0.0
    zeros = zero.to(g.dtype).sum(axes, keepdim=True)
    others = x.where(zero.logical_not(), 1.0)
    rest = others
    for axis in reversed(axes):
        rest = rest.prod(axis, keepdim=True)
    factor = (rest / others).where((zeros == 0.0).logical_or((zeros == 1.0).logical_and(zero)), 0.0)
    return _restore(g, axes) * factor


sum_ = _reduction(
    "sum",
    "add",
    lambda x, axes: x.sum(axis=axes, dtype=np.float64 if x.dtype.kind in "fV" else None),
    lambda g, out, x, axes: _restore(g, axes).expand(x.shape),
    "Sum over adjacent axes.",
)
prod = _reduction(
    "prod",
    "mul",
    lambda x, axes: np.ascontiguousarray(x).prod(axis=axes),  # NumPy goes by strides, products round by order
    _product_rule,
    "Product over adjacent axes.",
)
amax = _reduction("amax", "maximum", lambda x, axes: x.max(axis=axes), _extreme_rule, "Largest element; NaN wins.")
amin = _reduction("amin", "minimum", lambda x, axes: x.min(axis=axes), _extreme_rule, "Smallest element; NaN wins.")
all_ = _reduction("all", "and", lambda x, axes: x.all(axis=axes), None, "Whether all of a bool tensor hold.")
any_ = _reduction("any", "or", lambda x, axes: x.any(axis=axes), None, "Whether any of a bool tensor holds.")
argmax = _reduction(
    "argmax", "argmax", _flat_argument(np.argmax), None, "Index of the first largest element.", result="index"
)
argmin = _reduction(
    "argmin", "argmin", _flat_argument(np.argmin), None, "Index of the first smallest element.", result="index"
)
