"""Views by strides: diagonals, sliding windows, as_strided."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from eagerjit.calling.kinds import is_integer
from eagerjit.compiler import sizes
from eagerjit.compiler.ir import Node
from eagerjit.compiler.layout import is_contiguous
from eagerjit.compiler.shapes import contiguous_strides, inverse
from eagerjit.ops import views
from eagerjit.ops.aliasing import Exprs, ViewOp, by_ops
from eagerjit.ops.index import own_array
from eagerjit.recording.memory_order import result_order
from eagerjit.recording.numbers import expression
from eagerjit.runtime import mode
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.layout import has_each_element_once
from eagerjit.state import state
from eagerjit.tensors.creation import arange
from eagerjit.tensors.tensor import WRITTEN_SEVERAL_TIMES, Tensor, storage_of
from eagerjit.watching.observation import TraceBreak, user_line


def restrided(array: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...], first: int = 0) -> np.ndarray:
    """Another view of an array's memory; `strides` and `first` in bytes. NumPy keeps what owns the memory alive."""
    if isinstance(array, DeviceArray):
        return array.laid_out(array.ctypes.data + first, shape, array.dtype, strides)
    reach = first + sum([s * (n - 1) for n, s in zip(shape, strides, strict=True)])
    if array.flags.c_contiguous and 0 <= first and reach < array.nbytes and array.dtype.kind != "V":
        return np.ndarray(shape, array.dtype, array, first, strides)
    flat = np.lib.stride_tricks.as_strided(array, shape, strides, writeable=array.flags.writeable)
    if first == 0 or flat.size == 0:
        return flat
    moved = np.lib.stride_tricks.as_strided(array, (2, *shape), (first, *strides), writeable=array.flags.writeable)
    return moved[1, ...]


# -- diagonals --------------------------------------------------------------------------------------------------------


def _moved(input: Tensor, dim1: int, dim2: int) -> tuple[Tensor, tuple[int, ...]]:
    """The two dimensions last, and the order that puts them there."""
    order = (*(d for d in range(input.ndim) if d not in (dim1, dim2)), dim1, dim2)
    return input.permute(order), order


def _diagonal_bounds(rows: Any, columns: Any, offset: int) -> tuple[Any, Any]:
    """(where a diagonal begins in a flattened matrix, how long it is)."""
    first = offset if offset >= 0 else -offset * columns
    count = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    return first, count


def _diagonal_places(first: Any, count: Any, columns: Any, flat: Tensor) -> Tensor:
    """Where a diagonal's elements are in a flattened matrix of which only a call knows the size."""
    return arange(count, device=flat.device) * (columns + 1) + first


def _diagonal_array(array: np.ndarray, offset: int, dim1: int, dim2: int) -> np.ndarray:
    found = array.diagonal(min(max(offset, -array.shape[dim1]), array.shape[dim2]), dim1, dim2)
    found.flags.writeable = array.flags.writeable
    return found


