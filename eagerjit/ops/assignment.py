"""Assignment to the parts of a tensor that a key names, in place."""

from __future__ import annotations

import math
from typing import Any

from eagerjit.ops.arithmetic import masked_fill
from eagerjit.ops.histories import check_history
from eagerjit.ops.index import add_along, add_rows, put_along, put_rows, with_rows
from eagerjit.ops.inplace import InplaceOp, inplace
from eagerjit.ops.subscript import (
    INTEGERS,
    basic_view,
    expanded_key,
    gathered,
    get_item,
    integer_indices,
    linear_index,
    place_of,
)
from eagerjit.runtime import dtypes
from eagerjit.runtime.keys import LARGEST_BFLOAT16
from eagerjit.runtime.source import here
from eagerjit.state import state
from eagerjit.tensors.fitting import fitted
from eagerjit.tensors.placement import beside, index_beside
from eagerjit.tensors.promotion import TYPE_NAMES
from eagerjit.tensors.tensor import Tensor, storage_of


def set_item(input: Tensor, key: Any, value: Any) -> None:
    """input[key] = value, in place."""
    if key is True:
        key = None  # a new dimension, of all elements
    key = tuple(map(place_of, key)) if type(key) is tuple else place_of(key)
    if type(key) is Tensor:
        key = index_beside(key, input)
    if isinstance(key, Tensor) and key.dtype is dtypes.bool_ and key.shape == input.shape and not _many(value):
        if type(value) in (int, float):
            _write_masked(input, key, _assigned(value, input))
            return
        input.copy_(input.where(key.logical_not(), value if isinstance(value, Tensor) else _assigned(value, input)))
        return
    if type(key) is Tensor and key.dtype in INTEGERS and input.ndim and state.tracer is None:
        if type(value) in (int, float):
            _write_rows(input, key, _assigned(value, input))
            return
        if type(value) is Tensor and value.dtype is input.dtype and value.ndim < key.ndim + input.ndim:
            _write_rows(input, key, value)
            return
    if state.tracer is None and _is_basic(key):
        part = get_item(input, key)
        if type(value) in (int, float):
            part.fill_(_assigned(value, part))
        elif not _is_same_part(part, value):
            part.copy_(_value_for(part, value))
        return
    base, tensors = basic_view(input, expanded_key(key, input.ndim))
    if all(e is None for e in tensors):
        if isinstance(value, (int, float)) and base is not input:
            base.fill_(_assigned(value, base))
        else:
            base.copy_(_value_for(base, value))
        return
    keys = [e for e in tensors if isinstance(e, Tensor)]
    if any(e.ndim for e in keys):  # single integers name a part, which takes values of any dtype
        check_values(base, keys, value, accumulate=False)
    index_put(base, integer_indices(tensors, base.shape, value), value, accumulate=False)


def delete_item(input: Tensor, key: Any) -> None:
    """Raises TypeError, as PyTorch does."""
    raise TypeError("Tensor does not support deleting items")


def check_keys(base: Tensor, keys: list[Any]) -> None:
    """Refuse no index tensors at all, and more than there are dimensions."""
    if not keys:
        raise RuntimeError("index_put_(): at least one index tensor is needed")
    if len(keys) > base.ndim:
        raise IndexError(f"too many indices for tensor of dimension {base.ndim} (got {len(keys)})")


def with_places(base: Tensor, keys: list[Any]) -> tuple[Tensor, list[Any]]:
    """The tensor with a dimension of size 1 for each mask that has none itself, which then has that one."""
    for position, key in enumerate(keys):
        if key.dtype is dtypes.bool_ and not key.ndim:
            base, keys = base.unsqueeze(position), [*keys[:position], key.unsqueeze(0), *keys[position + 1 :]]
    return base, keys


