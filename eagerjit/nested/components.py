"""Nested tensors taken apart into their components, and made of them; padded, and made of what is padded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from eagerjit.nested.rows import Rows, rows_counted
from eagerjit.nested.tensor import Blocks, Jagged, NestedTensor, jagged_in, made
from eagerjit.ops import views
from eagerjit.ops.index import cat, stack
from eagerjit.runtime import dtypes
from eagerjit.tensors.creation import as_tensor, empty, full
from eagerjit.tensors.tensor import Tensor


def unbind(tensor: NestedTensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The components, views. Raises RuntimeError along another dimension than the first."""
    if views.dimension(dim, tensor.ndim) != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    places, values = tensor._places_, tensor._entries
    if not tensor._is_jagged:
        pairs = zip(places.ends(), places.shapes, strict=True)
        return tuple(values[start : start + size].view(shape) for (start, size), shape in pairs)
    pairs = zip(places.rows.starts, places.rows.counts, strict=True)
    return tuple(values.narrow(places.dim - 1, start, count) for start, count in pairs)


def jagged_of(components: Sequence[Tensor], dim: int) -> Any:
    """A tensor of layout `jagged` of components that differ along a dimension of the whole, one at least."""
    counts = [int(part.shape[dim - 1]) for part in components]
    values = cat.call(list(components), dim - 1)
    return made(Jagged(rows_counted(counts, values.device), dim), values)


def blocks_of(components: Sequence[Tensor]) -> Any:
    """A tensor of layout `strided` of components with as many dimensions each."""
    values = cat.call([part.reshape(-1) for part in components]) if components else empty(0)
    return made(Blocks(tuple(tuple(map(int, part.shape)) for part in components)), values)


def each(function: Any, *tensors: Any) -> Any:
    """A function of the components, one after the other: its results have the sizes of the first tensor's rows."""
    first = tensors[0]
    if not all(isinstance(one, NestedTensor) and len(one.unbind()) == len(first.unbind()) for one in tensors):
        raise RuntimeError("nested tensors of as many components are needed together")
    parts = [function(*several) for several in zip(*map(unbind, tensors), strict=True)]
    if not first._is_jagged:
        return blocks_of(parts)
    if first._places_.dim != 1 or first._places_.rows.lengths is not None:
        return jagged_of(parts, 1)
    return first.with_values(cat.call(parts, 0))


def tables(tensor: NestedTensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sizes, strides and first places of the components of layout `strided`, a row for each."""
    shapes = tensor._places_.shapes
    steps = [[math.prod(shape[i + 1 :]) for i in range(len(shape))] for shape in shapes]
    starts = [start for start, _ in tensor._places_.ends()]
    sizes, strides = ([list(row) for row in rows] for rows in (shapes, steps))
    made = (as_tensor(table, dtype=dtypes.int64) for table in (sizes, strides, starts))
    return tuple(made)  # type: ignore[return-value]


def from_tables(values: Tensor, sizes: Tensor, strides: Tensor, starts: Tensor) -> Any:
    """The components that such tables describe."""
    rows = zip(sizes.tolist(), strides.tolist(), starts.tolist(), strict=True)
    return blocks_of([values.as_strided(*row) for row in rows])


def contiguous(tensor: NestedTensor) -> Any:
    """The same components, one right after the other in memory."""
    if not tensor._is_jagged or is_contiguous(tensor):
        return tensor
    places = tensor._places_
    if places.rows.lengths is None:
        return tensor.with_values(tensor._entries.contiguous())
    return jagged_of(unbind(tensor), places.dim)


def is_contiguous(tensor: NestedTensor) -> bool:
    """Whether components lie one right after the other in memory."""
    if not tensor._is_jagged:
        return bool(tensor._entries.is_contiguous())
    return tensor._places_.rows.lengths is None and bool(tensor._entries.is_contiguous())


def without_gaps(tensor: NestedTensor) -> Any:
    """The same components in values that hold nothing else."""
    return tensor if not tensor._is_jagged or tensor._places_.rows.lengths is None else contiguous(tensor)


# -- padded -----------------------------------------------------------------------------------------------------------
def padded(tensor: NestedTensor, padding: Any, length: int | None = None) -> Tensor:
    """All components of layout `jagged` in one tensor, with `padding` after those of fewer rows than `length`.

    `length` is that of the longest otherwise; rows beyond it are left out.
    """
    tensor = without_gaps(tensor)
    places = jagged_in("to_padded_tensor", tensor)
    rows, length = places.rows, places.rows.longest if length is None else length
    lines = tensor._entries.movedim(places.dim - 1, 0)
    numbers = rows.components()
    positions = rows.positions(numbers)
    if length < rows.longest:
        kept = positions < length
        lines, numbers, positions = lines[kept], numbers[kept], positions[kept]
    rest = tuple(lines.shape[1:])
    room = full((len(rows) * length, *rest), padding, dtype=lines.dtype, device=lines.device)
    filled = room.index_copy(0, numbers * length + positions, lines)
    return filled.view(len(rows), length, *rest).movedim(1, places.dim)  # type: ignore[no-any-return]


def without_padding(dense: Tensor, rows: Rows, dim: int) -> Any:
    """The rows of components, `rows` without gaps, of a tensor that has them padded along a dimension."""
    numbers = rows.components()
    lines = dense.movedim(dim, 1)[numbers, rows.positions(numbers)]
    return made(Jagged(rows, dim), lines.movedim(0, dim - 1))


def to_padded_tensor(input: Tensor, padding: float, output_size: Any = None, out: Tensor | None = None) -> Tensor:
    """All components in one dense tensor, with `padding` where they have no elements.

    output_size     its sizes; the largest of each dimension otherwise
    """
    if not isinstance(input, NestedTensor):
        raise NotImplementedError("to_padded_tensor(): only of nested tensors")
    if out is not None:
        return out.copy_(to_padded_tensor(input, padding, output_size))
    if output_size is not None and len(output_size) != input.ndim:
        raise RuntimeError(f"to_padded_tensor(): {len(output_size)} sizes for {input.ndim} dimensions")
    if input._is_jagged:
        return padded(input, padding, None if output_size is None else output_size[input._places_.dim])
    return _padded_blocks(input, padding, output_size)


def _padded_blocks(tensor: NestedTensor, padding: float, output_size: Any) -> Tensor:
    from eagerjit.nn.functional import pad

    shapes = tensor._places_.shapes
    largest = [len(shapes), *(max(sizes) for sizes in zip(*shapes, strict=True))]
    wanted = largest if output_size is None else list(output_size)
    if any(want < size for want, size in zip(wanted, largest, strict=True)):
        raise RuntimeError("Value in output_size is less than NestedTensor padded size. Truncation is not supported.")
    filled = []
    for part in unbind(tensor):
        room = [n for want, size in zip(wanted[:0:-1], part.shape[::-1], strict=True) for n in (0, want - size)]
        filled.append(pad(part, room, value=padding))  # type: ignore[misc]
    more = wanted[0] - len(filled)
    rest = [full(wanted[1:], padding, dtype=tensor.dtype, device=tensor.device)] * more
    return stack([*filled, *rest])  # type: ignore[no-any-return]
