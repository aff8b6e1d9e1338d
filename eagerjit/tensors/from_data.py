"""Tensors from data: numbers, nested sequences, NumPy's arrays."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from eagerjit.compiler.ir import Node
from eagerjit.devices import CPU
from eagerjit.ops.index import stack
from eagerjit.recording.arrays import LARGE, TracedArray, TracedNumber
from eagerjit.recording.numbers import SymbolicInt, TracedFloat
from eagerjit.recording.traced_ranges import is_range
from eagerjit.runtime import dtypes
from eagerjit.runtime.dtypes import DType
from eagerjit.runtime.making import FROM_NUMPY, TENSOR, MakeCall
from eagerjit.state import note_leaf, state, untraced
from eagerjit.tensors.elements import array_dtype, inferred_dtype, is_sequence, items_of, sizes_of_data, to_array
from eagerjit.tensors.making import dtype_argument
from eagerjit.tensors.mistakes import explained
from eagerjit.tensors.placement import moved, wanted
from eagerjit.tensors.tensor import Tensor, new_tensor
from eagerjit.watching.observation import TraceBreak, user_line


def finish(tensor: Tensor, requires_grad: bool) -> Tensor:
    """A new leaf with `requires_grad` as asked. Raises TypeError for what is no bool."""
    if requires_grad is False:
        return tensor
    if requires_grad is not True:
        raise TypeError(f"argument 'requires_grad' must be bool, not {type(requires_grad).__name__}")
    return note_leaf(tensor).requires_grad_()  # type: ignore[no-any-return]


def tensor(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A tensor with a copy of the data: numbers, nested sequences, an ndarray or a tensor.

    Python's floats have the default dtype, integers int64, bools bool; arrays and tensors keep theirs. A leaf without
    history. Raises ValueError for sequences of unequal lengths, RuntimeError for what is no data.
    """
    if _shows_a_device(data):
        return tensor(as_tensor(data, dtype, device), requires_grad=requires_grad, pin_memory=pin_memory)
    place = wanted(device) if device is not None or not isinstance(data, Tensor) else None
    if place is not None or pin_memory:
        made = tensor(data.cpu() if isinstance(data, Tensor) else data, dtype=dtype, device=CPU)
        return finish(made.pin_memory() if place is None else moved(made, place), requires_grad)
    dtype = dtype_argument("tensor", dtype)
    if state.tracer is not None and isinstance(data, np.ndarray):
        data = _as_read(data)
    if isinstance(data, Tensor):
        copied = (data.detach() if device is None else data.detach().cpu()).clone()
        return finish(copied if dtype is None else copied.to(dtype), requires_grad)
    if state.tracer is not None and type(data) is deque:
        data = list(data)
    if is_range(data):
        return finish(of_range(data, dtype), requires_grad)
    if state.tracer is not None and _is_traced(data):
        return finish(_stacked(data, dtype or inferred_dtype(data), sizes_of_data(data), 0), requires_grad)
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if hasattr(data, "__array__") and not isinstance(data, np.generic):
        data = np.asarray(data)
    if state.tracer is not None and is_sequence(data) and not isinstance(data, (list, tuple, range, np.ndarray)):
        raise TraceBreak(f"a tensor is made of a {type(data).__name__}", user_line())
    return finish(constant_array(to_array(data, dtype)), requires_grad)


def _as_read(array: Any) -> Any:
    """In a trace, a tensor over an array, whose contents are then those of each call; small arrays may stay arrays."""
    try:
        return from_numpy(array)
    except (TypeError, ValueError):
        if array.nbytes > LARGE:
            raise
        return array


def constant_array(array: np.ndarray) -> Tensor:
    """A tensor over an array of its own; in a trace a copy of a captured constant, so that it may be written."""
    made = new_tensor(array)
    return made if state.tracer is None else made.clone()


