"""Which bin values lie in, and what occurs how often."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from eagerjit.calling.arguments import settled
from eagerjit.calling.dispatch import Op, emit
from eagerjit.calling.kinds import are_operands
from eagerjit.calling.public import named_once, public
from eagerjit.calling.results import returned
from eagerjit.compiler.ops import indexing
from eagerjit.ops import conditions, counted, searching, views
from eagerjit.ops.counted import measured
from eagerjit.ops.pointwise import as_dtype
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import arange, full
from eagerjit.tensors.outputs import write_out
from eagerjit.tensors.promotion import TYPE_NAMES, number_dtype
from eagerjit.tensors.tensor import Tensor, new_tensor


def _as_values(values: Any, like: Tensor) -> Tensor:
    """Values, or a number, as a tensor."""
    if isinstance(values, Tensor):
        return values
    if isinstance(values, (SymbolicInt, TracedFloat)) and (like.dtype.is_floating_point or like.dtype is dtypes.int64):
        return _of_trace(values, like.dtype)
    same = like.dtype.is_floating_point or isinstance(values, int)
    with np.errstate(over="ignore"):
        return new_tensor(np.asarray(values, like.dtype.numpy if same else np.float32))


def _sought(ordered: Tensor, values: Tensor, right: bool) -> Tensor:
    """Where values would go. Raises NotImplementedError for complex numbers."""
    for x in (ordered, values):
        if x.dtype.is_complex:
            raise NotImplementedError(f"\"searchsorted_out_cpu\" not implemented for '{TYPE_NAMES[x.dtype]}'")
    return searching.searchsorted.call(ordered, values, right)


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
    found = _sought(sorted_sequence, values, right or side == "right")
    found = found.int() if out_int32 else found
    return found if out is None else write_out("searchsorted", found, out)


def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False, out: Tensor | None = None
) -> Tensor:
    """The number of the bucket, between sorted boundaries, that each value lies in."""
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"torch.searchsorted(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})"
        )
    values = _as_values(input, boundaries)
    found = _sought(boundaries, values, right)
    found = found.int() if out_int32 else found
    return found if out is None else write_out("searchsorted", found, out)


def _of_trace(number: SymbolicInt | TracedFloat, wanted: dtypes.DType) -> Tensor:
    """A number of the trace as a tensor; NumPy takes ints for float64s before it rounds them."""
    if isinstance(number, SymbolicInt) and not wanted.is_floating_point:
        return full((), number, dtype=wanted)
    kind = dtypes.int64 if isinstance(number, SymbolicInt) else dtypes.float64
    wide = as_dtype(full((), number, dtype=kind), dtypes.float64)
    return as_dtype(wide, wanted if wanted.is_floating_point else dtypes.float32)


def _range(x: Tensor, low: Any, high: Any, margin: float) -> tuple[Tensor, Tensor]:
    """Two ends: those given or, if they are one, those of x; apart by a margin where they meet."""
    first, last = (as_dtype(end, x.dtype) for end in (low, high))
    if x.shape[0] == 0:
        return first, last.where(first != last, first + 1.0)
    given = first != last
    first, last = first.where(given, x.amin()), last.where(given, x.amax())
    finite = first.isfinite().logical_and(last.isfinite())
    first = conditions.required(finite, first, "RuntimeError", "histogram: range of the values is not finite")
    meet = first == last
    return (first - margin).where(meet, first), (last + margin).where(meet, last)


def _counted(x: Tensor, place: Tensor, inside: Tensor, count: Any, weight: Tensor | None) -> Tensor:
    """How often each place below `count` occurs, or the sum of weights, of what lies inside."""
    value = as_dtype(inside, x.dtype) if weight is None else weight.reshape(-1).where(inside, 0.0)
    base = x.new_zeros((count,))
    return emit(indexing.scatter_add, base, place.where(inside, 0).clamp(min=0, max=count - 1), value, dim=0)


def _histc(input: Tensor, bins: int, low: Any, high: Any) -> Tensor:
    """How many elements each of equal bins has; elements out of range do not count."""
    x = input.reshape(-1)
    first, last = _range(x, low, high, 1.0)
    inside = (x >= first).logical_and(x <= last)
    place = ((x - first) * float(bins) / (last - first)).where(inside, 0.0)
    return _counted(x, as_dtype(place, dtypes.int64), inside, bins, None)


_histc_op = Op("histc", _histc, numbers=("low", "high"), differentiable=False)


def _as_float(number: Any) -> Any:
    """A number as a float, one of the trace as one of the trace."""
    is_traced = isinstance(number, (SymbolicInt, TracedFloat))
    return number * 1.0 if is_traced else float(number)


@public
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of `bins` equal bins from min to max (those of input if both are 0)."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"histogram_cpu" not implemented for {input.dtype}')
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    if min > max:
        raise RuntimeError(f"torch.histc: max must be larger than min, got {min} and {max}")
    low, high = _as_float(min), _as_float(max)
    if not (-math.inf < low < math.inf and -math.inf < high < math.inf):
        raise RuntimeError(f"torch.histc: range of [{low}, {high}] is not finite")
    return _histc_op.call(input, int(bins), low, high)


@returned("histogram")
class Histogram(NamedTuple):
    """The result of `histogram`."""

    hist: Tensor
    bin_edges: Tensor


def _histogram(
    input: Tensor, bins: Any, low: Any, high: Any, weight: Tensor | None, density: bool
) -> tuple[Tensor, Tensor]:
    """Counts per bin and the edges of the bins."""
    x = input.reshape(-1)
    if isinstance(bins, Tensor):
        edges = as_dtype(bins, x.dtype)
    else:
        first, last = _range(x, low, high, 0.5)
        place = as_dtype(arange(bins + 1), x.dtype)
        step = (last - first) / float(bins)
        edges = (first + step * place).where(place < float((bins + 1) // 2), last - step * (float(bins) - place))
    count = edges.shape[0] - 1
    last = edges[-1]
    place = searching.places(edges, x, True) - 1
    inside = (x >= edges[0]).logical_and(x <= last)
    hist = _counted(x, place.where(x != last, count - 1), inside, count, weight)
    if density:
        hist = hist / hist.sum() / (edges[1:] - edges[:-1])
    return hist, edges


_histogram_op = Op("histogram", _histogram, numbers=("low", "high"), differentiable=False)


@public
def histogram(
    input: Tensor, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Histogram:
    """Counts (or sums of weights) per bin: `bins` equal ones over a range, or between the edges given."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"histogram_cpu" not implemented for {input.dtype}')
    if isinstance(bins, int) and bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    low, high = (0.0, 0.0) if range is None else map(float, range)
    if low > high:
        raise RuntimeError(f"torch.histogram(): max must be larger than min, but got range [{low}, {high}]")
    return Histogram(*_histogram_op.call(input, bins, low, high, weight, density))


