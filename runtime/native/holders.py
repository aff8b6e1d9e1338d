"""Native code that looks for containers which the garbage collector does not track in the objects that it does."""

from __future__ import annotations

from eagerjit.runtime.native.context import OBJECT_TYPE
from eagerjit.runtime.native.language import (
    address_of,
    call_i32,
    external,
    external_data,
    i32,
    i64,
    load_ptr,
    ptr,
)

PyList_Append = external("i32 PyList_Append(ptr, ptr)")
PyList_GetItem = external("ptr PyList_GetItem(ptr, i64)")
PyList_Size = external("i64 PyList_Size(ptr)")
PyObject_GC_IsTracked = external("i32 PyObject_GC_IsTracked(ptr)")
PyType_GetSlot = external("ptr PyType_GetSlot(ptr, i32)")
PyDict_Type = external_data("PyDict_Type")
PyTuple_Type = external_data("PyTuple_Type")

TRAVERSE = 71
"""Py_tp_traverse of CPython's typeslots.h: the function that shows a visitor what an object of a type holds."""


def find_untracked(objects: ptr, found: ptr) -> i64:
    """Appends to a list the untracked dictionaries and tuples that objects in a list hold; nonzero: an error is set."""
    kind = ptr(0)
    traverse = ptr(0)
    for i in range(PyList_Size(objects)):
        thing = PyList_GetItem(objects, i)
        if load_ptr(thing, OBJECT_TYPE) != kind:
            kind = load_ptr(thing, OBJECT_TYPE)
            traverse = PyType_GetSlot(kind, TRAVERSE)
        if traverse and call_i32(traverse, thing, address_of(visit_held), found) != 0:
            return 1
    return 0


def visit_held(thing: ptr, found: ptr) -> i32:
    """Takes in one thing that an object holds."""
    kind = load_ptr(thing, OBJECT_TYPE)
    if (kind == PyDict_Type or kind == PyTuple_Type) and PyObject_GC_IsTracked(thing) == 0:
        return PyList_Append(found, thing)
    return 0
