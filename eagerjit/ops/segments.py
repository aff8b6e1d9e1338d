"""Reductions of segments that lie behind each other, and histograms of points."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from eagerjit.calling.public import public
from eagerjit.calling.results import returned
from eagerjit.ops.bins import searchsorted
from eagerjit.ops.index import cat
from eagerjit.runtime import dtypes
from eagerjit.tensors.conversion import passes
from eagerjit.tensors.creation import arange, full, linspace
from eagerjit.tensors.tensor import Tensor

_NAMES = {"amax": "max", "amin": "min"}
_START = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}
_COMBINE = {"sum": "sum", "mean": "sum", "max": "amax", "min": "amin", "prod": "prod"}


@public
def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    """sum, mean, amax, amin or prod of segments along the last dimension of `lengths`, or between `offsets`.

    Gives, for data (*batch, N, *rest) and lengths (*batch, S), a tensor (*batch, S, *rest). Segments of no elements
    give `initial`, or else the reduction of nothing: 0, NaN, -inf, inf, 1. amax and amin may be called max and min.
    Raises RuntimeError unless lengths add up to N.
    """
    if not isinstance(reduce, str):
        raise TypeError(f"segment_reduce(): argument 'reduce' must be str, not {type(reduce).__name__}")
    reduce = _NAMES.get(reduce, reduce)
    if reduce not in _START:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if not data.dtype.is_floating_point:
        raise NotImplementedError(f'"_segment_reduce_cpu" not implemented for {data.dtype}')
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None:
        if offsets is None:
            raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
        lengths = offsets[..., 1:] - offsets[..., :-1]
    last = lengths.ndim - 1
    if axis != last:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of lengths, {last}, got {axis}")
    size, count = data.shape[axis], lengths.shape[-1]
    ends = lengths.cumsum(-1)
    if not unsafe and count and not passes((ends[..., -1] == size).all().logical_and((lengths >= 0).all())):
        raise RuntimeError(
            f"segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1), {size}, "
            "when !unsafe."
        )
    places = arange(size, device=data.device).expand(*lengths.shape[:-1], size)
    segments = searchsorted(ends, places.contiguous(), right=True)
    rest = (1,) * (data.ndim - lengths.ndim)
    start = _START[reduce] if initial is None else initial
    shape = (*data.shape[:axis], count, *data.shape[axis + 1 :])
    found = full(shape, start, dtype=data.dtype, device=data.device)
    if axis == 0 and _COMBINE[reduce] == "sum":
        found = found.index_add(0, segments, data)  # rows, of which programs of a GPU share those of one segment
    else:
        places = segments.reshape((*segments.shape, *rest)).expand(data.shape)
        found = found.scatter_reduce(axis, places, data, _COMBINE[reduce])
    if reduce != "mean":
        return found
    sizes = lengths.reshape((*lengths.shape, *rest)).to(data.dtype)
    return (found / sizes).where(sizes > 0, math.nan if initial is None else initial)


_segment_reduce = segment_reduce


@returned("histogramdd")
class Histogram(NamedTuple):
    """The result of `histogramdd`."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


@public
def histogramdd(
    input: Tensor, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> Histogram:
    """How many points, the rows (..., D) of input, lie in each cell of a grid: counts or weights, or densities.

    bins    a number of bins, D of these, or D tensors of edges; a last edge belongs to its bin
    range   2 D numbers, the lowest and the highest edge of each dimension; else the least and the largest value
    """
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"histogramdd" not implemented for {input.dtype}')
    if not isinstance(weight, Tensor | None):
        raise TypeError(f"histogramdd(): argument 'weight' must be Tensor, not {type(weight).__name__}")
    if weight is not None and tuple(weight.shape) != tuple(input.shape[:-1]):
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
            f"excluding its innermost dimension, but got input with shape {list(input.shape)} and weight with shape "
            f"{list(weight.shape)}"
        )
    points = input.reshape(-1, input.shape[-1])
    edges = _edges_of_all(points, bins, range)
    places = full((points.shape[0],), 0, dtype=dtypes.int64, device=input.device)
    inside = places == 0
    for i, edge in enumerate(edges):
        x, count = points[:, i].contiguous(), edge.shape[0] - 1
        place = (searchsorted(edge, x, right=True) - 1).where(x != edge[-1], count - 1)
        inside = inside.logical_and(place >= 0).logical_and(place < count)
        places = places * count + place
    shape = [int(e.shape[0]) - 1 for e in edges]
    weights = points.new_ones((points.shape[0],)) if weight is None else weight.reshape(-1)
    weights = weights.where(inside, 0.0)
    found = points.new_zeros((math.prod(shape),)).index_add(0, places.where(inside, 0), weights).reshape(shape)
    if density:
        found = found / found.sum()
        for i, edge in enumerate(edges):
            found = found / edge.diff().reshape([-1 if j == i else 1 for j, _ in enumerate(edges)])
    return Histogram(found, tuple(edges))


def _edges_of_all(points: Tensor, bins: Any, range: Any) -> list[Tensor]:
    """The edges along each dimension of points (N, D). Raises RuntimeError for other than D bins and 2 D limits."""
    dimensions = int(points.shape[1])
    wanted = [bins] * dimensions if isinstance(bins, int) else list(bins)
    if len(wanted) != dimensions:
        raise RuntimeError(
            f"torch.histogramdd: expected {dimensions} sequences of bin edges for a {dimensions}-dimensional histogram "
            f"but got {len(wanted)}"
        )
    if range is not None and len(range) != 2 * dimensions:
        raise RuntimeError(
            f"torch.histogramdd: for a {dimensions}-dimensional histogram range should have {2 * dimensions} elements, "
            f"but got {len(range)}"
        )
    return [
        w if isinstance(w, Tensor) else _edges(points[:, i], i, w, None if range is None else range[2 * i : 2 * i + 2])
        for i, w in enumerate(wanted)
    ]


def _edges(values: Tensor, dimension: int, count: int, limits: Any) -> Tensor:
    """Edges of equal bins. Raises RuntimeError for ends that are not finite, or in the wrong order."""
    if limits is not None:
        low, high = float(limits[0]), float(limits[1])
    elif values.numel():
        low, high = values.min().item(), values.max().item()
    else:
        low, high = 0.0, 1.0
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.histogramdd: dimension {dimension}'s range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"torch.histogramdd: min should not exceed max, but got [{low}, {high}]")
    if low == high:
        low, high = low - 0.5, high + 0.5
    found = linspace(low, high, count + 1, dtype=values.dtype, device=values.device)
    return cat.call([found[:-1], found.new_full((1,), high)], 0)
