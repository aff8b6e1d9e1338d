"""Windows sliding over spatial dimensions: which there are, and sums and maxima of what they see.

A tap is a place in the window: what all windows see there is a strided slice, so that a reduction over windows is
elementwise operations on slices, one fused loop. Larger windows are reduced along one dimension after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from eagerjit.calling.spatial import SpatialOp
from eagerjit.ops import views
from eagerjit.ops.padding import surrounded
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import arange
from eagerjit.tensors.tensor import Tensor

Numbers = tuple[int, ...]
FLAT_TAPS = 16
"""Windows of more taps are reduced dimension by dimension."""


def count(size: Any, kernel: int, stride: int, padding: int, dilation: int = 1, ceil_mode: bool = False) -> Any:
    """How many windows there are along a dimension; with `ceil_mode` also the last one that begins within."""
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return free // stride + 1
    windows = (free + stride - 1) // stride + 1
    return windows - 1 if (windows - 1) * stride >= size + padding else windows


def bordered(input: Tensor, windows: Any, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers,
              value: Any) -> Tensor:  # fmt: skip
    """The input with the border that its windows reach into."""
    before, after = [0, 0], [0, 0]
    for size, n, k, s, p, d in zip(input.shape[2:], windows, kernel, stride, padding, dilation, strict=True):
        missing = (n - 1) * s + d * (k - 1) + 1 - size - p
        before.append(p)
        after.append(missing if missing > 0 else 0)
    if all(type(n) is int and n == 0 for n in (*before, *after)):
        return input
    return surrounded(input, before, after, value=value)


def taps_of(input: Tensor, windows: Any, kernel: Numbers, stride: Numbers, dilation: Numbers) -> Iterator[Any]:
    """Every tap with what the windows see there."""
    for tap in product(*map(range, kernel)):
        seen = input
        for axis, (t, n, s, d) in enumerate(zip(tap, windows, stride, dilation, strict=True)):
            seen = views.slice_dim(seen, axis + 2, t * d, t * d + (n - 1) * s + 1, s)
        yield tap, seen


def _passes(kernel: Numbers) -> list[Numbers]:
    """The dimensions that are reduced at once: all together, or one after the other, the first first."""
    dims = tuple(range(len(kernel)))
    few = math.prod(kernel) <= FLAT_TAPS or sum(k > 1 for k in kernel) < 2
    return [dims] if few else [(d,) for d in dims]


def _part(dims: Numbers, x: Tensor, windows: Any, kernel: Numbers, stride: Numbers) -> tuple[Any, Numbers, Numbers]:
    """Windows, kernel and stride of a pass that reduces these dimensions alone."""
    along = [d in dims for d in range(len(kernel))]
    counts = tuple(w if a else n for w, n, a in zip(windows, x.shape[2:], along, strict=True))
    sizes, steps = ([v if a else 1 for v, a in zip(values, along, strict=True)] for values in (kernel, stride))
    return counts, tuple(sizes), tuple(steps)


# -- sums -------------------------------------------------------------------------------------------------------------


def _total(x: Tensor, windows: Any, kernel: Numbers, stride: Numbers) -> Tensor:
    for dims in _passes(kernel):
        counts, part, steps = _part(dims, x, windows, kernel, stride)
        total = None
        for _, seen in taps_of(x, counts, part, steps, (1,) * len(kernel)):
            total = seen if total is None else total + seen
        assert total is not None
        x = total
    return x if any(k > 1 for k in kernel) else x.clone()


def _window_sum(input: Tensor, size: Any, kernel: Numbers, stride: Numbers, padding: Numbers) -> Tensor:
    """The sums over windows of (batch, channels, ...), `size` of them per dimension; zeros around."""
    windows = tuple(size)
    x = bordered(input, windows, kernel, stride, padding, (1,) * len(kernel), 0)
    return _total(x, windows, kernel, stride)


def _window_spread(input: Tensor, size: Any, kernel: Numbers, stride: Numbers, padding: Numbers) -> Tensor:
    """Every window's number added to all places it sees of spatial sizes `size`: the transpose of `window_sum`."""
    before, after = [0, 0], [0, 0]
    for n, windows, k, s, p in zip(size, input.shape[2:], kernel, stride, padding, strict=True):
        missing = n + p - (windows - 1) * s - 1
        before.append(k - 1 - p)
        after.append(missing if missing > 0 else 0)
    spread = surrounded(input, before, after, (1, 1, *stride))
    return _total(spread, tuple(size), kernel, (1,) * len(kernel))


window_sum = SpatialOp(
    "window_sum",
    _window_sum,
    (lambda g, out, input, size, *how: window_spread.call(g, tuple(input.shape[2:]), *how), *(None,) * 4),
    shapes=("size",),
)
window_spread = SpatialOp(
    "window_spread",
    _window_spread,
    (lambda g, out, input, size, *how: window_sum.call(g, tuple(input.shape[2:]), *how), *(None,) * 4),
    shapes=("size",),
)


# -- sums of windows that lie side by side and see every place --------------------------------------------------------


