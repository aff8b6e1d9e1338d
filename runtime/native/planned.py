"""Calls that are planned: which operator is called, and with which options, is known from what the arguments are like.

The key has a word for every argument that is no tensor (None, a bool, a string, a dtype or a device by its address, a
number by its value, of a tuple of numbers how many and each), and for a tensor a word for dtype, dimensions, layout and
whether a gradient is recorded, then its sizes, unless plans are OF_RANKS. A plan is a tuple: what is called (None:
nothing, the only argument is the result), four bits for each of its arguments, the position among the call's own or
OTHER, and the objects that are not of the call (None for those that are).
"""

from __future__ import annotations

from eagerjit.runtime.mode import GRAD_OFF, TRACING
from eagerjit.runtime.native.agreed import MAX_PARAMETERS, OTHER, SIZES, TENSORS
from eagerjit.runtime.native.answers import find_answer, learned
from eagerjit.runtime.native.context import (
    ARRAY_DESCRIPTOR,
    ARRAY_DIMS,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    CONTIGUOUS_FLAG,
    DEVICE_TYPE,
    DTYPES,
    N_DTYPES,
    NONE,
    OBJECT_TYPE,
    OPERATOR_COUNT,
    OPERATOR_KIND,
    OPERATOR_OP,
    OPERATOR_SLOW,
    OPERATOR_TABLE,
    REQUIRES_GRAD,
    TRUE,
    context,
)
from eagerjit.runtime.native.entry import COUNT, PyObject_Vectorcall, to_python
from eagerjit.runtime.native.flags import thread_flags
from eagerjit.runtime.native.language import (
    buffer,
    copy_bytes,
    external,
    external_data,
    i64,
    load_i32,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.objects import Py_DecRef, Py_IncRef, array_of, is_tensor
from eagerjit.runtime.native.operators import (
    bind_arguments,
    held_code_of,
    is_tuple,
    option_word,
    tuple_of,
    tuples_for_lists,
)

PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyErr_Clear = external("void PyErr_Clear()")
PyLong_AsLongLong = external("i64 PyLong_AsLongLong(ptr)")
PyUnicode_Type = external_data("PyUnicode_Type")

MAX_KEY_WORDS = 96
RECORDED = 1 << 40  # beside dtype, dimensions and layout; the other marks tell tensors and tuples from all else


def _tensor_words(tensor: ptr, recording: bool, of_ranks: i64, key: ptr) -> i64:
    """Stores what is asked of a tensor; how many words that are, 0 where native code does not know it."""
    array = array_of(tensor)
    if array == 0:
        return 0
    ndim = load_i32(array, ARRAY_NDIM)
    code = held_code_of(load_ptr(array, ARRAY_DESCRIPTOR))
    if code < 0 or ndim > 8:
        return 0
    word = TENSORS | code | ndim << 4 | (load_i32(array, ARRAY_FLAGS) & CONTIGUOUS_FLAG) << 8
    if recording and load_ptr(tensor, load_i64(context, REQUIRES_GRAD)) == load_ptr(context, TRUE):
        word |= RECORDED
    store_i64(key, 0, word)
    if of_ranks:
        return 1
    copy_bytes(key + 8, load_ptr(array, ARRAY_DIMS), 8 * ndim)
    return 1 + ndim


def _constant(thing: ptr) -> i64:
    """The word of an option that never changes; 0 for anything else."""
    kind = load_ptr(thing, OBJECT_TYPE)
    if kind == PyUnicode_Type or kind == load_ptr(context, DEVICE_TYPE):
        return i64(thing)
    word = option_word(thing)
    if word != 0:
        return word
    for code in range(N_DTYPES):
        if thing == load_ptr(context, DTYPES + 8 * code):
            return i64(thing)
    return 0


def _words(thing: ptr, recording: bool, of_ranks: i64, key: ptr) -> i64:
    """Stores the words of an argument; how many, 0 where it has none. There is room for nine."""
    if is_tensor(thing):
        return _tensor_words(thing, recording, of_ranks, key)
    if not is_tuple(thing):
        store_i64(key, 0, _constant(thing))
        return load_i64(key, 0) != 0
    n = PyTuple_Size(thing)
    if n > 8:
        return 0
    store_i64(key, 0, SIZES | n)
    for i in range(n):
        word = _constant(PyTuple_GetItem(thing, i))
        if word == 0:
            return 0
        store_i64(key, 8 + 8 * i, word)
    return 1 + n


def _key(full: ptr, n: i64, recording: bool, of_ranks: i64, key: ptr) -> i64:
    """Stores the key of a call; its words, 0 where it has none."""
    words = 0
    for i in range(n):
        added = _words(load_ptr(full, 8 * i), recording, of_ranks, key + 8 * words)
        if added == 0:
            return 0
        words += added
        if words > MAX_KEY_WORDS - 9:
            return 0
    return words


def _carried_out(plan: ptr, full: ptr) -> ptr:
    """The call that a plan says."""
    given = buffer(8 * MAX_PARAMETERS)
    n = PyTuple_Size(plan) - 2
    own = PyLong_AsLongLong(PyTuple_GetItem(plan, 1))
    for i in range(n):
        position = (own >> 4 * i) & OTHER
        store_ptr(given, 8 * i, PyTuple_GetItem(plan, 2 + i) if position == OTHER else load_ptr(full, 8 * position))
    if PyTuple_GetItem(plan, 0) == load_ptr(context, NONE):
        result = load_ptr(given, 0)
        Py_IncRef(result)
        return result
    Py_IncRef(plan)
    result = PyObject_Vectorcall(PyTuple_GetItem(plan, 0), given, n, ptr(0))
    Py_DecRef(plan)
    return result


def _known_or_learned(callee: ptr, full: ptr, n: i64, key: ptr, words: i64) -> ptr:
    plan = find_answer(load_ptr(callee, OPERATOR_TABLE), key, words)
    if plan:
        return _carried_out(plan, full)
    given = tuple_of(full, n)
    return learned(load_ptr(callee, load_i64(context, OPERATOR_OP)), key, words, given) if given else ptr(0)


def planned_call(callee: ptr, arguments: ptr, count: i64, keywords: ptr) -> ptr:
    """Vectorcall of a Planned: the known plan carried out, else learn(key, arguments), or `slow` if there is no key."""
    full = buffer(8 * MAX_PARAMETERS)
    key = buffer(8 * MAX_KEY_WORDS)
    flags = thread_flags()
    n = load_i64(callee, OPERATOR_COUNT)
    if flags & TRACING != 0 or not bind_arguments(callee, arguments, count & COUNT, keywords, full):
        return to_python(callee, OPERATOR_SLOW, arguments, count, keywords)
    replaced = tuples_for_lists(full, n)
    if replaced < 0:
        return 0
    result: ptr = 0
    words = _key(full, n, flags & GRAD_OFF == 0, load_i64(callee, OPERATOR_KIND), key)
    if words == 0:
        result = to_python(callee, OPERATOR_SLOW, arguments, count, keywords)
    else:
        result = _known_or_learned(callee, full, n, key, words)
        if result == 0 and replaced != 0:  # what is wrong may be the list
            PyErr_Clear()
            result = to_python(callee, OPERATOR_SLOW, arguments, count, keywords)
    for i in range(n):
        if (replaced >> i) & 1:
            Py_DecRef(load_ptr(full, 8 * i))
    return result
