"""Adaptive pooling: as many windows as asked for, which cover the input evenly."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from eagerjit.autograd.formal import RELU_LIKE
from eagerjit.calling.spatial import SpatialOp
from eagerjit.ops.activation import widened
from eagerjit.ops.pointwise import as_dtype
from eagerjit.ops.pooling import _named, _pooled, batched, scattered
from eagerjit.ops.reduce import mean
from eagerjit.ops.taps import along, taken
from eagerjit.ops.windows import Numbers, better, block_sum, window_maximum
from eagerjit.runtime.planned import Plan
from eagerjit.tensors.creation import arange
from eagerjit.tensors.mistakes import planned
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor


def _even(x: Tensor, size: Any) -> Numbers | None:
    """The kernel of equal windows that lie side by side; None where the sizes do not divide."""
    if any(n == 0 for n in size) or any(n % s != 0 for n, s in zip(x.shape[2:], size, strict=True)):
        return None
    return tuple(int(n // s) for n, s in zip(x.shape[2:], size, strict=True))


def _bounds(n: Any, size: Any) -> tuple[Tensor, Tensor]:
    """Where each window along a dimension begins and ends."""
    each = arange(size)
    return (each * n) // size, ((each + 1) * n + (size - 1)) // size


def _most(n: Any, size: Any) -> int:
    """The most places that a window sees: it may begin within one and end within another."""
    n, size = int(n), int(size)
    return min(n, (n + size - 1) // size + (1 if size and n % size else 0)) if size else 0


def _adaptive_avg(input: Tensor, size: Any) -> Tensor:
    """The means of `size` windows of (batch, channels, ...)."""
    (x,) = widened(input)
    if any(n == 0 for n in size):
        return input.sum(tuple(range(2, x.ndim)), keepdim=True).expand((*x.shape[:2], *size)).contiguous()
    for axis, wanted in enumerate(size):
        d, n = axis + 2, x.shape[axis + 2]
        start, end = _bounds(n, wanted)
        total = x.new_zeros(tuple(wanted if a == d else m for a, m in enumerate(x.shape)))
        for t in range(_most(n, wanted)):
            seen = taken(x, d, (start + t).clamp(max=n - 1))
            total = total + seen.where(along(start + t < end, d, x.ndim), 0.0)
        x = total / as_dtype(along(end - start, d, x.ndim), x.dtype)
    return as_dtype(x, input.dtype)


def _adaptive_spread(g: Tensor, size: Any) -> Tensor:
    """Every window's number, divided by how many places it sees, added to these: the transpose of the means.

    The last dimension goes first, while the others are short: its neighbours are read from here and there.
    """
    (x,) = widened(g)
    if any(n == 0 for n in g.shape[2:]):
        return g.new_zeros((*g.shape[:2], *size))
    for axis, n in reversed(tuple(enumerate(size))):
        d, windows = axis + 2, x.shape[axis + 2]
        start, end = _bounds(n, windows)
        x = x / as_dtype(along(end - start, d, x.ndim), x.dtype)
        first, last = _bounds(windows, n)  # the windows that see a place
        total = x.new_zeros(tuple(n if a == d else m for a, m in enumerate(x.shape)))
        for t in range(_most(windows, n)):
            seen = taken(x, d, (first + t).clamp(max=windows - 1))
            total = total + seen.where(along(first + t < last, d, x.ndim), 0.0)
        x = total
    return as_dtype(x, g.dtype)


adaptive_avg_op = SpatialOp(
    "adaptive_avg_pool",
    _adaptive_avg,
    (lambda g, out, input, size: adaptive_spread_op.call(g, tuple(input.shape[2:])), None),
    shapes=("size",),
)
adaptive_spread_op = SpatialOp(
    "adaptive_avg_pool_spread",
    _adaptive_spread,
    (lambda g, out, input, size: adaptive_avg_op.call(g, tuple(input.shape[2:])), None),
    shapes=("size",),
)


def _block_mean(input: Tensor, kernel: Numbers) -> Tensor:
    """The means of the blocks of (batch, channels, ...)."""
    (x,) = widened(input)
    return as_dtype(block_sum.call(x, kernel) / math.prod(kernel), input.dtype)


block_mean = SpatialOp("block_mean", _block_mean)
adaptive_avg_op.formal = block_mean.formal = RELU_LIKE


def _mean_of_windows(x: Tensor, size: Any, everywhere: Numbers) -> tuple[Any, ...]:
    """The op that gives the means of `size` windows, and how: its arguments after the input.

    Of one window, and of windows that lie side by side, ops that read every place once; `everywhere` are the spatial
    dimensions.
    """
    if all(n == 1 for n in size):
        return mean, everywhere, True
    kernel = _even(x, size)
    return (adaptive_avg_op, size) if kernel is None else (block_mean, kernel)


def _largest(input: Tensor) -> tuple[Tensor, Tensor]:
    """The largest number that one window sees of all places, and where it is: the first, but of NaNs the last."""
    x = input.flatten(2)
    places = x.argmax(2, True)
    if x.dtype.is_floating_point:
        last = arange(x.shape[2]).where(x != x, -1).amax(2, True)
        places = places.where(last < 0, last)
    shape = (*input.shape[:2], *(1 for _ in input.shape[2:]))
    return x.gather(2, places).reshape(shape), places.reshape(shape)


def _adaptive_max(input: Tensor, size: Any) -> tuple[Tensor, Tensor]:
    """The largest numbers of `size` windows of (batch, channels, ...), and where they are."""
    rank = len(size)
    if any(n == 0 for n in size):
        empty = input.new_zeros((*input.shape[:2], *size))
        return empty, empty.long()
    if all(type(n) is int and n == 1 for n in size):  # without asking how many places there are
        return _largest(input)
    kernel = _even(input, size)
    if kernel is not None:
        values, places = window_maximum(input, kernel, kernel, (0,) * rank, (1,) * rank, False, True)
        assert places is not None
        return values, places
    x, sizes = input, input.shape[2:]
    places = arange(1).reshape((1,) * x.ndim).expand(x.shape)
    step: Any = 1
    for axis in reversed(range(rank)):
        d, n, wanted = axis + 2, sizes[axis], size[axis]
        start, end = _bounds(n, wanted)
        best: Any = None
        chosen: Any = None
        for t in range(max(_most(n, wanted), 1)):
            at = (start + t).clamp(max=n - 1)
            seen = taken(x, d, at)
            place = taken(places, d, at) + along(at, d, x.ndim) * step
            if best is None:
                best, chosen = seen, place
                continue
            take = better(seen, best).logical_and(along(start + t < end, d, x.ndim))
            best, chosen = seen.where(take, best), place.where(take, chosen)
        x, places = best, chosen
        step = step * n
    return x, places


adaptive_max_op = SpatialOp(
    "adaptive_max_pool",
    _adaptive_max,
    (lambda g, out, input, size: scattered(g[0], out[1], input), None),
    shapes=("size",),
)
adaptive_max_op.absent_gradients, adaptive_max_op.results_read, adaptive_max_op.formal = True, (1,), RELU_LIKE
for _op in (adaptive_avg_op, adaptive_spread_op, block_mean, adaptive_max_op):
    _op.ranks, _op.follows = (3, 4), True  # PyTorch takes lines for images of one row


def _sizes(name: str, x: Tensor, output_size: Any, rank: int) -> tuple[Any, ...]:
    """How many windows along each dimension; None keeps the input's size."""
    wanted = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * rank
    if rank == 1 and wanted == (None,):
        raise TypeError(f"{name}(): argument 'output_size' must be tuple of ints, not NoneType")
    if len(wanted) != rank:
        raise RuntimeError(f"{name}: output_size must be {rank}, not {list(wanted)}")
    size = tuple(n if w is None else w if isinstance(w, int) else operator.index(w)
                 for n, w in zip(x.shape[2:], wanted, strict=True))  # fmt: skip
    if any(s < 0 for s in size):
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {list(size)}"
        )
    return size


