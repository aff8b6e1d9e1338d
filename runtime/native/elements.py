"""Tensors from Python's numbers and lists of them."""

from __future__ import annotations

from eagerjit.runtime.dtypes import bool_, float32, float64, int64
from eagerjit.runtime.mode import DTYPE_WORD
from eagerjit.runtime.native.context import (
    MAX_NDIM,
    MODE_WORDS,
    OBJECT_TYPE,
    SHAPE_TYPE,
    TRUE,
    context,
)
from eagerjit.runtime.native.language import (
    buffer,
    external,
    external_data,
    f32,
    f64,
    i64,
    load_i64,
    load_ptr,
    ptr,
    store_f32,
    store_f64,
    store_i8,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.objects import fresh_tensor
from eagerjit.runtime.native.subscripts import NO_NUMBER, integer

PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyList_Size = external("i64 PyList_Size(ptr)")
PyList_GetItem = external("ptr PyList_GetItem(ptr, i64)")
PyFloat_AsDouble = external("f64 PyFloat_AsDouble(ptr)")
PyFloat_Type = external_data("PyFloat_Type")
PyBool_Type = external_data("PyBool_Type")
PyList_Type = external_data("PyList_Type")
PyTuple_Type = external_data("PyTuple_Type")

MANY = 1024
"""Elements from which on Python makes a tensor: it knows vectors and threads."""

ANY = 1 << 40
"""More elements than a tensor has; one that is not filled may have nearly as many."""

BOOL, INT64, FLOAT32, FLOAT64 = (d.code for d in (bool_, int64, float32, float64))


def default_dtype() -> i64:
    """The code of the dtype of new floating point tensors."""
    return load_i64(load_ptr(context, MODE_WORDS), 8 * DTYPE_WORD)


def fresh(code: i64, sizes: ptr, rank: i64, data: ptr, limit: i64) -> ptr:
    """An uninitialised tensor, its address and number of elements stored at `data`; null where it has `limit` elements
    or more, or a size is negative."""
    slots = buffer(8 * MAX_NDIM + 8)
    places = buffer(8 * MAX_NDIM)
    count = 1
    for axis in range(rank):
        size = load_i64(sizes, 8 * axis)
        if size < 0 or (count > 0 and size > (limit - 1) // count):
            return 0
        count *= size
        store_i64(slots, 8 * axis, size)
        store_i64(places, 8 * axis, axis)
    made = fresh_tensor(code, rank, slots, places, rank)
    if made:
        store_ptr(data, 0, load_ptr(slots, 8 * rank))
        store_i64(data, 8, count)
    return made


def _length(thing: ptr) -> i64:
    """How many things a list or a tuple has; -1 for anything else."""
    kind = load_ptr(thing, OBJECT_TYPE)
    if kind == PyList_Type:
        return PyList_Size(thing)
    return PyTuple_Size(thing) if kind == PyTuple_Type or kind == load_ptr(context, SHAPE_TYPE) else -1


def _item(sequence: ptr, i: i64) -> ptr:
    if load_ptr(sequence, OBJECT_TYPE) == PyList_Type:
        return PyList_GetItem(sequence, i)
    return PyTuple_GetItem(sequence, i)


def _kind(thing: ptr) -> i64:
    """The dtype that a number stands for; -1 for what is none, and for ints that are not sure to fit."""
    kind = load_ptr(thing, OBJECT_TYPE)
    if kind == PyFloat_Type:
        return FLOAT64
    if kind == PyBool_Type:
        return BOOL
    return -1 if integer(thing) == NO_NUMBER else INT64


def _common(kind: i64, other: i64) -> i64:
    """The dtype of several numbers; -1 where bools are among others."""
    if kind == other:
        return kind
    return -1 if kind == BOOL or other == BOOL or kind < 0 or other < 0 else FLOAT64


def _store(data: ptr, code: i64, i: i64, number: ptr) -> None:
    """Stores a number that the dtype has as an element."""
    if code == BOOL:
        store_i8(data, i, number == load_ptr(context, TRUE))
    elif code == INT64:
        store_i64(data, 8 * i, integer(number))
    else:
        value = PyFloat_AsDouble(number) if load_ptr(number, OBJECT_TYPE) == PyFloat_Type else f64(integer(number))
        if code == FLOAT32:
            store_f32(data, 4 * i, f32(value))
        else:
            store_f64(data, 8 * i, value)


def _shape_and_kind(data: ptr, sizes: ptr, kind: ptr) -> i64:
    """Stores the sizes of a number, a list or a list of lists of equal length, and what dtype the numbers stand for.

    Returns the number of dimensions; -1 for anything else.
    """
    length = _length(data)
    if length < 0:
        store_i64(kind, 0, _kind(data))
        return 0
    if length == 0 or length >= MANY:
        return -1
    store_i64(sizes, 0, length)
    columns = _length(_item(data, 0))
    if columns == 0 or columns >= MANY:
        return -1
    store_i64(sizes, 8, columns)
    found = _kind(_item(_item(data, 0), 0) if columns > 0 else _item(data, 0))
    for i in range(length):
        row = _item(data, i)
        if _length(row) != columns:
            return -1
        for k in range(columns if columns > 0 else 1):
            found = _common(found, _kind(_item(row, k) if columns > 0 else row))
            if found < 0:
                return -1
    store_i64(kind, 0, found)
    return 1 if columns < 0 else 2


def tensor_of(data: ptr, code: i64) -> ptr:
    """`tensor(data)`, of the dtype `code` or, below 0, of the one that the numbers stand for."""
    sizes = buffer(16)
    kind = buffer(8)
    place = buffer(16)
    rank = _shape_and_kind(data, sizes, kind)
    found = load_i64(kind, 0)
    if rank < 0 or found < 0:
        return 0
    if code < 0:
        code = default_dtype() if found == FLOAT64 else found
    if code != found and ((code != FLOAT32 and code != FLOAT64) or found == BOOL):
        return 0
    made = fresh(code, sizes, rank, place, MANY)
    if made == 0:
        return 0
    elements = load_ptr(place, 0)
    columns = load_i64(sizes, 8)
    for i in range(load_i64(place, 8)):
        if rank == 0:
            _store(elements, code, i, data)
        elif rank == 1:
            _store(elements, code, i, _item(data, i))
        else:
            _store(elements, code, i, _item(_item(data, i // columns), i % columns))
    return made