def _block_sum(input: Tensor, kernel: Numbers) -> Tensor:
    """The sums over the blocks of (batch, channels, ...)."""
    return _total(input, tuple(n // k for n, k in zip(input.shape[2:], kernel, strict=True)), kernel, kernel)


def _block_spread(input: Tensor, kernel: Numbers) -> Tensor:
    """Every number in all places of its block: the transpose of `block_sum`."""
    shape, wide = [*input.shape[:2]], [*input.shape[:2]]
    for n, k in zip(input.shape[2:], kernel, strict=True):
        shape += [n, 1]
        wide += [n, k]
    size = [n * k for n, k in zip(input.shape[2:], kernel, strict=True)]
    return input.reshape(shape).expand(wide).reshape((*input.shape[:2], *size))


block_sum = SpatialOp("block_sum", _block_sum, (lambda g, out, input, kernel: block_spread.call(g, kernel), None))
block_spread = SpatialOp("block_spread", _block_spread, (lambda g, out, input, kernel: block_sum.call(g, kernel), None))


# -- maxima -----------------------------------------------------------------------------------------------------------


def lowest(dtype: Any) -> Any:
    """What every number of a dtype is at least."""
    if dtype.is_floating_point:
        return -float("inf")
    return bool(0) if dtype is dtypes.bool_ else int(np.iinfo(dtype.numpy).min)


def better(value: Tensor, best: Tensor) -> Tensor:
    """Whether a value takes the place of the best so far: NaN does, as in PyTorch, an equal one does not."""
    larger = value > best
    return larger.logical_or(value != value) if value.dtype.is_floating_point else larger


def window_maximum(
    input: Tensor, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, ceil_mode: bool, indexed: bool
) -> tuple[Tensor, Tensor | None]:
    """(the largest number in each window, where it is among the spatial places, in row-major order; if `indexed`)."""
    sizes = input.shape[2:]
    windows = tuple(
        count(n, k, s, p, d, ceil_mode) for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    )
    x = bordered(input, windows, kernel, stride, padding, dilation, lowest(input.dtype))
    rank = len(kernel)
    steps = [1] * rank  # from one place to the next along each dimension
    for d in reversed(range(rank - 1)):
        steps[d] = steps[d + 1] * sizes[d + 1]
    offset = None  # of the best so far from the window's first place
    # Among equal numbers the first in row-major order wins: rows are reduced first.
    for dims in reversed(_passes(kernel)):
        counts, part, strides = _part(dims, x, windows, kernel, stride)
        best = chosen = None
        offsets = None if offset is None else taps_of(offset, counts, part, strides, dilation)
        for tap, seen in taps_of(x, counts, part, strides, dilation):
            place = None
            if indexed:
                moved = sum(t * d * s for t, d, s in zip(tap, dilation, steps, strict=True))
                place = seen.new_full((), moved, dtype=dtypes.int32)
                place = place if offsets is None else place + next(offsets)[1]
            if best is None:
                best, chosen = seen, place
                continue
            take = better(seen, best)
            best = seen.where(take, best)
            chosen = place if chosen is None or place is None else place.where(take, chosen)
        assert best is not None
        x, offset = best, chosen
    if not indexed:
        return (x if any(k > 1 for k in kernel) else x.clone()), None
    assert offset is not None
    first: Any = 0
    inside: Any = 0
    for d in range(rank):
        start = arange(windows[d]) * stride[d] - padding[d]
        shape = (-1, *(1,) * (rank - 1 - d))
        first = first + (start * steps[d]).reshape(shape)
        inside = inside + (_inside(start, dilation[d]) * steps[d]).reshape(shape)
    places = offset + first
    if any(padding):  # where nothing is larger than the border, the first place beside it counts
        places = inside.where(x == lowest(x.dtype), places)
    return (x if any(k > 1 for k in kernel) else x.clone()), places.expand(x.shape).contiguous()


MOST_SEEING = 36
"""Windows that see one place, up to which `chosen_spread` looks at them all."""


def chosen_spread(
    values: Any, places: Any, size: Any, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers
) -> Any:
    """Every window's number added to the place of spatial sizes `size` that it names; None where many windows see one.

    Each place looks at the windows that may see it, in their order: what a scatter gives, without one.
    """
    size = tuple(size)
    behind = [(k - 1) * d // s for k, s, d in zip(kernel, stride, dilation, strict=True)]
    if math.prod(b + 1 for b in behind) > MOST_SEEING:
        return None
    rows = [(n + p + s - 1) // s for n, s, p in zip(size, stride, padding, strict=True)]  # of places a stride apart
    after = [n - w if n != w else 0 for n, w in zip(rows, values.shape[2:], strict=True)]
    if any(behind) or any(type(n) is not int or n != 0 for n in after):
        border = [0, 0, *behind], [0, 0, *after]
        values, places = surrounded(values, *border), surrounded(places, *border, value=-1)
    own: Any = 0
    for n, r, s, p in zip(size, rows, stride, padding, strict=True):
        along = arange(r * s, device=values.device).reshape((r, s)) - p
        own = own * n if type(own) is int else (own * n).reshape((*own.shape, 1, 1))
        own = own + along
    shape, wide = [*values.shape[:2]], [*values.shape[:2]]
    for r, s in zip(rows, stride, strict=True):
        shape, wide = [*shape, r, 1], [*wide, r, s]
    total: Any = 0
    for back in product(*(range(b + 1) for b in behind)):
        value, place = values, places
        for d, (first, r) in enumerate(zip(back, rows, strict=True)):
            value, place = (views.slice_dim(x, d + 2, first, first + r) for x in (value, place))
        value, place = (x.reshape(shape).expand(wide) for x in (value, place))
        total = total + value.where(place == own, 0)
    total = total.reshape((*values.shape[:2], *(r * s for r, s in zip(rows, stride, strict=True))))
    for d, (n, p) in enumerate(zip(size, padding, strict=True)):
        total = views.slice_dim(total, d + 2, p, p + n)
    return total


def _inside(start: Tensor, dilation: int) -> Tensor:
    """The first places that windows see behind the border, from those where they begin."""
    behind = (-start).clamp(min=0)
    return start + (behind if dilation == 1 else (behind + (dilation - 1)) // dilation * dilation)
