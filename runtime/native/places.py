"""Where the user's code is, noted for autograd nodes and in-place writes (see `runtime/source.py`).

It is found in CPython's frames, without holding on to one.
"""

from __future__ import annotations

from eagerjit.runtime.native.context import (
    CODE_FILE,
    IS_LIBRARY,
    LIBRARY_FILES,
    NODE,
    NONE,
    NOTE_WRITTEN,
    OBJECT_TYPE,
    STORAGE_SOURCE,
    STORAGE_VERSION,
    TRUE,
    VIEW,
    context,
)
from eagerjit.runtime.native.language import buffer, external, external_data, i64, load_i64, load_ptr, ptr, store_i64
from eagerjit.runtime.native.objects import (
    Py_DecRef,
    Py_IncRef,
    PyLong_FromLongLong,
    is_tensor,
    not_a_tensor,
    replace_slot,
    storage_of,
)

PyEval_GetFrame = external("ptr PyEval_GetFrame()")
PyFrame_GetCode = external("ptr PyFrame_GetCode(ptr)")
PyFrame_GetBack = external("ptr PyFrame_GetBack(ptr)")
PyFrame_GetLasti = external("i32 PyFrame_GetLasti(ptr)")
PyDict_GetItem = external("ptr PyDict_GetItem(ptr, ptr)")
PyObject_CallOneArg = external("ptr PyObject_CallOneArg(ptr, ptr)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")
PyLong_AsLongLong = external("i64 PyLong_AsLongLong(ptr)")
PyErr_Occurred = external("ptr PyErr_Occurred()")
PyErr_Clear = external("void PyErr_Clear()")
PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_SetItem = external("i32 PyTuple_SetItem(ptr, i64, ptr)")
PyTuple_Type = external_data("PyTuple_Type")
PyLong_Type = external_data("PyLong_Type")


def _is_library(code: ptr) -> i64:
    """Whether code belongs to a library rather than to the user."""
    file = load_ptr(code, load_i64(context, CODE_FILE))
    known = PyDict_GetItem(load_ptr(context, LIBRARY_FILES), file)
    if known == 0:
        known = PyObject_CallOneArg(load_ptr(context, IS_LIBRARY), file)
        if known == 0:
            PyErr_Clear()
            return 0
        Py_DecRef(known)
    return known == load_ptr(context, TRUE)


def user_code(offset: ptr) -> ptr:
    """The user's code that is running (a new reference), its instruction stored at `offset`; null outside of it."""
    frame = PyEval_GetFrame()
    if frame == 0:
        return 0
    Py_IncRef(frame)
    while frame:
        code = PyFrame_GetCode(frame)
        if not _is_library(code):
            store_i64(offset, 0, PyFrame_GetLasti(frame))
            Py_DecRef(frame)
            return code
        Py_DecRef(code)
        outer = PyFrame_GetBack(frame)
        Py_DecRef(frame)
        frame = outer
    PyErr_Clear()  # a frame that has no object yet gets one, if there is memory
    return 0


def _is_place(noted: ptr, code: ptr, offset: i64) -> bool:
    """Whether this is a pair of the code and the offset of an instruction in it."""
    if load_ptr(noted, OBJECT_TYPE) != PyTuple_Type or PyTuple_Size(noted) != 2 or PyTuple_GetItem(noted, 0) != code:
        return 0
    number = PyTuple_GetItem(noted, 1)
    return load_ptr(number, OBJECT_TYPE) == PyLong_Type and PyLong_AsLongLong(number) == offset


def _note_write(storage: ptr) -> i64:
    """Stores in a Storage where the user's code wrote to it; -1 with an exception set."""
    offset = buffer(8)
    code = user_code(offset)
    if code == 0:
        return 0
    noted = load_ptr(storage, load_i64(context, STORAGE_SOURCE))
    if noted != 0 and _is_place(noted, code, load_i64(offset, 0)):
        Py_DecRef(code)
        return 0
    place = PyTuple_New(2)
    number = PyLong_FromLongLong(load_i64(offset, 0))
    if place == 0 or number == 0:
        Py_DecRef(code)
        return -1
    PyTuple_SetItem(place, 0, code)
    PyTuple_SetItem(place, 1, number)
    replace_slot(storage, load_i64(context, STORAGE_SOURCE), place)
    Py_DecRef(place)
    return 0


def _told(tensor: ptr, storage: ptr) -> i64:
    """Tells Python of a write to a tensor with a history, or to a view: 1, or -1 with an exception set."""
    none = load_ptr(context, NONE)
    if load_ptr(tensor, load_i64(context, NODE)) == none and load_ptr(tensor, load_i64(context, VIEW)) == none:
        return 1
    place = load_ptr(storage, load_i64(context, STORAGE_SOURCE))
    result = PyObject_CallFunctionObjArgs(load_ptr(context, NOTE_WRITTEN), tensor, place, ptr(0))
    if result == 0:
        return -1
    Py_DecRef(result)
    return 1


def bump_storage(tensor: ptr, line: ptr, times: i64) -> i64:
    """BUMP_VERSION, with the line it says or null: 1, or -1 with an exception set."""
    if not is_tensor(tensor):
        return not_a_tensor()
    storage = storage_of(tensor)
    if storage == 0:
        return -1
    offset = load_i64(context, STORAGE_VERSION)
    version = PyLong_AsLongLong(load_ptr(storage, offset))
    if version == -1 and PyErr_Occurred():
        return -1
    following = PyLong_FromLongLong(version + times)
    if following == 0:
        return -1
    replace_slot(storage, offset, following)
    Py_DecRef(following)
    if line:
        replace_slot(storage, load_i64(context, STORAGE_SOURCE), line)
    elif _note_write(storage) != 0:
        return -1
    return _told(tensor, storage)
