"""Pooling whose windows begin at places drawn at random (Graham, Fractional Max-Pooling, 2014)."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.calling.casts import converting
from eagerjit.ops.index import cat
from eagerjit.random import rand
from eagerjit.tensors.creation import arange
from eagerjit.tensors.tensor import Tensor


def _starts(samples: Tensor, size: int, count: int, window: int) -> Tensor:
    """Where `count` windows along a dimension begin, for every sample u: floor((i + u) a) - floor(u a)."""
    last = samples.new_full((*samples.shape, 1), size - window).long()
    if count == 1:
        return last
    step = (size - window) / (count - 1)
    u = samples.unsqueeze(-1)
    first = ((arange(count - 1, dtype=samples.dtype, device=samples.device) + u) * step).long() - (u * step).long()
    return cat.call([first, last], -1)


def _sizes(name: str, rank: int, value: Any) -> tuple[Any, ...]:
    found = (value,) * rank if isinstance(value, (int, float)) else tuple(value)
    if len(found) != rank:
        raise RuntimeError(f"{name}: expected {rank} sizes, but got {list(found)}")
    return found


def _pooled(
    rank: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{rank}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.ndim not in (rank + 1, rank + 2):
        raise RuntimeError(f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got: {list(input.shape)}")
    window, sizes = _sizes(name, rank, kernel_size), tuple(input.shape[-rank:])
    if output_size is None:
        ratios = _sizes(name, rank, output_ratio)
        output_size = tuple(int(size * ratio) for size, ratio in zip(sizes, ratios, strict=True))
    counts = _sizes(name, rank, output_size)
    for size, count, k in zip(sizes, counts, window, strict=True):
        if count + k - 1 > size or count < 1:
            raise RuntimeError(f"{name}(): pool size {k} with {count} outputs is too large for input size {size}")
    batch = input if input.ndim == rank + 2 else input.unsqueeze(0)
    if samples is None:
        samples = rand(*batch.shape[:2], rank, dtype=input.dtype, device=input.device)
    samples = samples[: batch.shape[0]]
    index: Any = None
    for d in range(rank):
        which = rank - 1 - d if rank == 2 else d  # PyTorch draws a plane's columns before its rows
        begin = _starts(samples[..., which], sizes[d], counts[d], window[d])
        places = begin.unsqueeze(-1) + arange(window[d], device=begin.device)
        shape = [*batch.shape[:2], *(n if i == d else 1 for i, n in enumerate(counts))]
        shape += [n if i == d else 1 for i, n in enumerate(window)]
        places = places.reshape(shape)
        index = places if index is None else index * sizes[d] + places
    flat = index.reshape(*batch.shape[:2], math.prod(counts) * math.prod(window))
    found = batch.flatten(2).gather(2, flat).reshape(*batch.shape[:2], *counts, math.prod(window))
    values, at = found.max(-1)
    places = flat.reshape(found.shape).gather(-1, at.unsqueeze(-1)).squeeze(-1)
    return (values, places) if input.ndim == rank + 2 else (values.squeeze(0), places.squeeze(0))


def _function(rank: int, both: bool) -> Any:
    def pool(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = both, _random_samples: Tensor | None = None,
    ) -> Any:  # fmt: skip
        values, places = _pooled(rank, input, kernel_size, output_size, output_ratio, _random_samples)
        return (values, places) if return_indices or both else values

    pool.__name__ = pool.__qualname__ = f"fractional_max_pool{rank}d" + ("_with_indices" if both else "")
    pool.__doc__ = (
        f"Maxima over windows of a {rank}-dimensional signal that begin at places drawn at random (Graham 2014).\n\n"
        "There are `output_size`, or `output_ratio` times the input's sizes; with `return_indices` also where they "
        "were found."
    )
    return converting(pool)


fractional_max_pool2d, fractional_max_pool3d = _function(2, False), _function(3, False)
fractional_max_pool2d_with_indices, fractional_max_pool3d_with_indices = _function(2, True), _function(3, True)
