"""x[...]: reading with ints, slices, None, ... and index tensors (`assignment.py`: writing)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eagerjit.calling.dispatch import Op
from eagerjit.compiler.shapes import inverse
from eagerjit.effects.cautions import caution
from eagerjit.ops import views
from eagerjit.ops.aliasing import VIEWS
from eagerjit.ops.counted import measured, nonzero
from eagerjit.ops.index import lines_at, take_rows, wrapped
from eagerjit.ops.searching import select_masked
from eagerjit.recording.arrays import TracedArray
from eagerjit.recording.numbers import SymbolicInt
from eagerjit.recording.traced_ranges import is_range
from eagerjit.runtime import dtypes
from eagerjit.runtime.device_array import DeviceArray
from eagerjit.runtime.views import ITEM, ViewCall
from eagerjit.state import state
from eagerjit.tensors.from_data import of_range, tensor
from eagerjit.tensors.placement import index_beside
from eagerjit.tensors.tensor import Tensor, new_tensor


def expanded_key(key: Any, rank: int) -> list[Any]:
    """One entry per dimension: the ellipsis and what is missing filled with full slices."""
    entries = [place_of(_as_index(e)) for e in (key if isinstance(key, tuple) or _means_tuple(key) else [key])]
    used = sum(e.ndim if is_mask(e) else 1 for e in entries if e is not None and e is not Ellipsis)
    if used > rank:
        raise IndexError(f"too many indices for tensor of dimension {rank}")
    position = next((i for i, e in enumerate(entries) if e is Ellipsis), len(entries))
    rest = entries[position + 1 :]
    if any(e is Ellipsis for e in rest):
        rest = _without_ellipses(rest, rank - used)
    return entries[:position] + [slice(None)] * (rank - used) + rest


def _without_ellipses(rest: list[Any], missing: int) -> list[Any]:
    """What follows an ellipsis; others among it stand for the missing dimensions once more, if any entry follows."""
    first = next(i for i, e in enumerate(rest) if e is Ellipsis)
    if missing and any(e is not Ellipsis for e in rest[first:]):
        raise IndexError("too many indices for tensor: every ellipsis ('...') stands for all dimensions not named")
    return [e for e in rest if e is not Ellipsis]


def _means_tuple(key: Any) -> bool:
    """Whether a list is short and holds more than places of one dimension, so that PyTorch takes it for a tuple."""
    if not isinstance(key, list) or is_range(key) or len(key) >= 32:
        return False
    found = any(e is None or e is Ellipsis or isinstance(e, (Tensor, slice, Sequence, np.ndarray)) for e in key)
    if found:
        caution(
            "A list of sequences, slices, tensors, None or ... indexes as a tuple does, which is deprecated: use "
            "x[tuple(key)], or x[torch.tensor(key)] for places in one dimension"
        )
    return found


def _as_index(entry: Any) -> Any:
    if isinstance(entry, slice):
        return slice(*[b.item() if isinstance(b, np.integer) else b for b in (entry.start, entry.stop, entry.step)])
    if entry is None or entry is Ellipsis or isinstance(entry, (SymbolicInt, np.integer)):
        return entry.item() if isinstance(entry, np.integer) else entry
    if isinstance(entry, Tensor):
        return only_indices(entry)
    if isinstance(entry, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(entry).__name__}'")
    if is_range(entry):
        return of_range(entry) if entry else _places(entry.tied())
    if isinstance(entry, (list, tuple)) and any(isinstance(e, SymbolicInt) for e in entry):
        return tensor(list(entry))
    if isinstance(entry, (bool, list, range, tuple, np.ndarray)):
        return entry.shared() if type(entry) is TracedArray else _places(entry)
    if hasattr(entry, "__index__"):
        return entry.__index__()
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got "
        f"{type(entry).__name__})"
    )


def _places(entry: Any) -> Tensor:
    """The tensor of a sequence or an array that indexes."""
    array = np.asarray(entry)
    if array.dtype.kind == "c":
        raise TypeError("'complex' object cannot be interpreted as an integer")
    return new_tensor(array) if array.dtype in dtypes.BY_NUMPY else tensor(entry)


def place_of(entry: Any) -> Any:
    """The number that a tensor without dimensions holds, where it can be read: as an int it picks a view."""
    if not isinstance(entry, Tensor) or entry.ndim or entry.dtype.kind != "int" or entry.is_meta:
        return entry
    tracer = state.tracer
    readable = tracer is None or (tracer.arguments is not None and not tracer.single_example)
    return entry.item() if readable else entry


def only_indices(tensor: Tensor, of_parts: bool = True) -> Tensor:
    """The tensor. Raises IndexError if it is no index; single integers of all dtypes are, where they name parts."""
    if tensor.dtype in INTEGERS or is_mask(tensor):
        return tensor
    if of_parts and not tensor.ndim and not tensor.dtype.is_floating_point and not tensor.dtype.is_complex:
        return tensor
    raise IndexError("tensors used as indices must be long, int, byte or bool tensors")


def is_mask(entry: Any) -> bool:
    return isinstance(entry, Tensor) and entry.dtype in (dtypes.bool_, dtypes.uint8)


def bounds(entry: slice, size: Any) -> tuple[Any, Any, int]:
    """A slice's start, stop and step within a dimension, as Python clamps them; symbolic where they can be."""
    step = 1 if entry.step is None else int(entry.step)
    if step <= 0:
        raise ValueError("step must be greater than zero")
    start = _clamped(entry.start, 0, size)
    stop = _clamped(entry.stop, size, size)
    if stop < start:
        stop = start
    return start, stop, step