def check_values(base: Tensor, keys: list[Tensor], value: Any, accumulate: bool) -> None:
    """Refuse values of another dtype, but for one number that is written where a single mask holds."""
    if not isinstance(value, Tensor) or value.dtype is base.dtype:
        return
    if not accumulate and len(keys) == 1 and keys[0].dtype is dtypes.bool_ and value.numel() == 1:
        return
    raise RuntimeError(
        f"Index put requires the source and destination dtypes match, got {TYPE_NAMES[base.dtype]} for the "
        f"destination and {TYPE_NAMES[value.dtype]} for the source."
    )


def _is_same_part(part: Tensor, value: Any) -> bool:
    """Whether a value is what it would be written to, as in `x[key] += 1`; that counts as a write."""
    mine, other = part._view, value._view if type(value) is Tensor else None
    if mine is None or other is None or other.base is not mine.base:
        return False
    if other.op is not mine.op or other.arguments != mine.arguments:
        return False
    check_history(part)
    storage = storage_of(part)
    storage.version, storage.source = storage.version + 1, here()
    return True


_BASIC = (int, slice, type(None), type(...))


def _is_basic(key: Any) -> bool:
    """Whether a key makes a view."""
    return all([type(e) in _BASIC for e in key]) if type(key) is tuple else type(key) in _BASIC


_write_rows, _write_masked = InplaceOp(with_rows).method(), inplace(masked_fill).method()
write_added, write_put = InplaceOp(add_along).method(), InplaceOp(put_along).method()


def _many(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim > 0


def _value_for(base: Tensor, value: Any) -> Any:
    """A value as a tensor; leading dimensions of size 1 beyond the target's are dropped, as PyTorch does."""
    if not isinstance(value, Tensor):
        number = isinstance(value, (int, float, complex))
        return base.new_full((), _assigned(value, base)) if number else base.new_tensor(value)
    while value.ndim > base.ndim and value.shape[0] == 1:
        value = value.squeeze(0)
    return value if value.ndim else beside(value, base)


def _assigned(value: Any, base: Tensor) -> Any:
    """A number as elements of a tensor. Raises ValueError for an integer beyond 64 bits, RuntimeError for a misfit."""
    if type(value) is float and -LARGEST_BFLOAT16 < value < LARGEST_BFLOAT16 and base.dtype is dtypes.float32:
        return value
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise ValueError("Overflow when unpacking long long")
    return fitted(value, base.dtype)


def index_put(base: Tensor, indices: list[Any], value: Any, accumulate: bool) -> None:
    """base[indices] = value, or += with `accumulate`, in place."""
    if any(index is not None for index in indices[base.ndim :]):
        raise IndexError(f"too many indices for tensor of dimension {base.ndim}")
    indices = indices[: base.ndim]  # masks take several dimensions each
    used, front, shape = gathered(indices)
    if any(base.shape[d] == 0 for d in used) and math.prod(shape) > 0:
        raise IndexError("index is out of bounds for dimension with size 0")
    moved = base.permute(front)
    rest = tuple(moved.shape[len(used) :])
    rows_shape = (math.prod([base.shape[d] for d in used]), *rest)
    linear = linear_index([indices[d] for d in used], [base.shape[d] for d in used], shape)
    target = _placed_shape(shape, rest, used)
    value = _value_for(base, value).expand(target)
    write = write_added if accumulate else write_put
    if len(used) == 1 and linear.ndim == 1:
        write(base, used[0], linear, value)
        return
    if used[0] != 0 and used == list(range(used[0], used[-1] + 1)):
        first, count = used[0], len(shape)
        value = value.permute(*range(first, first + count), *range(first), *range(first + count, len(target)))
    rows = moved.reshape(rows_shape)
    if rows._storage is base._storage:
        write(rows, 0, linear, value)
        return
    put = add_rows.call if accumulate else put_rows.call
    moved.copy_(put(rows, linear, value).view(moved.shape))


def _placed_shape(shape: tuple[Any, ...], rest: tuple[Any, ...], used: list[int]) -> tuple[Any, ...]:
    if used != list(range(used[0], used[-1] + 1)):
        return shape + rest
    return rest[: used[0]] + shape + rest[used[0] :]
