"""CAPTURED: tensors that a call reads of its surroundings. Calls have many of them, so they are read in one go."""

from __future__ import annotations

from eagerjit.runtime.native.context import (
    ALIGNED_FLAG,
    ARRAY_DATA,
    ARRAY_DESCRIPTOR,
    ARRAY_DIMS,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_TYPE,
    CONTIGUOUS_FLAG,
    DATA,
    OBJECT_TYPE,
    REQUIRES_GRAD,
    TRUE,
    context,
)
from eagerjit.runtime.native.language import i64, load_i32, load_i64, load_ptr, ptr, store_i64, store_ptr
from eagerjit.runtime.native.objects import hold, is_tensor

# one tensor's words, in bytes
_TENSOR, _DESCRIPTOR, _RANK, _GRAD, _LEAF, _POINTER, _EXTENTS = 0, 8, 16, 24, 32, 40, 48


def guard_captured(operands: ptr, leaves: ptr, held: ptr, slots: ptr) -> i64:
    """CAPTURED: whether all are as they were. The tensors are borrowed from the executable, their arrays held.

    What follows is short on purpose: it runs once per parameter of a network in every call.
    """
    wanted = ALIGNED_FLAG | CONTIGUOUS_FLAG
    data = load_i64(context, DATA)
    requires_grad = load_i64(context, REQUIRES_GRAD)
    count = load_i64(held, 0)
    end = count + load_i64(operands, 0)
    at = operands + 8
    known: ptr = 0
    while count < end:
        tensor = load_ptr(at, _TENSOR)
        kind = load_ptr(tensor, OBJECT_TYPE)
        if kind != known and not is_tensor(tensor):
            break
        known = kind
        array = load_ptr(tensor, data)
        if array == 0 or load_ptr(array, OBJECT_TYPE) != load_ptr(context, ARRAY_TYPE):
            break
        if load_ptr(array, ARRAY_DESCRIPTOR) != load_ptr(at, _DESCRIPTOR):
            break
        rank = load_i64(at, _RANK)
        if load_i32(array, ARRAY_NDIM) != rank or (load_i32(array, ARRAY_FLAGS) & wanted) != wanted:
            break
        grad = load_i64(at, _GRAD)
        if grad != 2 and (load_ptr(tensor, requires_grad) == load_ptr(context, TRUE)) != grad:
            break
        dims = load_ptr(array, ARRAY_DIMS)
        same = 0
        while same < rank and load_i64(dims, 8 * same) == load_i64(at + _EXTENTS, 8 * same):
            same += 1
        if same != rank:
            break
        store_i64(slots, load_i64(at, _POINTER), load_i64(array, ARRAY_DATA))
        store_ptr(leaves, load_i64(at, _LEAF), tensor)
        hold(array)
        count += 1
        store_ptr(held, 8 * count, array)
        at = at + _EXTENTS + 8 * rank
    store_i64(held, 0, count)
    return count == end