def _clamped(value: Any, default: Any, size: Any) -> Any:
    if value is None:
        return default
    if isinstance(value, Tensor):
        value = value.item()
    if value < 0:
        value = value + size
        return 0 if value < 0 else value
    return size if value > size else value


def basic_view(input: Tensor, entries: list[Any]) -> tuple[Tensor, list[Any]]:
    """Ints, slices and None applied as views; the index tensors that remain, one entry per dimension of the result."""
    out = input
    remaining: list[Any] = []
    dim = 0
    for entry in entries:
        if entry is None:
            out = out.unsqueeze(dim)
            remaining.append(None)
            dim += 1
        elif isinstance(entry, slice):
            if entry != slice(None):
                start, stop, step = bounds(entry, out.shape[dim])
                if not (type(start) is int and start == 0 and step == 1 and stop is out.shape[dim]):
                    out = views.slice_dim(out, dim, start, stop, step)
            remaining.append(None)
            dim += 1
        elif isinstance(entry, Tensor):
            entry = index_beside(entry, input)
            if is_mask(entry) and entry.ndim == 0:  # all or nothing: the mask of a new dimension of size 1
                out, entry = out.unsqueeze(dim), entry.bool().reshape(1)
            remaining.append(entry)
            if is_mask(entry):
                remaining += [_MASKED] * (entry.ndim - 1)
            dim += entry.ndim if is_mask(entry) else 1
        else:
            out = views.select(out, dim, entry)
    return out, remaining


_MASKED = object()


def integer_indices(tensors: list[Any], shape: Any, value: Any = None) -> list[Any]:
    """Masks replaced by the positions where they hold; None elsewhere.

    Warns of masks of bytes, and raises RuntimeError for a single one where one number is written, as PyTorch does.
    """
    out: list[Any] = []
    for position, entry in enumerate(tensors):
        if entry is _MASKED:
            continue
        if is_mask(entry):
            for axis, (want, have) in enumerate(zip(shape[position:], entry.shape, strict=False)):
                if want != have:
                    raise IndexError(
                        f"The shape of the mask {list(entry.shape)} at index {axis} does not match the shape of the "
                        f"indexed tensor {list(shape)} at index {position + axis}"
                    )
            if entry.dtype is dtypes.uint8:
                _doubt_bytes(tensors, value)
            out += nonzero(entry).unbind(1)
        else:
            out.append(entry)
    return out


def _doubt_bytes(tensors: list[Any], value: Any) -> None:
    is_alone = sum(isinstance(entry, Tensor) for entry in tensors) == 1
    if is_alone and (isinstance(value, (int, float, complex)) or (isinstance(value, Tensor) and value.numel() == 1)):
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")
    caution("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")


def get_item(input: Tensor, key: Any) -> Tensor:
    """input[key]: a view for ints, slices, None and ...; a copy where tensors index."""
    if type(key) is int:
        return views.select(input, 0, key)
    if type(key) is Tensor and input.ndim and state.tracer is None:
        if key.ndim == 0 and key.dtype in INTEGERS and not key.is_meta:
            return views.select(input, 0, key.item())
        key = index_beside(key, input) if DeviceArray.exist else key
        if key.dtype in INTEGERS:
            return take_rows.call(input, key)
        if key.dtype is dtypes.bool_ and key._data.shape == input._data.shape:
            return _select(input, key)
    if type(key) is tuple and state.tracer is None and 0 < len(key) <= input.ndim:
        if all([type(e) is Tensor and e.ndim and e.dtype in INTEGERS for e in key]):
            key = tuple([index_beside(e, input) for e in key]) if DeviceArray.exist else key
            return _index_op.call(input, key, tuple(range(len(key))))
    base, tensors = basic_view(input, expanded_key(key, input.ndim))
    if all(e is None for e in tensors):
        return base if base is not input else views.alias(input)
    return _advanced(base, integer_indices(tensors, base.shape))