def _is_traced(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return any(map(_is_traced, data))
    if type(data) in (SymbolicInt, TracedFloat, TracedArray, TracedNumber):
        return True
    return isinstance(data, Tensor) and type(data._data) is Node


def of_range(data: Any, dtype: DType | None = None) -> Tensor:
    """The numbers of a TracedRange: those of this call where there are none, and where a dtype may refuse some."""
    from eagerjit.tensors.creation import long_arange

    if dtype not in (None, dtypes.int64, dtypes.float32, dtypes.float64) or not data:
        return tensor(data.tied(), dtype=dtype)
    made: Tensor = long_arange.run((data.start, data.step, data.length(), dtypes.int64))
    return made if dtype is None else made.to(dtype)


def _stacked(data: Any, dtype: DType, sizes: tuple[Any, ...], dim: int) -> Tensor:
    """Nested data with numbers of the trace among it."""
    from eagerjit.tensors.creation import full

    if type(data) is TracedArray:
        return data.shared().to(dtype)
    if dim < len(sizes):
        return stack([_stacked(item, dtype, sizes, dim + 1) for item in items_of(data, sizes[dim], dim)])
    return _one_element(data, dtype) if isinstance(data, Tensor) else full((), data, dtype=dtype)


def _one_element(data: Tensor, dtype: DType) -> Tensor:
    """A tensor of the trace as a number among data."""
    if data.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    if data.dtype.is_differentiable and not dtype.is_differentiable:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    if data.dtype.is_complex and not dtype.is_complex:
        raise TraceBreak("a complex number becomes an element of a tensor of reals", user_line())
    return data.detach().reshape(()).to(dtype)


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """A tensor over the data, sharing memory with a tensor or ndarray where dtype and device allow, else a copy."""
    dtype = dtype_argument("as_tensor", dtype)
    if isinstance(data, Tensor):
        there = data if device is None else moved(data, wanted(device))
        return there if dtype is None else there.to(dtype)
    if _shows_a_device(data):
        return _of_device(data, dtype, device)
    if (place := wanted(device)) is not None:
        return moved(as_tensor(data, dtype, CPU), place)
    if isinstance(data, np.ndarray):
        shared = from_numpy(data)
        return shared if dtype is None else shared.to(dtype)
    return tensor(data, dtype=dtype) if device is None else tensor(data, dtype=dtype, device=CPU)


def _shows_a_device(data: Any) -> bool:
    """Whether something that is no tensor shows memory of a device."""
    return type(data) not in _PLAIN and not isinstance(data, Tensor) and hasattr(data, "__cuda_array_interface__")


_PLAIN = frozenset((list, tuple, np.ndarray, float, int, bool, complex, range))


def _of_device(data: Any, dtype: DType | None, device: Any) -> Tensor:
    """A tensor over what an object shows of a device, moved where tensors are made that say nothing else."""
    from eagerjit.tensors.dlpack import of_cuda_array

    if state.tracer is not None:
        raise TraceBreak("memory of another library becomes a tensor", user_line())
    made = moved(of_cuda_array(data), wanted(device))
    return made if dtype is None else made.to(dtype)


def asarray(
    obj: Any, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:  # fmt: skip
    """A tensor over data: sharing its memory where it can, never with `copy`, always or ValueError with copy=False."""
    from eagerjit.ops.storages import UntypedStorage

    if dtype is dtypes.uint8 and isinstance(obj, UntypedStorage):
        obj = obj.tensor(dtype)
    shared = as_tensor(obj, device=device)
    if dtype is not None and shared.dtype is not dtype_argument("asarray", dtype):
        if copy is False:
            raise ValueError(f"can't alias tensor with dtype {shared.dtype} into dtype {dtype}.")
        return finish(shared.to(dtype), bool(requires_grad))
    if copy is False and not isinstance(obj, (Tensor, np.ndarray)):
        raise ValueError("can't alias arbitrary sequence into a tensor.")
    found = shared.clone() if copy and isinstance(obj, (Tensor, np.ndarray)) else shared
    if found is obj and requires_grad:
        return found.requires_grad_()
    return finish(found.detach() if requires_grad is False and found.requires_grad else found, bool(requires_grad))


def _snapshot(tracer: Any, array: np.ndarray) -> Tensor:
    """A tensor for an array that the traced code made, whose strides are those of a new tensor."""
    with untraced():
        in_order = from_numpy(array).is_contiguous()
        kept = from_numpy(array.copy())
    if not in_order:
        raise TraceBreak("an array made inside, whose elements do not lie in order, becomes a tensor", user_line())
    made = kept.clone()
    tracer.journal.snapshots.add(made, array)
    return made


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares memory with an ndarray: what is written to one is seen in the other.

    Raises TypeError for anything else and for arrays of dtypes that no tensor has, ValueError for negative strides and
    foreign byte order.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    tracer = state.tracer
    if tracer is not None and type(array) is TracedArray:
        return array.shared()
    if tracer is not None and tracer.journal is not None and tracer.journal.is_made(array):
        return _snapshot(tracer, array)
    made = _over(array)
    if tracer is not None and tracer.journal is not None:
        tracer.shown_arrays[id(made)] = made, array, user_line()
    return made


def _over(array: np.ndarray) -> Tensor:
    array = np.asarray(array)  # memory of a matrix or a mapped file has their class, and slices of its kind
    known = dtypes.BY_NUMPY.get(array.dtype)
    if known is not None and array.dtype is known.numpy and array.flags.carray:
        return new_tensor(array.view())
    dtype = array_dtype(array)
    if not array.dtype.isnative:
        raise ValueError("given numpy array has byte order different from the native byte order")
    if not array.flags.aligned:
        raise ValueError("given numpy array is not aligned to its elements' size")
    if any(s % array.itemsize for s in array.strides) or any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative or no multiple of the element size, and "
            "tensors with such strides are not supported. (You can work around this by array.copy().)"
        )
    return new_tensor(array.view(dtype.numpy))


tensor, from_numpy = MakeCall(TENSOR, explained(tensor)), MakeCall(FROM_NUMPY, from_numpy)
