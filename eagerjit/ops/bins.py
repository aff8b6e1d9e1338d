"""Which bin values lie in, and what occurs how often."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from eagerjit.calling import public
from eagerjit.ops import counted, views
from eagerjit.ops.counted import measured
from eagerjit.ops.host import HostOp
from eagerjit.runtime import dtypes
from eagerjit.state import state
from eagerjit.tensor import Tensor, new_tensor


def _found(boundaries: np.ndarray, values: np.ndarray, right: bool) -> np.ndarray:
    """Where values go in sorted rows."""
    side: Any = "right" if right else "left"
    if boundaries.ndim == 1:
        return np.asarray(np.searchsorted(boundaries, values, side=side), np.int64)
    values = np.broadcast_to(values, (*boundaries.shape[:-1], values.shape[-1]))
    out = np.empty(values.shape, np.int64)
    for row in np.ndindex(boundaries.shape[:-1]):
        out[row] = np.searchsorted(boundaries[row], values[row], side=side)
    return out


_searchsorted = HostOp(
    "searchsorted",
    _found,
    differentiable=False,
    types=lambda boundaries, values, right: (
        dtypes.int64,
        values.shape if boundaries.ndim == 1 else (*boundaries.shape[:-1], values.shape[-1]),
    ),
    on_host="searches in sorted numbers",
)
_searchsorted.leading = True


def _places(boundaries: Tensor, values: Tensor, right: bool) -> Tensor:
    """Where values go in sorted rows; in one row any number of values, which a recording sees as a row as well."""
    if state.tracer is None or boundaries.ndim > 1 or values.ndim == 1:
        return _searchsorted.call(boundaries, values, right)
    return _searchsorted.call(boundaries, values.reshape(-1), right).reshape(values.shape)


def _as_values(values: Any, like: Tensor) -> Tensor:
    """Values, or a number, as a tensor."""
    if isinstance(values, Tensor):
        return values
    same = like.dtype.is_floating_point or isinstance(values, int)
    return new_tensor(np.asarray(values, like.dtype.numpy if same else np.float32))


def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tensor | None = None, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where values would go in sorted rows to keep them sorted: before equal ones, or after with `right`."""
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    values = _as_values(input, sorted_sequence)
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape:
            raise RuntimeError("torch.searchsorted(): boundary and sorter must have the same size")
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    if sorted_sequence.ndim == 0:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
        )
    if sorted_sequence.ndim != 1 and tuple(sorted_sequence.shape[:-1]) != tuple(values.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {list(sorted_sequence.shape)} and "
            f"input value tensor {list(values.shape)}"
        )
    found = _places(sorted_sequence, values, right or side == "right")
    found = found.int() if out_int32 else found
    return found if out is None else out.copy_(found)


def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False, out: Tensor | None = None
) -> Tensor:
    """The number of the bucket, between sorted boundaries, that each value lies in."""
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"torch.searchsorted(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})"
        )
    values = _as_values(input, boundaries)
    found = _places(boundaries, values, right)
    found = found.int() if out_int32 else found
    return found if out is None else out.copy_(found)


def _histc_array(input: np.ndarray, bins: int, low: float, high: float) -> np.ndarray:
    """How many elements each of equal bins has; elements out of range do not count."""
    x = input.reshape(-1).astype(np.float64)
    if low == high:
        low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 0.0)
    if low == high:
        low, high = low - 1.0, high + 1.0
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histc: range of [{low}, {high}] is not finite")
    inside = x[(x >= low) & (x <= high)]
    place = np.minimum(((inside - low) / (high - low) * bins).astype(np.int64), bins - 1)
    return np.bincount(place, minlength=bins).astype(input.dtype)


_histc = HostOp(
    "histc",
    _histc_array,
    differentiable=False,
    types=lambda input, bins, low, high: (input.dtype, (bins,)),
    on_host="searches in sorted numbers",
)


@public
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of `bins` equal bins from min to max (those of input if both are 0)."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"histogram_cpu" not implemented for {input.dtype}')
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if min > max:
        raise RuntimeError(f"torch.histc: max must be larger than min, got {min} and {max}")
    return _histc.call(input, int(bins), float(min), float(max))


