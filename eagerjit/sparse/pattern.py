"""Where the values of a sparse tensor are: coordinates, or rows (columns) one after the other.

A pattern is shared by all tensors with values at its places, and keeps what products derive from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerjit.autograd.modes import no_grad
from eagerjit.runtime import dtypes
from eagerjit.runtime.records import record
from eagerjit.state import untraced
from eagerjit.tensors.creation import arange
from eagerjit.tensors.making import sparse_coo, sparse_csc, sparse_csr
from eagerjit.tensors.tensor import Tensor, version_of


@record(frozen=True, eq=False)
class Lines:
    """The entries line by line: where each line begins, each entry's place in it, its number among the values.

    `order` is None where the values are stored so.
    """

    starts: Tensor
    places: Tensor
    order: Tensor | None


class Pattern:
    """The places of entries; `sizes` are those of the sparse dimensions, `parts` the tensors it consists of."""

    layout: Any
    sizes: tuple[int, ...]
    parts: tuple[Tensor, ...]
    _kept: dict[str, Any]
    _versions: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of entries."""
        return int(self.parts[-1].shape[-1])

    def kept(self, name: str, compute: Callable[[], Any]) -> Any:
        """What was computed from the parts before, unless they have been written since."""
        versions = self.versions()
        if versions != self._versions:
            self._kept, self._versions = {}, versions
        if name not in self._kept:
            with untraced(), no_grad():
                self._kept[name] = compute()
        return self._kept[name]

    def versions(self) -> tuple[int, ...]:
        """How often each part was written."""
        return tuple(map(version_of, self.parts))

    def coordinates(self) -> Tensor:
        """The indices of all entries, (sparse dimensions, entries) in int64."""
        raise NotImplementedError

    def lines(self, dim: int) -> Lines:
        """The entries of a matrix row by row (0) or column by column (1), those of a line in their order."""
        return self.kept(f"lines {dim}", lambda: self._lines(dim))

    def _lines(self, dim: int) -> Lines:
        return sorted_lines(self.checked(), self.sizes, dim)

    def checked(self) -> Tensor:
        """The coordinates, none of which is outside. Raises IndexError."""
        return self.kept("checked", lambda: _checked(self.coordinates(), self.sizes))


def _checked(indices: Tensor, sizes: tuple[int, ...]) -> Tensor:
    for dim, size in enumerate(sizes if indices.shape[1] else ()):
        least, most = int(indices[dim].min()), int(indices[dim].max())
        if least < 0 or most >= size:
            wrong = least if least < 0 else most
            raise IndexError(f"index {wrong} is out of bounds for dimension {dim} of a sparse tensor of size {size}")
    return indices


def sorted_lines(indices: Tensor, sizes: tuple[int, ...], dim: int) -> Lines:
    """The entries of a matrix in the order of one of their coordinates."""
    line, place = indices[dim], indices[1 - dim]
    order = None
    if line.numel() > 1 and not bool((line[1:] >= line[:-1]).all()):
        order = line.argsort(stable=True)
        line, place = line[order], place[order]
    return Lines(starts_of(line, sizes[dim]), place.contiguous(), order)


def starts_of(lines: Tensor, count: int) -> Tensor:
    """Where each of so many lines begins among ordered entries, and where the last one ends."""
    from eagerjit.ops.bins import searchsorted

    return searchsorted(lines.contiguous(), arange(count + 1, device=lines.device))


class Coordinates(Pattern):
    """Layout `sparse_coo`: `coalesced` says that places are in order and none comes twice."""

    layout = sparse_coo

    def __init__(self, indices: Tensor, sizes: tuple[int, ...], coalesced: bool):
        self.indices, self.sizes = indices, sizes
        self.coalesced = coalesced or indices.shape[1] < 2
        self.parts = (indices,)
        self._kept, self._versions = {}, (version_of(indices),)

    def coordinates(self) -> Tensor:
        """The indices themselves."""
        return self.indices

    def cloned(self) -> Coordinates:
        """A copy in memory of its own."""
        return Coordinates(self.indices.clone(), self.sizes, self.coalesced)

    def to(self, device: Any) -> Coordinates:
        """The pattern on another device."""
        return Coordinates(self.indices.to(device), self.sizes, self.coalesced)


class Compressed(Pattern):
    """Layouts `sparse_csr` and `sparse_csc`: where lines begin, and the entries' places in them."""

    def __init__(self, layout: Any, starts: Tensor, places: Tensor, sizes: tuple[int, ...]):
        self.layout, self.starts, self.places, self.sizes = layout, starts, places, sizes
        self.parts = (starts, places)
        self._kept, self._versions = {}, tuple(map(version_of, self.parts))

    @property
    def dim(self) -> int:
        """Which dimension the lines are along: 0 for rows."""
        return 0 if self.layout is sparse_csr else 1

    def coordinates(self) -> Tensor:
        """Rows and columns of the entries."""
        return self.kept("coordinates", self._coordinates)

    def _coordinates(self) -> Tensor:
        from eagerjit.ops.index import stack

        counts = self.starts[1:] - self.starts[:-1]
        line = arange(self.sizes[self.dim], device=self.starts.device).repeat_interleave(counts.long())
        places = self.places.long()
        return stack((places, line) if self.dim else (line, places))

    def checked(self) -> Tensor:
        """The coordinates, after lines were found to lie one after the other. Raises RuntimeError, IndexError."""
        return self.kept("in order", self._checked_lines)

    def _checked_lines(self) -> Tensor:
        starts = self.starts
        in_order = bool((starts[1:] >= starts[:-1]).all())
        if (
            starts.shape[0] != self.sizes[self.dim] + 1
            or not in_order
            or int(starts[0])
            or int(starts[-1]) != self.count
        ):
            name = "ccol_indices" if self.dim else "crow_indices"
            raise RuntimeError(f"{name} of a sparse tensor with {self.count} values must increase from 0 to that")
        return super().checked()

    def _lines(self, dim: int) -> Lines:
        if dim != self.dim:
            return super()._lines(dim)
        self.checked()
        return Lines(self.starts.to(dtypes.int64).contiguous(), self.places.to(dtypes.int64).contiguous(), None)

    def cloned(self) -> Compressed:
        """A copy in memory of its own."""
        return Compressed(self.layout, self.starts.clone(), self.places.clone(), self.sizes)

    def to(self, device: Any) -> Compressed:
        """The pattern on another device."""
        return Compressed(self.layout, self.starts.to(device), self.places.to(device), self.sizes)

    def transposed(self) -> Compressed:
        """The same lines along the other dimension."""
        layout = sparse_csc if self.layout is sparse_csr else sparse_csr
        return Compressed(layout, self.starts, self.places, self.sizes[::-1])