get_item = ViewCall(ITEM, get_item, VIEWS)


INTEGERS = (dtypes.int64, dtypes.int32)


def _select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where a mask of the same shape holds."""
    count = measured(mask.sum(), "the number of elements that a mask selects depends on values")
    return select_masked.call(input, mask, count)


def _advanced(base: Tensor, indices: list[Any]) -> Tensor:
    """Index with integer tensors, one entry per dimension: None where all of it stays."""
    places = tuple([d for d, e in enumerate(indices) if e is not None])
    return _index_op.call(base, tuple([indices[d] for d in places]), places)


def _indexed(base: Tensor, tensors: Any, places: tuple[int, ...]) -> Tensor:
    """Index with integer tensors along some dimensions: these in front, flattened to rows, then put in place."""
    if len(places) == 1 and places[0] and 0 not in base.shape:  # of no elements, places are checked by rows
        return lines_at(base, places[0], tensors[0])
    indices = _spread(base.ndim, tensors, places)
    used, front, shape = gathered(indices)
    moved = base.permute(front)
    linear = linear_index([indices[d] for d in used], [base.shape[d] for d in used], shape)
    rest = moved.shape[len(used) :]
    rows = moved.reshape(math.prod([base.shape[d] for d in used]), *rest)
    out = rows.take_rows(linear)
    return _placed(out, used, len(shape))


def _spread(rank: int, tensors: Any, places: tuple[int, ...]) -> list[Any]:
    """One entry per dimension: its index tensor, or None."""
    indices: list[Any] = [None] * rank
    for place, index in zip(places, tensors, strict=True):
        indices[place] = index
    return indices


def _index_rule(g: Any, out: Any, base: Any, tensors: Any, places: tuple[int, ...]) -> Any:
    return _index_gradient(g, base.shape, tensors, places)


def _index_gradient(g: Any, sizes: Any, tensors: Any, places: tuple[int, ...]) -> Any:
    """Zeros with the gradients added where they come from."""
    indices = _spread(len(sizes), tensors, places)
    used, front, shape = gathered(indices)
    rest = [sizes[d] for d in front[len(used) :]]
    linear = linear_index([indices[d] for d in used], [sizes[d] for d in used], shape)
    first, count = used[0], len(shape)
    if first != 0 and used == list(range(first, used[-1] + 1)):
        g = g.permute(*range(first, first + count), *range(first), *range(first + count, g.ndim))
    rows = g.new_zeros((math.prod([sizes[d] for d in used]), *rest)).add_rows(linear, g)
    moved = rows.reshape([sizes[d] for d in front])
    return moved.permute(inverse(front))


_index_op = Op("index", _indexed, (_index_rule, None, None))


def gathered(indices: list[Any]) -> tuple[list[int], tuple[int, ...], tuple[Any, ...]]:
    used = [d for d, e in enumerate(indices) if e is not None]
    front = (*used, *(d for d in range(len(indices)) if d not in used))
    shape: tuple[Any, ...] = ()
    for d in used:
        shape = broadcast_shapes(shape, tuple(indices[d].shape))
    return used, front, shape


def broadcast_shapes(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    out = []
    for p, q in zip(a, b, strict=True):
        if p != q and p != 1 and q != 1:
            raise IndexError(
                f"shape mismatch: indexing tensors could not be broadcast together with shapes {list(a)}, {list(b)}"
            )
        out.append(q if p == 1 else p)
    return tuple(out)


def linear_index(indices: list[Tensor], shape: list[Any], target: tuple[Any, ...]) -> Tensor:
    """One index into flattened dimensions from one per dimension. Out of range ones stay out of range."""
    if len(indices) == 1:
        return indices[0]
    return _linear_op.call(list(indices), tuple(shape)).expand(target)


def _linear_body(indices: Any, shape: Any) -> Tensor:
    """Row-major position of every index tuple; -1 - total where one is out of range."""
    total = math.prod(shape)
    out: Any = None
    valid: Any = None
    for index, size in zip(indices, shape, strict=True):
        i = wrapped(index, size)
        ok = (i >= 0).logical_and(i < size)
        out = i if out is None else out * size + i
        valid = ok if valid is None else valid.logical_and(ok)
    return out.where(valid, -1 - total)


_linear_op = Op("linear_index", _linear_body, None, differentiable=False)


def _placed(out: Tensor, used: list[int], count: int) -> Tensor:
    """The indexed dimensions where the first of adjacent indices stood, else in front."""
    if used != list(range(used[0], used[-1] + 1)) or used[0] == 0:
        return out
    first = used[0]
    order = (*range(count, count + first), *range(count), *range(count + first, out.ndim))
    return out.permute(order)