class Histogram(NamedTuple):
    """The result of `histogram`."""

    hist: Tensor
    bin_edges: Tensor


def _histogram_arrays(
    input: np.ndarray, bins: Any, bounds: Any, weight: np.ndarray | None, density: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Counts per bin and the edges of the bins."""
    weights = None if weight is None else weight.reshape(-1)
    counts, edges = np.histogram(input.reshape(-1), bins, bounds, density=density, weights=weights)
    return counts.astype(input.dtype), edges.astype(input.dtype)


def _histogram_types(input: Tensor, bins: Any, *rest: Any) -> Any:
    count = bins.shape[0] - 1 if isinstance(bins, Tensor) else bins
    return [(input.dtype, (count,)), (input.dtype, (count + 1,))]


_histogram = HostOp(
    "histogram", _histogram_arrays, differentiable=False, types=_histogram_types, on_host="searches in sorted numbers"
)


@public
def histogram(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Histogram:
    """Counts (or sums of weights) per bin: `bins` equal ones over a range, or between the edges given."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(f'"histogram_cpu" not implemented for {input.dtype}')
    if isinstance(bins, int) and bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    return Histogram(*_histogram.call(input, bins, None if range is None else tuple(range), weight, density))


def _membership(elements: np.ndarray, test_elements: np.ndarray, invert: bool) -> np.ndarray:
    """Which elements occur among others."""
    return np.isin(elements, test_elements, invert=invert)


_isin = HostOp(
    "isin",
    _membership,
    differentiable=False,
    types=lambda elements, *rest: (dtypes.bool_, elements.shape),
    on_host="searches in sorted numbers",
)


@public
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Which elements occur among the test elements; either may be a number."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin() received an invalid combination of arguments: one of them must be a Tensor")
    if not isinstance(elements, Tensor):
        elements = new_tensor(np.asarray(elements))
    if not isinstance(test_elements, Tensor):
        found = elements == test_elements
        return found.logical_not() if invert else found
    return _isin.call(elements, test_elements, bool(invert))


unique, bincount = public(counted.unique), public(counted.bincount)


def _runs_arrays(input: np.ndarray, dim: int | None, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One element (or slice) of each run of equal ones, the run that each belongs to, and how long runs are."""
    rows = input.reshape(-1) if dim is None else np.moveaxis(input, dim, 0)
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    fresh = np.ones(len(flat), bool)
    fresh[1:] = (flat[1:] != flat[:-1]).any(1)
    starts = np.flatnonzero(fresh)
    values = rows[starts] if dim is None else np.moveaxis(rows[starts], 0, dim)
    run = (np.cumsum(fresh) - 1).astype(np.int64)
    return values, run.reshape(input.shape) if dim is None else run, np.diff(np.append(starts, len(flat)))


def _runs_count(input: np.ndarray, dim: int | None) -> np.ndarray:
    """How many runs there are."""
    return np.array(_runs_arrays(input, dim, 0)[2].size, np.int64)


_runs = HostOp(
    "unique_consecutive",
    _runs_arrays,
    differentiable=False,
    types=counted.unique_types,
    on_host="searches in sorted numbers",
)
_run_count = HostOp(
    "unique_consecutive_count",
    _runs_count,
    differentiable=False,
    types=lambda input, dim: (dtypes.int64, ()),
    on_host="searches in sorted numbers",
)


@public
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Runs of equal elements (or of equal slices along a dimension) as one each."""
    d = None if dim is None else views.dimension(dim, input.ndim)
    if d is not None and any(n == 0 for i, n in enumerate(input.shape) if i != d):
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    count: Any = 0
    if state.tracer is not None:
        count = measured(_run_count.call(input, d), "the number of unique elements depends on values")
    values, inverse, counts = _runs.call(input, d, count)
    wanted = (values, *[inverse] * return_inverse, *[counts] * return_counts)
    return wanted[0] if len(wanted) == 1 else wanted
