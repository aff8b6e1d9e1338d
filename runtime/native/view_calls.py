"""Calls of views from Python: `x.view(2, -1)`, `x[1:, None]`, `x.chunk(3, dim=1)`; what native code does not know goes
to Python.
"""

from __future__ import annotations

from eagerjit.runtime.mode import GRAD_OFF, TRACING
from eagerjit.runtime.native.agreed import MAX_PARAMETERS
from eagerjit.runtime.native.context import (
    ARRAY_DIMS,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    CONTIGUOUS_FLAG,
    MAX_NDIM,
    NONE,
    OBJECT_TYPE,
    OPERATOR_KIND,
    OPERATOR_OP,
    OPERATOR_SLOW,
    SHAPE_TYPE,
    VIEW,
    VIEW_AMONG,
    context,
)
from eagerjit.runtime.native.entry import to_python
from eagerjit.runtime.native.flags import thread_flags
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
from eagerjit.runtime.native.objects import Py_DecRef, Py_IncRef, array_of, replace_slot, tensor_over
from eagerjit.runtime.native.operators import bind_arguments
from eagerjit.runtime.native.subscripts import NO_NUMBER, integer, item_of, with_new_dimension
from eagerjit.runtime.native.views import alias_of, expanded, permuted, reshaped, selected, sliced, viewable
from eagerjit.runtime.views import (
    CHUNK,
    CLONE,
    CONTIGUOUS,
    DETACH,
    EXPAND,
    FLATTEN,
    ITEM,
    MAKE,
    NARROW,
    PERMUTE,
    RESHAPE,
    REVERSE,
    SELECT,
    SPLIT,
    SQUEEZE,
    TRANSPOSE,
    TURN,
    UNBIND,
    UNSQUEEZE,
)

_COUNT = 0x7FFF_FFFF_FFFF_FFFF
_MANY = 4096
"""Pieces of one tensor from which on Python makes them."""

PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyTuple_SetItem = external("i32 PyTuple_SetItem(ptr, i64, ptr)")
PyList_Size = external("i64 PyList_Size(ptr)")
PyList_GetItem = external("ptr PyList_GetItem(ptr, i64)")
PyErr_Occurred = external("ptr PyErr_Occurred()")
PyObject_CallOneArg = external("ptr PyObject_CallOneArg(ptr, ptr)")
PyTuple_Type = external_data("PyTuple_Type")
PyList_Type = external_data("PyList_Type")
PyLong_Type = external_data("PyLong_Type")


def _is_tuple(thing: ptr) -> bool:
    kind = load_ptr(thing, OBJECT_TYPE)
    return kind == PyTuple_Type or kind == load_ptr(context, SHAPE_TYPE)


def integers(arguments: ptr, n: i64, numbers: ptr) -> i64:
    """Stores ints given one by one, or as one tuple or list, and returns how many; -1 where some or all are none."""
    if n == 1 and load_ptr(load_ptr(arguments, 0), OBJECT_TYPE) != PyLong_Type:
        sequence = load_ptr(arguments, 0)
        listed = load_ptr(sequence, OBJECT_TYPE) == PyList_Type
        if not listed and not _is_tuple(sequence):
            return -1
        n = PyList_Size(sequence) if listed else PyTuple_Size(sequence)
        if n >= MAX_NDIM:
            return -1
        for i in range(n):
            value = integer(PyList_GetItem(sequence, i) if listed else PyTuple_GetItem(sequence, i))
            if value == NO_NUMBER:
                return -1
            store_i64(numbers, 8 * i, value)
        return n
    if n == 0 or n >= MAX_NDIM:
        return -1
    for i in range(n):
        value = integer(load_ptr(arguments, 8 * i))
        if value == NO_NUMBER:
            return -1
        store_i64(numbers, 8 * i, value)
    return n


def _dimension(thing: ptr, rank: i64) -> i64:
    """A dimension counted from the front; -1 for what is none."""
    value = integer(thing)
    if value == NO_NUMBER:
        return -1
    value = value + rank if value < 0 else value
    return value if value >= 0 and value < rank else -1


# -- several views ----------------------------------------------------------------------------------------------------


def _pieces(base: ptr, views: ptr, dim: i64, length: i64, whole: bool, tracked: bool) -> ptr:
    """A tuple of slices of `length` along a dimension; with `whole` of the indices one by one."""
    array = viewable(base)
    size = load_i64(load_ptr(array, ARRAY_DIMS), 8 * dim)
    n = (size + length - 1) // length
    if n > _MANY:
        return 0
    result = PyTuple_New(n)
    if result == 0:
        return 0
    for i in range(n):
        start = i * length
        stop = start + length if start + length < size else size
        made: ptr = 0
        if whole:
            made = selected(base, views, dim, i, tracked)
        else:
            made = sliced(base, views, dim, start, stop, 1, tracked)
        if made == 0:
            Py_DecRef(result)
            return 0
        PyTuple_SetItem(result, i, made)
    return result