def _avg_function(rank: int) -> Callable[..., Tensor]:
    name, everywhere = f"adaptive_avg_pool{rank}d", tuple(range(2, 2 + rank))

    def function(input: Tensor, output_size: Any) -> Plan:
        if input.ndim <= rank and isinstance(output_size, (tuple, list)):
            raise ValueError(f"Input dimension should be at least {rank + 1}")
        if input.ndim < rank and output_size == 1:
            raise IndexError(f"{name}: Expected at least {rank} dimensions, but got input of size {list(input.shape)}")
        if rank == 2 and output_size == 1 and (input.ndim == 2 or any(n == 0 for n in input.shape[-2:])):
            return mean.call, (input, (-2, -1), True)
        x = batched(name, input, rank)
        if not x.dtype.is_floating_point:
            if all(n == 1 for n in _sizes(name, x, output_size, rank)):
                raise RuntimeError(f"{name}(): the mean of {input.dtype} has no dtype of its own")
            raise NotImplementedError(f'"{name}" not implemented for {input.dtype}')
        op, *how = _mean_of_windows(x, _sizes(name, x, output_size, rank), everywhere)
        return (op.call, (input, *how)) if x is input else (_pooled, (op, None, input, *how))

    function.__doc__ = (
        f"The means of `output_size` windows that cover the spatial dimensions evenly; None keeps a size.\n\n{_WINDOWS}"
    )
    return planned(_named(function, name))


_WINDOWS = "Of (batch, channels, ...) or (channels, ...); window i of n is floor(i size / n) to ceil((i + 1) size / n)."


def _max_function(rank: int) -> Callable[..., Any]:
    name = f"adaptive_max_pool{rank}d"

    def function(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        x = batched(name, input, rank)
        if not x.dtype.is_floating_point:
            raise NotImplementedError(f"\"{name}\" not implemented for '{TYPE_NAMES[x.dtype]}'")
        values, places = _pooled(adaptive_max_op, None, input, _sizes(name, x, output_size, rank))
        return (values, places) if return_indices else values

    function.__doc__ = (
        f"The largest numbers of `output_size` windows that cover the spatial dimensions evenly.\n\n{_WINDOWS}"
    )
    return _named(function, name)


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(_avg_function, (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(_max_function, (1, 2, 3))