def _diagonal_copy(input: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    moved, _ = _moved(input, dim1, dim2)
    rows, columns = moved.shape[-2:]
    first, count = _diagonal_bounds(rows, columns, offset)
    flat = moved.reshape((*moved.shape[:-2], rows * columns))
    if count == 0:
        return views.slice_dim(flat, flat.ndim - 1, 0, 0)
    if type(columns) is not int:
        return flat.index_select(flat.ndim - 1, _diagonal_places(first, count, columns, flat))
    return views.slice_dim(flat, flat.ndim - 1, first, first + (count - 1) * (columns + 1) + 1, columns + 1)


def _diagonal_replaced(input: Tensor, src: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    moved, order = _moved(input, dim1, dim2)
    rows, columns = moved.shape[-2:]
    first, count = _diagonal_bounds(rows, columns, offset)
    if count == 0:
        return input.clone()
    flat = moved.reshape((*moved.shape[:-2], rows * columns))
    if type(columns) is not int:
        out = flat.index_copy(flat.ndim - 1, _diagonal_places(first, count, columns, flat), src)
    else:
        last = first + (count - 1) * (columns + 1) + 1
        out = flat.replace_slice(src, flat.ndim - 1, first, last, columns + 1)
    return out.reshape(moved.shape).permute(inverse(order))


diagonal_view = ViewOp(
    "diagonal",
    _diagonal_array,
    by_ops(_diagonal_copy),
    by_ops(_diagonal_replaced),
    lambda g, out, input, offset, dim1, dim2: _diagonal_replaced(g.new_zeros(input.shape), g, offset, dim1, dim2),
    lambda g, offset, dim1, dim2: _diagonal_replaced(
        g, g.new_zeros(_diagonal_copy(g, offset, dim1, dim2).shape), offset, dim1, dim2
    ),
)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements of a diagonal, along a new last dimension: a view."""
    if input.ndim < 2:
        raise IndexError(f"Dimension out of range: diagonal() needs at least 2 dimensions, not {input.ndim}")
    a, b = views.dimension(dim1, input.ndim), views.dimension(dim2, input.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return diagonal_view(input, offset, a, b)


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """input with a diagonal replaced."""
    wanted = diagonal(input.detach(), offset, dim1, dim2).shape
    if tuple(wanted) != tuple(src.shape):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
            f"{list(wanted)}"
        )
    a, b = views.dimension(dim1, input.ndim), views.dimension(dim2, input.ndim)
    out = input.clone()
    diagonal_view(out, offset, a, b).copy_(src)
    return out


# -- sliding windows --------------------------------------------------------------------------------------------------


def _windows(length: Any, size: Any, step: int, device: Any) -> Tensor:
    """The indices in each window along a dimension of this length: (windows, size)."""
    firsts = arange((length - size) // step + 1, device=device).unsqueeze(1) * step
    return firsts + arange(size, device=device)


def _unfold_array(array: np.ndarray, dim: int, size: int, step: int) -> np.ndarray:
    if array.ndim == 0:
        return restrided(array, (size,), (array.itemsize,))
    shape, strides = list(array.shape), list(array.strides)
    shape[dim], strides[dim] = (shape[dim] - size) // step + 1, strides[dim] * step
    return restrided(array, (*shape, size), (*strides, array.strides[dim]))


def _unfold_copy(input: Tensor, dim: int, size: Any, step: int) -> Tensor:
    if input.ndim == 0:
        return input.reshape(1)[:size]
    rows = input.movedim(dim, 0).take_rows(_windows(input.shape[dim], size, step, input.device))
    return rows.movedim(1, -1).movedim(0, dim)


def _unfold_replaced(input: Tensor, value: Tensor, dim: int, size: Any, step: int) -> Tensor:
    if step < size:
        raise RuntimeError(WRITTEN_SEVERAL_TIMES)
    if input.ndim == 0:
        return value.reshape(()) if size else input
    rows = value.movedim(dim, 0).movedim(-1, 1)
    places = _windows(input.shape[dim], size, step, input.device)
    return input.movedim(dim, 0).put_rows(places, rows).movedim(0, dim)


def _unfold_rule(g: Any, out: Any, input: Any, dim: int, size: Any, step: int) -> Any:
    if input.ndim == 0:
        return g.sum()
    rows = g.movedim(dim, 0).movedim(-1, 1)
    places = _windows(input.shape[dim], size, step, g.device)
    return g.new_zeros(input.shape).movedim(dim, 0).add_rows(places, rows).movedim(0, dim)


unfold_view = ViewOp(
    "unfold",
    _unfold_array,
    by_ops(_unfold_copy),
    by_ops(_unfold_replaced),
    _unfold_rule,
    lambda g, dim, size, step: _unfold_replaced(g, _unfold_copy(g, dim, size, step) * 0.0, dim, size, step),
)


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements, `step` apart, along a dimension; a view whose last dimension is the window."""
    for name, value in (("size", size), ("step", step)):
        if not is_integer(value):
            raise TypeError(f"unfold(): argument '{name}' must be int, not {type(value).__name__}")
    d = views.dimension(dimension, input.ndim)
    length = input.shape[d] if input.ndim else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(f"maximum size for tensor at dimension {d} is {length} but size is {size}")
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    return unfold_view(input, d, size, step)


# -- as_strided -------------------------------------------------------------------------------------------------------

Geometry = tuple[tuple[int, ...], tuple[int, ...], int]


def root_of(tensor: Tensor) -> Tensor:
    """The tensor that the memory belongs to."""
    while tensor._view is not None:
        tensor = tensor._view.base
    return tensor


def whole_of(tensor: Tensor, array: np.ndarray) -> np.ndarray | None:
    """The array of all memory that a tensor's array lies in, if that is known without another tensor."""
    whole: np.ndarray | None = getattr(tensor._storage, "whole", None)
    return whole if whole is not None and _lies_in(array, whole) else None


def _lies_in(array: np.ndarray, whole: np.ndarray) -> bool:
    low, high = np.lib.array_utils.byte_bounds(whole)
    return low <= array.ctypes.data <= high


def memory_of(tensor: Tensor) -> tuple[np.ndarray, int, int]:
    """(the array that holds a tensor's memory, the tensor's place in it, elements in all); counted in elements."""
    array = own_array(tensor, "a tensor's place in memory was asked for")
    whole = whole_of(tensor, array)
    root: Any = root_of(tensor)._data if whole is None else whole
    if not _lies_in(array, root):  # what it views has been given other memory since
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
    item = array.itemsize
    low, high = np.lib.array_utils.byte_bounds(root)
    return root, (array.ctypes.data - low) // item, (high - low) // item if root.size else 0


def share_whole(made: Tensor, source: Tensor) -> None:
    """Let a tensor over the array of another one, but no view of it, know all memory that the array lies in."""
    apart = source._view is not None or hasattr(source._storage, "whole")
    if apart and isinstance(source._data, np.ndarray):
        storage_of(made).whole = memory_of(source)[0]


_ALONE = 2
"""References to the storage of a tensor that shares it with none: the tensor's, and the argument of who counts."""


def give_memory(tensor: Tensor, source: Tensor) -> None:
    """Let a tensor show another one's memory; compiled calls look again whether views lie in what they view."""
    tensor._data = source._data
    shared = tensor._storage is not None and sys.getrefcount(tensor._storage) > _ALONE  # as views do
    if tensor._view is not None or shared:
        mode.bump_epoch()
    share_whole(tensor, source)


def _places(size: Any, stride: Any, offset: int, device: Any) -> Tensor:
    """Where in memory each element of a view lies."""
    total: Any = arange(1, device=device).reshape((1,) * len(size)) + offset
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        along = arange(count, device=device) * step
        total = total + along.reshape([count if a == axis else 1 for a in range(len(size))])
    return total.expand(tuple(size))


def _strided_array(array: np.ndarray, geometry: Geometry, own: Geometry, total: int) -> np.ndarray:
    size, stride, offset = geometry
    item = array.itemsize
    return restrided(array, size, tuple(s * item for s in stride), (offset - own[2]) * item)


def _strided_rule(g: Any, out: Any, input: Any, geometry: Geometry, own: Geometry, total: int) -> Any:
    memory = g.new_zeros(total).add_rows(_places(*geometry, g.device), g)
    return memory.take_rows(_places(*own, g.device))


def _strided_erased(g: Any, geometry: Geometry, own: Geometry, total: int) -> Any:
    memory = g.new_zeros(total).put_rows(_places(*own, g.device), g)
    return memory.put_rows(_places(*geometry, g.device), g.new_zeros(geometry[0])).take_rows(_places(*own, g.device))


def _strided_part(g: Any, geometry: Geometry, own: Geometry, total: int) -> Any:
    return g.new_zeros(total).put_rows(_places(*own, g.device), g).take_rows(_places(*geometry, g.device))


def _in_memory_order(input: Tensor, own: Geometry, total: int) -> tuple[Tensor, tuple[int, ...]]:
    """A tensor of a trace with its dimensions as they lie in memory, and their order there.

    Raises TraceBreak for memory that is not known: what the trace computes lies in all of its own, an argument that is
    contiguous in its.
    """
    node: Any = input._data
    order = result_order([node]) or tuple(range(input.ndim))
    shape, strides = (tuple([part[d] for d in order]) for part in own[:2])
    dense = all(d == 1 or s == e for d, s, e in zip(shape, strides, contiguous_strides(shape), strict=True))
    known = dense and own[2] == 0 and total == math.prod(shape)
    turned = input.permute(order)
    known = known and is_contiguous(turned._data) and all(map(sizes.equal, turned._data.type.shape, shape))
    if not known:
        raise TraceBreak("as_strided() depends on where tensors lie in memory", user_line())
    return turned, order


def _strided_copy(input: Tensor, geometry: Geometry, own: Geometry, total: int) -> Tensor:
    turned, _ = _in_memory_order(input, own, total)
    return turned.reshape(-1).take_rows(_places(*geometry, input.device))


def _strided_replaced(input: Tensor, value: Tensor, geometry: Geometry, own: Geometry, total: int) -> Tensor:
    turned, order = _in_memory_order(input, own, total)
    size, stride, _ = geometry
    if not has_each_element_once(np.lib.stride_tricks.as_strided(np.empty(1, np.int8), size, stride)):
        raise RuntimeError(WRITTEN_SEVERAL_TIMES)
    written = turned.reshape(-1).put_rows(_places(*geometry, input.device), value)
    return written.reshape(turned.shape).permute(inverse(order))


strided_view = ViewOp(
    "as_strided", _strided_array, by_ops(_strided_copy), by_ops(_strided_replaced), _strided_rule, _strided_erased,
    _strided_part,
)
for _view in (diagonal_view, unfold_view, strided_view):
    _view.in_place = False


def _diagonal_strides(shape: Exprs, strides: Exprs, offset: int, dim1: int, dim2: int) -> Exprs:
    return (*(s for d, s in enumerate(strides) if d not in (dim1, dim2)), sizes.add(strides[dim1], strides[dim2]))


def _unfold_strides(shape: Exprs, strides: Exprs, dim: int, size: int, step: int) -> Exprs:
    if not shape:
        return (1,)
    return (*strides[:dim], sizes.mul(strides[dim], expression(step)), *strides[dim + 1 :], strides[dim])


diagonal_view.strides, unfold_view.strides = _diagonal_strides, _unfold_strides
strided_view.strides = lambda shape, strides, geometry, own, total: geometry[1]


def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """A view of the memory that the tensor lies in: element (i, j, ...) is at storage_offset + i*s0 + j*s1 + ..."""
    size, stride = tuple(map(int, size)), tuple(map(int, stride))
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(size)} sizes, {len(stride)} strides")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    if any(d < 0 for d in size):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}")
    reach = 0 if 0 in size else 1 + sum((d - 1) * s for d, s in zip(size, stride, strict=True))
    computed = type(input._data) is Node and input._view is None  # in a trace: in memory of its own
    within = storage_offset is None and state.tracer is not None and input.is_contiguous() and reach <= input.numel()
    _, place, total = (None, 0, int(input.numel())) if computed or within else memory_of(input)
    offset = place if storage_offset is None else int(storage_offset)
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    needed = reach and offset + reach
    item = input.dtype.itemsize
    if needed > total:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize {item} "
            f"requiring a storage size of {needed * item} are out of bounds for storage of size {total * item}"
        )
    own = (tuple(map(int, input.shape)), tuple(map(int, input.stride())), place)
    return strided_view(input, (size, stride, offset), own, total)


def place_within(view: Tensor, base: Tensor) -> tuple[Geometry, Geometry, int]:
    """What `strided_view` is told of a view of a base."""
    (_, offset, total), (_, place, _) = memory_of(view), memory_of(base)
    return (tuple(view.shape), tuple(view.stride()), offset), (tuple(base.shape), tuple(base.stride()), place), total


def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy of input in which the elements that `as_strided` shows are those of src."""
    out = input.clone()
    as_strided(out, size, stride, storage_offset).copy_(src)
    return out