@public
def isin(
    elements: Any = None, test_elements: Any = None, *, assume_unique: bool = False, invert: bool = False,
    element: Any = None, test_element: Any = None,
) -> Tensor:  # fmt: skip
    """Which elements occur among the test elements; either may be a number, then also named in the singular."""
    elements = named_once("isin", elements=elements, element=element)
    test_elements = named_once("isin", test_elements=test_elements, test_element=test_element)
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin() received an invalid combination of arguments: one of them must be a Tensor")
    for x in (elements, test_elements):
        if not are_operands((x,)):
            raise TypeError(f"isin() takes Tensors and Numbers, but got {type(x).__name__}")
        dtype = x.dtype if isinstance(x, Tensor) else number_dtype(settled(x))
        if dtype is dtypes.bool_ or dtype.is_complex:
            raise RuntimeError(f"Unsupported input type encountered for isin(): {dtype}")
    if not isinstance(elements, Tensor):
        elements = new_tensor(np.asarray(elements))
    if not isinstance(test_elements, Tensor):
        found = elements == test_elements
        return found.logical_not() if invert else found
    return searching.isin.call(elements, test_elements, bool(invert))


unique, bincount = public(counted.unique), public(counted.bincount)


@public
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Runs of equal elements (or of equal slices along a dimension) as one each."""
    if input.dtype.is_complex:
        name = "unique" if dim is None else "unique_dim"
        raise NotImplementedError(f"\"{name}\" not implemented for '{TYPE_NAMES[input.dtype]}'")
    d = None if dim is None else views.dimension(dim, input.ndim)
    if d is not None and any(n == 0 for i, n in enumerate(input.shape) if i != d):
        raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    x = input.reshape(-1) if d is None else input
    fresh, number = counted.run_starts.call(x, d or 0)
    count = measured(number, "the number of unique elements depends on values")
    found = counted.runs.call(x, fresh, d or 0, count, bool(return_inverse), bool(return_counts))
    if d is not None or not return_inverse:
        return found
    return found[0], found[1].reshape(input.shape), *found[2:]
