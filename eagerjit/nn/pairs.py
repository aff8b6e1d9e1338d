"""A number for all dimensions, or one for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any


def _ntuple(count: int) -> Callable[[Any], tuple[Any, ...]]:
    """A function that makes one value a tuple of `count`; what has several already becomes a tuple."""

    def parse(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, Iterable) else tuple(repeat(value, count))

    return parse


_single, _pair, _triple, _quadruple = map(_ntuple, (1, 2, 3, 4))
