"""The leaves of a call whose arguments are nestings of tuples, lists, dictionaries and dataclasses, as a plan has them.

A plan is one block of words (`runtime/taking.py` writes it): how many arguments are given by position, how many by
name, the names; then the shape of each argument, in that order. A shape is LEAF, or a kind, a class, a count, for
dictionaries and dataclasses the keys, and the shapes of what it holds.
"""

from __future__ import annotations

from eagerjit.runtime.native.agreed import OF_DICT, OF_FIELDS, OF_LEAF, OF_TUPLE
from eagerjit.runtime.native.context import OBJECT_TYPE
from eagerjit.runtime.native.language import (
    buffer,
    external,
    external_data,
    i64,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.objects import hold, let_go

PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyList_Size = external("i64 PyList_Size(ptr)")
PyList_GetItem = external("ptr PyList_GetItem(ptr, i64)")
PyDict_Size = external("i64 PyDict_Size(ptr)")
PyDict_Next = external("i32 PyDict_Next(ptr, ptr, ptr, ptr)")
PyUnicode_Compare = external("i32 PyUnicode_Compare(ptr, ptr)")
PyObject_GenericGetDict = external("ptr PyObject_GenericGetDict(ptr, ptr)")
PyErr_Clear = external("void PyErr_Clear()")
PyUnicode_Type = external_data("PyUnicode_Type")

AT = 0  # where the walk through a plan is, and the leaves found so far
FOUND = 8
WALK = 16


def _is_same_text(text: ptr, known: ptr) -> bool:
    """Whether a key is a text of the plan."""
    return text == known or (load_ptr(text, OBJECT_TYPE) == PyUnicode_Type and PyUnicode_Compare(text, known) == 0)


def _take_items(plan: ptr, walk: ptr, leaves: ptr, held: ptr, n: i64) -> bool:
    """Takes what a dictionary holds if its keys are those of the plan, in their order."""
    if PyDict_Size(held) != n:
        return 0
    keys = plan + 8 * load_i64(walk, AT)
    store_i64(walk, AT, load_i64(walk, AT) + n)
    entry = buffer(24)
    position: i64 = 0
    for i in range(n):
        store_i64(entry, 0, position)
        if PyDict_Next(held, entry, entry + 8, entry + 16) == 0:
            return 0
        position = load_i64(entry, 0)
        if not _is_same_text(load_ptr(entry, 8), load_ptr(keys, 8 * i)):
            return 0
        if not _take(plan, walk, leaves, load_ptr(entry, 16)):
            return 0
    return 1


def _take(plan: ptr, walk: ptr, leaves: ptr, thing: ptr) -> bool:
    """Takes the leaves of a part of a call if it has the shape that comes next; no code of Python's runs."""
    shape = plan + 8 * load_i64(walk, AT)
    kind = load_i64(shape, 0)
    if kind == OF_LEAF:
        found = load_i64(walk, FOUND)
        store_ptr(leaves, 8 * found, thing)
        store_i64(walk, FOUND, found + 1)
        store_i64(walk, AT, load_i64(walk, AT) + 1)
        return 1
    if load_ptr(thing, OBJECT_TYPE) != load_ptr(shape, 8):
        return 0
    n = load_i64(shape, 16)
    store_i64(walk, AT, load_i64(walk, AT) + 3)
    if kind == OF_DICT:
        return _take_items(plan, walk, leaves, thing, n)
    if kind == OF_FIELDS:
        fields = PyObject_GenericGetDict(thing, ptr(0))
        if fields == 0:
            PyErr_Clear()
            return 0
        taken = _take_items(plan, walk, leaves, fields, n)
        let_go(fields)
        return taken
    if (PyTuple_Size(thing) if kind == OF_TUPLE else PyList_Size(thing)) != n:
        return 0
    for i in range(n):
        item = PyTuple_GetItem(thing, i) if kind == OF_TUPLE else PyList_GetItem(thing, i)
        if not _take(plan, walk, leaves, item):
            return 0
    return 1


def take_leaves(plan: ptr, arguments: ptr, n: i64, keywords: ptr, leaves: ptr) -> i64:
    """Stores the leaves of a call that is as planned, and their number; -1 for others. The leaves are held."""
    by_name = load_i64(plan, 8)
    if load_i64(plan, 0) != n or (PyTuple_Size(keywords) if keywords else 0) != by_name:
        return -1
    walk = buffer(WALK)
    store_i64(walk, AT, 2 + by_name)
    store_i64(walk, FOUND, 0)
    for i in range(by_name):
        if not _is_same_text(PyTuple_GetItem(keywords, i), load_ptr(plan, 16 + 8 * i)):
            return -1
    for i in range(n + by_name):
        if not _take(plan, walk, leaves, load_ptr(arguments, 8 * i)):
            return -1
    for i in range(load_i64(walk, FOUND)):
        hold(load_ptr(leaves, 8 * i))
    return load_i64(walk, FOUND)


def release_leaves(leaves: ptr, n: i64) -> None:
    """Lets go of the leaves of a call that was as planned."""
    for i in range(n):
        let_go(load_ptr(leaves, 8 * i))
