"""Tensors over NumPy's arrays."""

from __future__ import annotations

from eagerjit.runtime.native.context import (
    ALIGNED_FLAG,
    ARRAY_DATA,
    ARRAY_DESCRIPTOR,
    ARRAY_DIMS,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_STRIDES,
    ARRAY_TYPE,
    CONTIGUOUS_FLAG,
    OBJECT_TYPE,
    WRITEABLE_FLAG,
    context,
)
from eagerjit.runtime.native.language import i64, load_i32, load_ptr, ptr, store_ptr
from eagerjit.runtime.native.objects import Py_DecRef, Py_IncRef, tensor_viewing
from eagerjit.runtime.native.operators import code_of


def over_arrays(arguments: ptr, n: i64, made: ptr) -> i64:
    """Fills `made` with a call's arguments and a tensor over each array among them, of which each bit of the result
    tells one; -1 where there is no tensor for one of them. `release_over_arrays` takes the tensors back."""
    arrays = 0
    for i in range(n):
        given = load_ptr(arguments, 8 * i)
        store_ptr(made, 8 * i, given)
        if load_ptr(given, OBJECT_TYPE) != load_ptr(context, ARRAY_TYPE):
            continue
        tensor: ptr = 0
        for j in range(i):
            if load_ptr(arguments, 8 * j) == given:
                tensor = load_ptr(made, 8 * j)
        if tensor:
            Py_IncRef(tensor)
        else:
            tensor = tensor_on(given)
        if tensor == 0:
            release_over_arrays(made, arrays)
            return -1
        store_ptr(made, 8 * i, tensor)
        arrays |= 1 << i
    return arrays


def release_over_arrays(made: ptr, arrays: i64) -> None:
    """Gives up the tensors that `over_arrays` made."""
    i = 0
    while arrays > 0:
        if arrays & 1:
            Py_DecRef(load_ptr(made, 8 * i))
        arrays = arrays >> 1
        i += 1


def tensor_on(array: ptr) -> ptr:
    """`from_numpy(array)` for an array in row-major order that can be written."""
    if load_ptr(array, OBJECT_TYPE) != load_ptr(context, ARRAY_TYPE):
        return 0
    wanted = CONTIGUOUS_FLAG | ALIGNED_FLAG | WRITEABLE_FLAG
    code = code_of(load_ptr(array, ARRAY_DESCRIPTOR))
    if code < 0 or load_i32(array, ARRAY_FLAGS) & wanted != wanted:
        return 0
    dims = load_ptr(array, ARRAY_DIMS)
    strides = load_ptr(array, ARRAY_STRIDES)
    data = load_ptr(array, ARRAY_DATA)
    return tensor_viewing(array, code, load_i32(array, ARRAY_NDIM), dims, strides, data, WRITEABLE_FLAG)
