"""Axes as the standard has them: counted from either end, and none where there are no dimensions."""

from __future__ import annotations

import operator
from typing import Any

from eagerjit.array_api.operands import check_array
from eagerjit.tensors.tensor import Tensor


def _from_front(name: str, axis: Any, rank: int) -> int:
    number = operator.index(axis)
    if not -rank <= number < rank:
        raise IndexError(f"{name}(): axis {number} is out of range for a tensor of {rank} dimensions")
    return number % rank


def axis_of(name: str, x: Tensor, axis: Any) -> int:
    """An axis of a tensor, counted from the front. Raises IndexError if there is no such one."""
    return _from_front(name, axis, check_array(name, x).ndim)


def axes_of(name: str, x: Tensor, axis: Any) -> tuple[int, ...]:
    """Axes in the order given, None for all of them. Raises ValueError where one is named twice."""
    rank = check_array(name, x).ndim
    if axis is None:
        return tuple(range(rank))
    if not isinstance(axis, (tuple, list)):
        return (_from_front(name, axis, rank),)
    axes = tuple([_from_front(name, a, rank) for a in axis])
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name}(): axis {axis} names a dimension twice")
    return axes


def reduced(name: str, x: Tensor, axis: Any, keepdims: bool) -> tuple[Tensor, tuple[int, ...], bool]:
    """What to reduce: a tensor, its axes, and whether to keep them; for no axes a new one of size 1."""
    axes = axes_of(name, x, axis)
    return (x, axes, keepdims) if axes else (x.unsqueeze(0), (0,), False)
