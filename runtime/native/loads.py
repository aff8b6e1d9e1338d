"""How leaves beyond the arguments are found: 1 where there is something, 0 for a miss, -1 with an exception set."""

from __future__ import annotations

from eagerjit.runtime.native.context import GRAD, OBJECT_TYPE, context
from eagerjit.runtime.native.language import external, external_data, i64, load_i64, load_ptr, ptr, store_ptr
from eagerjit.runtime.native.objects import Py_IncRef, is_tensor

PyObject_GetAttr = external("ptr PyObject_GetAttr(ptr, ptr)")
PyList_Size = external("i64 PyList_Size(ptr)")
PyList_GetItem = external("ptr PyList_GetItem(ptr, i64)")
PyLong_AsSsize_t = external("i64 PyLong_AsSsize_t(ptr)")
PyList_Type = external_data("PyList_Type")
PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyTuple_Type = external_data("PyTuple_Type")
PyDict_GetItemWithError = external("ptr PyDict_GetItemWithError(ptr, ptr)")
PyErr_ExceptionMatches = external("i32 PyErr_ExceptionMatches(ptr)")
PyErr_Occurred = external("ptr PyErr_Occurred()")
PyErr_Clear = external("void PyErr_Clear()")
PyType_IsSubtype = external("i32 PyType_IsSubtype(ptr, ptr)")
PyCell_Get = external("ptr PyCell_Get(ptr)")
PyDict_Type = external_data("PyDict_Type")
PyExc_AttributeError = external_data("PyExc_AttributeError")
PyLong_Type = external_data("PyLong_Type")


def load_item(mapping: ptr, key: ptr, to: ptr) -> i64:
    """LOAD_ITEM: stores a new reference. Negative positions in a list are counted from its end."""
    kind = load_ptr(mapping, OBJECT_TYPE)
    value: ptr = 0
    if kind == PyList_Type and load_ptr(key, OBJECT_TYPE) == PyLong_Type:
        size = PyList_Size(mapping)
        position = PyLong_AsSsize_t(key)
        place = position + size if position < 0 else position
        if place >= 0 and place < size:
            value = PyList_GetItem(mapping, place)
    elif kind == PyDict_Type or PyType_IsSubtype(kind, PyDict_Type):
        value = PyDict_GetItemWithError(mapping, key)
    elif PyType_IsSubtype(kind, PyTuple_Type) and load_ptr(key, OBJECT_TYPE) == PyLong_Type:
        position = PyLong_AsSsize_t(key)
        if position < PyTuple_Size(mapping):
            value = PyTuple_GetItem(mapping, position)
    if value == 0:
        return -1 if PyErr_Occurred() else 0
    Py_IncRef(value)
    store_ptr(to, 0, value)
    return 1


def lacks_key(mapping: ptr, key: ptr) -> i64:
    """LACKS."""
    kind = load_ptr(mapping, OBJECT_TYPE)
    if kind != PyDict_Type and PyType_IsSubtype(kind, PyDict_Type) == 0:
        return 0
    found = PyDict_GetItemWithError(mapping, key)
    if found == 0 and PyErr_Occurred():
        return -1
    return found == 0


def load_cell(cell: ptr, to: ptr) -> i64:
    """LOAD_CELL: stores a new reference."""
    value = PyCell_Get(cell)
    if value == 0:
        return -1 if PyErr_Occurred() else 0
    store_ptr(to, 0, value)
    return 1


def load_attribute(owner: ptr, name: ptr, to: ptr) -> i64:
    """LOAD_ATTRIBUTE: stores a new reference."""
    value = PyObject_GetAttr(owner, name)
    if value == 0:
        if not PyErr_ExceptionMatches(load_ptr(PyExc_AttributeError, 0)):
            return -1
        PyErr_Clear()
        return 0
    store_ptr(to, 0, value)
    return 1


def load_grad(tensor: ptr, to: ptr) -> i64:
    """LOAD_GRAD: stores a new reference."""
    if not is_tensor(tensor):
        return 0
    grad = load_ptr(tensor, load_i64(context, GRAD))
    if grad == 0:
        return 0
    Py_IncRef(grad)
    store_ptr(to, 0, grad)
    return 1