def _pieces_of_sizes(base: ptr, views: ptr, dim: i64, lengths: ptr, n: i64, tracked: bool) -> ptr:
    """A tuple of slices of these lengths along a dimension."""
    total = 0
    for i in range(n):
        length = load_i64(lengths, 8 * i)
        if length <= 0:
            return 0
        total += length
    if total != load_i64(load_ptr(viewable(base), ARRAY_DIMS), 8 * dim):
        return 0
    result = PyTuple_New(n)
    if result == 0:
        return 0
    start = 0
    for i in range(n):
        stop = start + load_i64(lengths, 8 * i)
        made = sliced(base, views, dim, start, stop, 1, tracked)
        if made == 0:
            Py_DecRef(result)
            return 0
        PyTuple_SetItem(result, i, made)
        start = stop
    return result


def _belong_together(pieces: ptr, function: ptr) -> None:
    """Say on each of several views which function gave them."""
    for i in range(PyTuple_Size(pieces)):
        view = load_ptr(PyTuple_GetItem(pieces, i), load_i64(context, VIEW))
        replace_slot(view, load_i64(context, VIEW_AMONG), function)


def _divided(kind: i64, base: ptr, views: ptr, full: ptr, tracked: bool) -> ptr:
    """SPLIT and CHUNK (by a number or by sizes, along a dimension) and UNBIND (along a dimension)."""
    array = viewable(base)
    if array == 0:
        return 0
    dim = _dimension(load_ptr(full, 8 if kind == UNBIND else 16), load_i32(array, ARRAY_NDIM))
    if dim < 0:
        return 0
    if kind == UNBIND:
        return _pieces(base, views, dim, 1, True, tracked)
    length = integer(load_ptr(full, 8))
    if length == NO_NUMBER and kind == SPLIT:
        lengths = buffer(8 * MAX_NDIM)
        n = integers(full + 8, 1, lengths)
        return ptr(0) if n <= 0 else _pieces_of_sizes(base, views, dim, lengths, n, tracked)
    if length <= 0:
        return 0
    if kind == CHUNK:
        size = load_i64(load_ptr(array, ARRAY_DIMS), 8 * dim)
        length = (size + length - 1) // length
    return _pieces(base, views, dim, length, False, tracked)


# -- one view ---------------------------------------------------------------------------------------------------------


def _squeezed(base: ptr, views: ptr, dim: ptr, tracked: bool) -> ptr:
    """Without the dimensions of size 1, or without one that is."""
    array = viewable(base)
    ndim = load_i32(array, ARRAY_NDIM)
    only = -1
    if dim != load_ptr(context, NONE):
        only = _dimension(dim, ndim)
        if only < 0:
            return 0
    shape = buffer(8 * MAX_NDIM)
    n = 0
    for axis in range(ndim):
        size = load_i64(load_ptr(array, ARRAY_DIMS), 8 * axis)
        if size != 1 or (only >= 0 and axis != only):
            store_i64(shape, 8 * n, size)
            n += 1
    return reshaped(base, views, shape, n, tracked)


def _flattened(base: ptr, views: ptr, first: ptr, last: ptr, tracked: bool) -> ptr:
    array = viewable(base)
    ndim = load_i32(array, ARRAY_NDIM)
    a = _dimension(first, ndim)
    b = _dimension(last, ndim)
    if a < 0 or b < a:
        return 0
    if a == b and ndim > 0:
        Py_IncRef(base)
        return base
    shape = buffer(8 * MAX_NDIM)
    for axis in range(ndim):
        size = load_i64(load_ptr(array, ARRAY_DIMS), 8 * axis)
        if axis <= a:
            store_i64(shape, 8 * axis, size)
        elif axis <= b:
            store_i64(shape, 8 * a, load_i64(shape, 8 * a) * size)
        else:
            store_i64(shape, 8 * (axis - b + a), size)
    return reshaped(base, views, shape, ndim - b + a, tracked)


def _swapped(base: ptr, views: ptr, first: ptr, second: ptr, tracked: bool) -> ptr:
    ndim = load_i32(viewable(base), ARRAY_NDIM)
    a = _dimension(first, ndim)
    b = _dimension(second, ndim)
    if a < 0 or b < 0:
        return 0
    order = buffer(8 * MAX_NDIM)
    for axis in range(ndim):
        store_i64(order, 8 * axis, b if axis == a else a if axis == b else axis)
    return permuted(base, views, order, ndim, tracked)


def _reversed(base: ptr, views: ptr, tracked: bool) -> ptr:
    ndim = load_i32(viewable(base), ARRAY_NDIM)
    order = buffer(8 * MAX_NDIM)
    for axis in range(ndim):
        store_i64(order, 8 * axis, ndim - 1 - axis)
    return permuted(base, views, order, ndim, tracked)


def _narrowed(base: ptr, views: ptr, full: ptr, tracked: bool) -> ptr:
    array = viewable(base)
    dim = _dimension(load_ptr(full, 8), load_i32(array, ARRAY_NDIM))
    if dim < 0:
        return 0
    size = load_i64(load_ptr(array, ARRAY_DIMS), 8 * dim)
    start = integer(load_ptr(full, 16))
    length = integer(load_ptr(full, 24))
    start = start + size if start < 0 else start
    if start < 0 or length <= 0 or length > size or start > size - length:
        return 0
    return sliced(base, views, dim, start, start + length, 1, tracked)


