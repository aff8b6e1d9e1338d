"""What Python's data, nested lists and NumPy's arrays, are as elements of a tensor."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from eagerjit.recording.arrays import TracedArray, TracedNumber
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.runtime import dtypes, memory
from eagerjit.runtime.dtypes import DType
from eagerjit.state import Defaults
from eagerjit.tensors.fitting import element
from eagerjit.tensors.promotion import number_dtype, promote_types
from eagerjit.tensors.tensor import Tensor


def array_dtype(array: np.ndarray) -> DType:
    """The dtype of a NumPy array. Raises TypeError for those that tensors do not have."""
    known = dtypes.BY_NUMPY.get(array.dtype.newbyteorder("="))
    if known is None:
        raise TypeError(f"can't convert np.ndarray of type {array.dtype}; see the dtypes of eagerjit")
    return known


def inferred_dtype(data: Any) -> DType:
    """The dtype of nested Python data: bool, int64 or the default, the most general found."""
    if isinstance(data, (list, tuple, range)):
        kinds = [inferred_dtype(d) for d in data]
        if not kinds:
            return Defaults.dtype
        return functools.reduce(promote_types, kinds)
    if isinstance(data, (Tensor, TracedArray)):
        return data.dtype if isinstance(data, Tensor) else data.tensor.dtype
    if type(data) is TracedNumber:
        return dtypes.BY_NUMPY[data.dtype]
    if isinstance(data, (np.ndarray, np.generic)):
        return array_dtype(np.asarray(data))
    if isinstance(data, (bool, int, float, complex, SymbolicInt, TracedFloat)):
        return number_dtype(data)
    raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")


def to_array(data: Any, dtype: DType) -> np.ndarray:
    """Nested data as a fresh array."""
    if isinstance(data, (list, tuple)) and _has_tensor(data):
        data = [d.tolist() if isinstance(d, Tensor) else to_array(d, dtype) for d in data]
    try:
        with np.errstate(over="ignore"):
            return _copied(data if isinstance(data, np.ndarray) else np.array(data, dtype.numpy), dtype)
    except (OverflowError, ValueError, TypeError) as error:
        if (numbers := _objects(data)) is not None:
            return np.array([element(value, dtype) for value in numbers.flat], dtype.numpy).reshape(numbers.shape)
        if not isinstance(error, ValueError):
            raise
        raise ValueError(f"expected sequences of equal length at every dimension: {error}") from None


def _copied(array: np.ndarray, dtype: DType) -> np.ndarray:
    """A copy among the tensors' own memory, where vectors begin with cache lines; NumPy's arrays begin anywhere."""
    made = memory.empty(array.shape, dtype.numpy)
    with np.errstate(invalid="ignore", over="ignore"):
        np.copyto(made, array, casting="unsafe")
    return made


def _objects(data: Any) -> np.ndarray | None:
    """Nested lists of numbers as an array of the numbers themselves; None for anything else."""
    try:
        array = np.array(data, dtype=object)
    except ValueError:
        return None
    return array if all(isinstance(value, (int, float, complex)) for value in array.flat) else None


def _has_tensor(data: Any) -> bool:
    return any(isinstance(d, Tensor) or (isinstance(d, (list, tuple)) and _has_tensor(d)) for d in data)
