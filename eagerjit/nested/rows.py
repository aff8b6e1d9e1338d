"""Where the components of a nested tensor lie among its values, and what their common dimension counts as."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any

from eagerjit.tensors.tensor import Tensor

_numbers = itertools.count(1)


class RaggedSize:
    """The size of a dimension that differs from component to component: equal to that of tensors with the same rows."""

    __slots__ = ("factor", "name", "rows")

    def __init__(self, rows: Rows, name: str, factor: int = 1):
        self.rows, self.name, self.factor = rows, name, factor

    def __repr__(self) -> str:
        return self.name if self.factor == 1 else f"{self.factor}*{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedSize) and other.rows is self.rows and other.factor == self.factor

    def __hash__(self) -> int:
        return hash((id(self.rows), self.factor))

    def __mul__(self, factor: int) -> RaggedSize:
        if type(factor) is not int:
            raise TypeError(f"a ragged size times {type(factor).__name__}: only times int is a size")
        return RaggedSize(self.rows, self.name, self.factor * factor)

    __rmul__ = __mul__

    def __ge__(self, other: Any) -> bool:
        return self == other or self._is_above(other, 2)

    def __gt__(self, other: Any) -> bool:
        return self._is_above(other, 1)

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __le__(self, other: Any) -> bool:
        return self == other or not self > other

    def _is_above(self, other: Any, limit: int) -> bool:
        if type(other) is int and other <= limit:
            return True
        raise ValueError(f"{self} against {other}: a ragged size is another number in each component")

    def __index__(self) -> int:
        raise TypeError(f"{self} is a ragged size: a number of its own in each component, no integer")

    __int__ = __index__


class Rows:
    """Rows of components, one after the other: component i has `lengths[i]` from `offsets[i]`, else all up to the next.

    Tensors with the same `Rows` have the same sizes; what is made of the same index tensors has the same.
    """

    def __init__(self, offsets: Tensor, lengths: Tensor | None):
        self.offsets, self.lengths = offsets, lengths
        self.size = RaggedSize(self, f"j{next(_numbers)}")
        self._counts: tuple[Any, list[int], list[int]] | None = None
        self._elsewhere: dict[Any, Rows] = {}

    def __len__(self) -> int:
        return int(self.offsets.shape[0]) - 1

    def _known(self) -> tuple[Any, list[int], list[int]]:
        parts = [part for part in (self.offsets, self.lengths) if part is not None]
        versions = [part._version for part in parts]
        if self._counts is None or self._counts[0] != versions:
            ends: list[int] = self.offsets.tolist()
            counts = [b - a for a, b in itertools.pairwise(ends)] if self.lengths is None else self.lengths.tolist()
            self._counts = versions, ends[:-1], counts
        return self._counts

    @property
    def starts(self) -> list[int]:
        """Where components begin."""
        return self._known()[1]

    @property
    def counts(self) -> list[int]:
        """How many rows components have."""
        return self._known()[2]

    @property
    def longest(self) -> int:
        """The most rows of a component."""
        return max(self.counts, default=0)

    @property
    def shortest(self) -> int:
        """The fewest rows of a component."""
        return min(self.counts, default=0)

    def on(self, device: Any) -> Rows:
        """The same rows by index tensors on another device: they have the same size."""
        if self.offsets.device == device or device.type == "meta":
            return self
        if device not in self._elsewhere:
            lengths = None if self.lengths is None else self.lengths.to(device)
            found = self._elsewhere[device] = rows_of(self.offsets.to(device), lengths)
            found.size, found._elsewhere = self.size, {**self._elsewhere, self.offsets.device: self}
        return self._elsewhere[device]

    def lengths_of_all(self) -> Tensor:
        """How many rows components have, as a tensor."""
        return self.offsets.diff() if self.lengths is None else self.lengths

    def components(self) -> Tensor:
        """Of every row, which component it is of."""
        from eagerjit.ops.composite import repeat_interleave
        from eagerjit.tensors.creation import arange

        numbers = arange(len(self), device=self.offsets.device)
        return repeat_interleave(numbers, self.lengths_of_all(), output_size=sum(self.counts))

    def positions(self, components: Tensor) -> Tensor:
        """Of every row, which of its component it is."""
        from eagerjit.tensors.creation import arange

        lengths = self.lengths_of_all()
        return arange(components.shape[0], device=components.device) - (lengths.cumsum(0) - lengths)[components]


_rows: weakref.WeakValueDictionary[tuple[int, int | None], Rows] = weakref.WeakValueDictionary()


def rows_of(offsets: Tensor, lengths: Tensor | None = None) -> Rows:
    """The rows that index tensors describe: the same for the same ones."""
    key = id(offsets), None if lengths is None else id(lengths)
    found = _rows.get(key)
    if found is None:
        found = _rows[key] = Rows(offsets, lengths)
    return found


def rows_counted(counts: Sequence[int], device: Any = None) -> Rows:
    """Rows without gaps, so many for each component."""
    from eagerjit.runtime import dtypes
    from eagerjit.tensors.creation import tensor

    return rows_of(tensor([0, *itertools.accumulate(counts)], dtype=dtypes.int64, device=device))
