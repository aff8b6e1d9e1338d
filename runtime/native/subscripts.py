"""Subscripts of ints, slices, None and ...: `x[1:, None]` as views. What they do not know goes to Python."""

from __future__ import annotations

from eagerjit.runtime.native.context import (
    ARRAY_DIMS,
    ARRAY_NDIM,
    ELLIPSIS,
    MAX_NDIM,
    NONE,
    OBJECT_TYPE,
    SLICE_START,
    SLICE_STEP,
    SLICE_STOP,
    context,
)
from eagerjit.runtime.native.language import (
    buffer,
    external,
    external_data,
    i64,
    load_i32,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
)
from eagerjit.runtime.native.objects import Py_DecRef, Py_IncRef
from eagerjit.runtime.native.views import alias_of, reshaped, selected, sliced, viewable

NO_NUMBER = -(1 << 63)

PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyLong_AsLongLongAndOverflow = external("i64 PyLong_AsLongLongAndOverflow(ptr, ptr)")
PyTuple_Type = external_data("PyTuple_Type")
PyLong_Type = external_data("PyLong_Type")
PySlice_Type = external_data("PySlice_Type")


def integer(thing: ptr) -> i64:
    """An exact int; NO_NUMBER for anything else, and for ints of more than 62 bits."""
    if load_ptr(thing, OBJECT_TYPE) != PyLong_Type:
        return NO_NUMBER
    overflow = buffer(8)
    value = PyLong_AsLongLongAndOverflow(thing, overflow)
    if value > 1 << 62 or value < -(1 << 62) or load_i32(overflow, 0) != 0:
        return NO_NUMBER
    return value


def _bound(thing: ptr, absent: i64, size: i64) -> i64:
    """A slice's start or stop within a dimension; NO_NUMBER where it is neither None nor an int."""
    if thing == load_ptr(context, NONE):
        return absent
    value = integer(thing)
    if value == NO_NUMBER:
        return NO_NUMBER
    if value < 0:
        value += size
        return 0 if value < 0 else value
    return size if value > size else value


def _sliced_by(base: ptr, views: ptr, dim: i64, entry: ptr, tracked: bool) -> ptr:
    """One dimension cut by a slice; the base itself (a new reference) where all of it remains."""
    array = viewable(base)
    if array == 0 or dim >= load_i32(array, ARRAY_NDIM):
        return 0
    size = load_i64(load_ptr(array, ARRAY_DIMS), 8 * dim)
    step = 1
    if load_ptr(entry, SLICE_STEP) != load_ptr(context, NONE):
        step = integer(load_ptr(entry, SLICE_STEP))
    start = _bound(load_ptr(entry, SLICE_START), 0, size)
    stop = _bound(load_ptr(entry, SLICE_STOP), size, size)
    if step <= 0 or start == NO_NUMBER or stop == NO_NUMBER:
        return 0
    if start == 0 and stop == size and step == 1:
        Py_IncRef(base)
        return base
    return sliced(base, views, dim, start, stop, step, tracked)


def with_new_dimension(base: ptr, views: ptr, dim: i64, tracked: bool) -> ptr:
    array = viewable(base)
    if array == 0:
        return 0
    ndim = load_i32(array, ARRAY_NDIM)
    shape = buffer(8 * MAX_NDIM)
    if dim > ndim or ndim + 1 >= MAX_NDIM:
        return 0
    for axis in range(ndim + 1):
        if axis == dim:
            store_i64(shape, 8 * axis, 1)
        else:
            store_i64(shape, 8 * axis, load_i64(load_ptr(array, ARRAY_DIMS), 8 * (axis if axis < dim else axis - 1)))
    return reshaped(base, views, shape, ndim + 1, tracked)


def _dimensions_used(key: ptr, n: i64) -> i64:
    """How many dimensions the entries of a key take, apart from an ellipsis; -1 for a key that Python serves."""
    used = 0
    ellipses = 0
    for i in range(n):
        entry = PyTuple_GetItem(key, i)
        kind = load_ptr(entry, OBJECT_TYPE)
        if kind == PyLong_Type or kind == PySlice_Type:
            used += 1
        elif entry == load_ptr(context, ELLIPSIS):
            ellipses += 1
        elif entry != load_ptr(context, NONE):
            return -1
    return -1 if ellipses > 1 else used


def _by_entries(base: ptr, views: ptr, key: ptr, tracked: bool) -> ptr:
    """x[entries]: a view for each entry that changes something, as Python makes them."""
    array = viewable(base)
    if array == 0:
        return 0
    n = PyTuple_Size(key)
    used = _dimensions_used(key, n)
    free = load_i32(array, ARRAY_NDIM) - used
    if used < 0 or free < 0:
        return 0
    current = base
    Py_IncRef(current)
    dim = 0
    for i in range(n):
        entry = PyTuple_GetItem(key, i)
        kind = load_ptr(entry, OBJECT_TYPE)
        following: ptr = 0
        if entry == load_ptr(context, ELLIPSIS):
            dim += free
            continue
        if kind == PyLong_Type:
            index = integer(entry)
            if index != NO_NUMBER:
                following = selected(current, views, dim, index, tracked)
        elif kind == PySlice_Type:
            following = _sliced_by(current, views, dim, entry, tracked)
            dim += 1
        else:
            following = with_new_dimension(current, views, dim, tracked)
            dim += 1
        Py_DecRef(current)
        if following == 0:
            return 0
        current = following
    if current != base:
        return current
    Py_DecRef(current)
    return alias_of(base, views, tracked)


def item_of(base: ptr, views: ptr, key: ptr, tracked: bool) -> ptr:
    """x[key] for ints, slices, None, ..., and tuples of these."""
    kind = load_ptr(key, OBJECT_TYPE)
    if kind == PyLong_Type:
        index = integer(key)
        return 0 if index == NO_NUMBER else selected(base, views, 0, index, tracked)
    if kind == PyTuple_Type:
        return _by_entries(base, views, key, tracked)
    if kind == PySlice_Type:
        made = _sliced_by(base, views, 0, key, tracked)
        if made != base:
            return made
        Py_DecRef(made)
        return alias_of(base, views, tracked)
    if key == load_ptr(context, NONE):
        return with_new_dimension(base, views, 0, tracked)
    return alias_of(base, views, tracked) if key == load_ptr(context, ELLIPSIS) else ptr(0)