def _named(kind: i64, base: ptr, views: ptr, full: ptr, tracked: bool) -> ptr:
    """Views whose arguments have names."""
    array = viewable(base)
    if array == 0:
        return 0
    ndim = load_i32(array, ARRAY_NDIM)
    dim = 0
    if kind == DETACH:
        return alias_of(base, views, False)
    if kind == REVERSE or (kind == TURN and ndim <= 2):
        return _reversed(base, views, tracked)
    if kind == TURN:
        return 0
    first = load_ptr(full, 8)
    if kind == TRANSPOSE:
        return _swapped(base, views, first, load_ptr(full, 16), tracked)
    if kind == UNSQUEEZE:
        dim = _dimension(first, ndim + 1)
        return 0 if dim < 0 else with_new_dimension(base, views, dim, tracked)
    if kind == SQUEEZE:
        return _squeezed(base, views, first, tracked)
    if kind == FLATTEN:
        made = _flattened(base, views, first, load_ptr(full, 16), tracked)
        return made if made or PyErr_Occurred() else _of_copy(kind, base, views, full, 0, tracked)
    if kind == ITEM:
        return item_of(base, views, first, tracked)
    if kind == NARROW:
        return _narrowed(base, views, full, tracked)
    if kind == SELECT:
        dim = _dimension(first, ndim)
        index = integer(load_ptr(full, 16))
        return 0 if dim < 0 or index == NO_NUMBER else selected(base, views, dim, index, tracked)
    return _divided(kind, base, views, full, tracked)


def _in_order(base: ptr, views: ptr) -> ptr:
    """CONTIGUOUS: a new reference to a tensor with the elements in order, to this one if they are; null for others."""
    array = array_of(base)
    if array and load_i32(array, ARRAY_FLAGS) & CONTIGUOUS_FLAG:
        Py_IncRef(base)
        return base
    return ptr(0) if array == 0 else PyObject_CallOneArg(PyTuple_GetItem(views, CLONE), base)


def _of_copy(kind: i64, base: ptr, views: ptr, full: ptr, n: i64, tracked: bool) -> ptr:
    """RESHAPE and FLATTEN of a tensor that has no such view."""
    if PyTuple_Size(views) <= CLONE or viewable(base) == 0 or load_i32(viewable(base), ARRAY_FLAGS) & CONTIGUOUS_FLAG:
        return 0
    copy = PyObject_CallOneArg(PyTuple_GetItem(views, CLONE), base)
    if copy == 0:
        return 0
    made: ptr = 0
    if kind == RESHAPE:
        made = reshaped(copy, views, full, n, tracked)
    else:
        made = _flattened(copy, views, load_ptr(full, 8), load_ptr(full, 16), tracked)
    Py_DecRef(copy)
    return made


def _by_sizes(kind: i64, base: ptr, views: ptr, arguments: ptr, n: i64, tracked: bool) -> ptr:
    """Views that take sizes or dimensions one by one."""
    numbers = buffer(8 * MAX_NDIM)
    n = integers(arguments, n, numbers)
    if n < 0:
        return 0
    if kind == RESHAPE:
        made = reshaped(base, views, numbers, n, tracked)
        return made if made or PyErr_Occurred() else _of_copy(kind, base, views, numbers, n, tracked)
    if kind == PERMUTE:
        return permuted(base, views, numbers, n, tracked)
    return expanded(base, views, numbers, n, tracked)


def view_call(callee: ptr, arguments: ptr, count: i64, keywords: ptr) -> ptr:
    """Vectorcall of a ViewCall: the view natively, else by `slow`."""
    n = count & _COUNT
    flags = thread_flags()
    kind = load_i64(callee, OPERATOR_KIND)
    if kind == MAKE and n == 1 and keywords == 0:
        Py_IncRef(load_ptr(arguments, 0))
        return tensor_over(load_ptr(arguments, 0))
    if kind == CONTIGUOUS and n == 1 and keywords == 0 and flags & TRACING == 0:
        same = _in_order(load_ptr(arguments, 0), load_ptr(callee, load_i64(context, OPERATOR_OP)))
        if same or PyErr_Occurred():
            return same
    if flags & TRACING == 0 and n > 0 and kind < MAKE:
        views = load_ptr(callee, load_i64(context, OPERATOR_OP))
        tracked = flags & GRAD_OFF == 0
        made: ptr = 0
        if kind <= EXPAND:
            if keywords == 0:
                made = _by_sizes(kind, load_ptr(arguments, 0), views, arguments + 8, n - 1, tracked)
        else:
            full = buffer(8 * MAX_PARAMETERS)
            if bind_arguments(callee, arguments, n, keywords, full):
                made = _named(kind, load_ptr(full, 0), views, full, tracked)
            if made and kind >= SPLIT:
                _belong_together(made, callee)
        if made or PyErr_Occurred():
            return made
    return to_python(callee, OPERATOR_SLOW, arguments, count, keywords)
