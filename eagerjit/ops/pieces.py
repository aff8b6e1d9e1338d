"""Views of consecutive pieces of a tensor, several at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerjit.calling.kinds import is_integer
from eagerjit.ops import views
from eagerjit.ops.aliasing import slice_view
from eagerjit.runtime import views as calls
from eagerjit.tensors.tensor import Tensor


def _lengths(size: Any, split_size: Any) -> list[Any]:
    """The sizes of consecutive pieces: a few are counted without a look at the sizes themselves."""
    if type(size) is int and type(split_size) is int:
        return [min(split_size, size - i) for i in range(0, size, max(split_size, 1))] or [0]
    for whole in range(_FEW):
        if not (whole + 1) * split_size < size:
            return [*[split_size] * whole, size - whole * split_size]
    return _lengths(int(size), int(split_size))


_FEW = 16


def split(input: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive pieces along a dimension: of one size, the last one smaller, or of the sizes listed.

    Raises RuntimeError for a listed sum that is not the dimension's size, for negative sizes and for tensors without
    dimensions.
    """
    if input.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = views.dimension(dim, input.ndim)
    size = input.shape[d]
    if isinstance(split_size, (tuple, list)):
        lengths = list(split_size)
        if any(length < 0 for length in lengths):
            raise RuntimeError(
                f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={lengths}"
            )
        if sum(lengths) != size:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension "
                f"{dim}), but got split_sizes={lengths}"
            )
    else:
        if not is_integer(split_size):
            raise TypeError(f"split(): argument 'split_size' must be int, not {type(split_size).__name__}")
        if split_size < 0 or (split_size == 0 and size != 0):
            raise RuntimeError(f"split expects split_size be positive, but got split_size={split_size}")
        lengths = _lengths(size, split_size)
    out = []
    start: Any = 0
    for length in lengths:
        out.append(slice_view(input, d, start, start + length, 1))
        start = start + length
    return _several(out, split)


def _several(parts: Sequence[Tensor], function: Any) -> tuple[Tensor, ...]:
    """The views that one function returned."""
    for part in parts:
        part._view.among = function
    return tuple(parts)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` views of equal size along a dimension, the last one smaller. RuntimeError unless chunks > 0."""
    if not is_integer(chunks):
        raise TypeError(f"chunk(): argument 'chunks' must be int, not {type(chunks).__name__}")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if input.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    size = input.shape[views.dimension(dim, input.ndim)]
    if size == 0:
        return _several(split(input, [0] * chunks, dim), chunk)
    length = max(-(-size // chunks), 1) if type(size) is int else -(-size // chunks)
    return _several(split(input, length, dim), chunk)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of all indices along a dimension, which goes away. IndexError for a dimension out of range."""
    d = views.dimension(dim, input.ndim)
    return _several([views.select(input, d, i) for i in range(input.shape[d])], unbind)


split, chunk = views.view_call(calls.SPLIT, split), views.view_call(calls.CHUNK, chunk)
unbind = views.view_call(calls.UNBIND, unbind)
