"""What Python's data, nested lists and NumPy's arrays, are as elements of a tensor."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from eagerjit.compiler.shapes import inverse
from eagerjit.recording.arrays import TracedArray, TracedNumber
from eagerjit.recording.memory_order import order_of_array
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime import dtypes, memory
from eagerjit.runtime.dtypes import DType
from eagerjit.state import Defaults
from eagerjit.tensors.fitting import element
from eagerjit.tensors.promotion import number_dtype, promote_types
from eagerjit.tensors.tensor import Shape, Tensor

_SEQUENCES = (list, tuple, range)
_PLAIN_SEQUENCES = frozenset((list, tuple, Shape, deque))
_NUMBERS = frozenset((bool, int, float, complex))
_MOST_DIMENSIONS = 64


def array_dtype(array: np.ndarray) -> DType:
    """The dtype of a NumPy array. Raises TypeError for those that tensors do not have."""
    known = dtypes.BY_NUMPY.get(array.dtype.newbyteorder("="))
    if known is None:
        raise TypeError(f"can't convert np.ndarray of type {array.dtype}; see the dtypes of eagerjit")
    return known


def is_sequence(data: Any) -> bool:
    """Whether data has items by position, as Python's sequences, NumPy's arrays and classes with `__getitem__` do."""
    if isinstance(data, _SEQUENCES):
        return True
    return hasattr(type(data), "__getitem__") and not isinstance(data, (dict, Tensor, np.generic))


def sizes_of_data(data: Any) -> tuple[int, ...]:
    """The sizes of nested sequences, those of the first items; tensors among them stand for numbers."""
    sizes: list[int] = []
    while is_sequence(data):
        sizes.append(len(data))
        if len(sizes) > _MOST_DIMENSIONS:
            raise ValueError(f"too many dimensions '{type(data).__name__}'")
        if sizes[-1] == 0:
            break
        try:
            data = data[0]
        except Exception:  # whatever a user's class raises
            raise ValueError(f"could not determine the shape of object type '{type(data).__name__}'") from None
    return tuple(sizes)


def items_of(data: Any, size: int, dim: int) -> list[Any]:
    """The items of one dimension of nested sequences. Raises where there are none, or others in number."""
    try:
        items = list(data)
    except TypeError:
        raise TypeError("not a sequence") from None
    if len(items) != size:
        raise ValueError(f"expected sequence of length {size} at dim {dim} (got {len(items)})")
    return items


def inferred_dtype(data: Any) -> DType:
    """The dtype of nested Python data: bool, int64 or the default, the most general found."""
    if isinstance(data, _SEQUENCES):
        return _common_dtype(data)
    if isinstance(data, (Tensor, TracedArray)):
        return data.dtype if isinstance(data, Tensor) else data.tensor.dtype
    if type(data) is TracedNumber:
        return dtypes.BY_NUMPY[data.dtype]
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if isinstance(data, (np.ndarray, np.generic)):
        return array_dtype(np.asarray(data))
    if isinstance(data, (bool, int, float, complex, SymbolicInt, TracedFloat)):
        return number_dtype(data)
    if is_sequence(data):
        return _common_dtype(data)
    raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")


def _common_dtype(items: Any) -> DType:
    kinds = set(map(type, items))
    if not kinds:
        return Defaults.dtype
    examples = [kind() for kind in kinds] if kinds <= _NUMBERS else items
    return functools.reduce(promote_types, map(inferred_dtype, examples))


def to_array(data: Any, dtype: DType | None = None) -> np.ndarray:
    """Nested data as a fresh array, of the dtype that its numbers have together unless one is given."""
    if isinstance(data, np.ndarray):
        found = array_dtype(data)
        return _copied(data, dtype or found)
    sizes = sizes_of_data(data)
    dtype = dtype or inferred_dtype(data)
    if _is_plain(data, dtype):
        try:
            with np.errstate(over="ignore"):
                return _copied(np.array(data, dtype.numpy), dtype)
        except (OverflowError, ValueError, TypeError):
            pass  # said number by number what is wrong, or made as PyTorch does
    elements = [element(value, dtype) for value in _numbers(data, sizes, 0)] if 0 not in sizes else []
    return _copied(np.array(elements, dtype.numpy).reshape(sizes), dtype)


def _copied(array: np.ndarray, dtype: DType) -> np.ndarray:
    """A copy among the tensors' own memory, where vectors begin with cache lines; NumPy's arrays begin anywhere."""
    order = order_of_array(array)
    if order is not None:
        return _copied(array.transpose(order), dtype).transpose(inverse(order))
    made = memory.empty(array.shape, dtype.numpy)
    with np.errstate(invalid="ignore", over="ignore"):
        np.copyto(made, array, casting="unsafe")
    return made


def _is_plain(data: Any, dtype: DType) -> bool:
    """Whether data is numbers in lists and the like, which NumPy makes elements of a dtype as PyTorch does."""
    kind = type(data)
    if kind is range or kind in _NUMBERS:
        return True
    if kind in _PLAIN_SEQUENCES:
        kinds = set(map(type, data))
        return kinds <= _NUMBERS or (kinds.isdisjoint(_NUMBERS) and all(_is_plain(item, dtype) for item in data))
    if (kind is np.ndarray and data.ndim == 0) or not isinstance(data, (np.ndarray, np.generic)):
        return False
    if data.dtype == np.bool_:
        return dtype.kind not in ("int", "uint")
    casting: Any = "same_kind" if dtype.is_differentiable else "safe"
    return data.dtype in dtypes.BY_NUMPY and np.can_cast(data.dtype, dtype.numpy, casting)


def _numbers(data: Any, sizes: tuple[int, ...], dim: int) -> Iterator[Any]:
    if dim == len(sizes):
        yield data
        return
    for item in items_of(data, sizes[dim], dim):
        yield from _numbers(item, sizes, dim + 1)
