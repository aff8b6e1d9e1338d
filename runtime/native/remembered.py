"""What a tensor says of its layout, answered from memory: `shape`, `size(-1)`, `stride()`, `is_contiguous()`.

The key is dtype, sizes, strides and the arguments, numbers or None. A table is a mask, and mask + 1 entries of a key's
hash, the key's address and length in words, and the answer (null where free).
"""

from __future__ import annotations

from eagerjit.runtime.mode import TRACING
from eagerjit.runtime.native.context import (
    ARRAY_DESCRIPTOR,
    ARRAY_DIMS,
    ARRAY_NDIM,
    ARRAY_STRIDES,
    NONE,
    OBJECT_TYPE,
    REMEMBERED_FUNCTION,
    REMEMBERED_LEARN,
    REMEMBERED_TABLE,
    context,
)
from eagerjit.runtime.native.entry import COUNT, to_python
from eagerjit.runtime.native.guards import thread_flags
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
    shift_right_unsigned,
    store_i64,
)
from eagerjit.runtime.native.objects import Py_DecRef, Py_IncRef, array_of
from eagerjit.runtime.native.operators import HASH_FACTOR, HASH_SEED, code_of, tuple_of

PyBytes_FromStringAndSize = external("ptr PyBytes_FromStringAndSize(ptr, i64)")
PyLong_AsLongLongAndOverflow = external("i64 PyLong_AsLongLongAndOverflow(ptr, ptr)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")
PyLong_Type = external_data("PyLong_Type")

MAX_KEY_WORDS = 40
_NO_NUMBER = -9223372036854775808  # stands for None


def _key(arguments: ptr, n: i64, key: ptr) -> i64:
    """Stores the key of a call; its words, 0 where it has none."""
    array = array_of(load_ptr(arguments, 0)) if n else 0
    if array == 0:
        return 0
    code = code_of(load_ptr(array, ARRAY_DESCRIPTOR))
    ndim = load_i32(array, ARRAY_NDIM)
    if code < 0 or 2 * ndim + n > MAX_KEY_WORDS:
        return 0
    store_i64(key, 0, code | ndim << 8 | n << 16)
    copy_bytes(key + 8, load_ptr(array, ARRAY_DIMS), 8 * ndim)
    copy_bytes(key + 8 + 8 * ndim, load_ptr(array, ARRAY_STRIDES), 8 * ndim)
    for i in range(1, n):
        value = _NO_NUMBER
        argument = load_ptr(arguments, 8 * i)
        if argument != load_ptr(context, NONE):
            overflow = buffer(8)
            if load_ptr(argument, OBJECT_TYPE) != PyLong_Type:
                return 0
            value = PyLong_AsLongLongAndOverflow(argument, overflow)
            if load_i32(overflow, 0) != 0 or value == _NO_NUMBER:
                return 0
        store_i64(key, 8 * (2 * ndim + i), value)
    return 2 * ndim + n


def _hash(key: ptr, n: i64) -> i64:
    mixed = HASH_SEED
    for i in range(n):
        mixed = (mixed ^ load_i64(key, 8 * i)) * HASH_FACTOR
        mixed ^= shift_right_unsigned(mixed, 29)
    return shift_right_unsigned(mixed, 24)


def _find(table: ptr, key: ptr, n: i64) -> ptr:
    """The answer filed under a key, null for none."""
    hashed = _hash(key, n)
    mask = load_i64(table, 0)
    at = hashed & mask
    while True:
        entry = table + 8 + 32 * at
        answer = load_ptr(entry, 24)
        if answer == 0:
            return 0
        if load_i64(entry, 0) == hashed and load_i64(entry, 16) == n and _same(load_ptr(entry, 8), key, n):
            return answer
        at = (at + 1) & mask


def _same(a: ptr, b: ptr, n: i64) -> bool:
    for i in range(n):
        if load_i64(a, 8 * i) != load_i64(b, 8 * i):
            return 0
    return 1


def remembered_call(callee: ptr, arguments: ptr, count: i64, keywords: ptr) -> ptr:
    """Vectorcall of a Remembered: the known answer, else learn(key, arguments), or the function if there is no key."""
    n = count & COUNT
    key = buffer(8 * MAX_KEY_WORDS)
    words = 0
    if keywords == 0 and thread_flags() & TRACING == 0:
        words = _key(arguments, n, key)
    if words == 0:
        return to_python(callee, REMEMBERED_FUNCTION, arguments, count, keywords)
    answer = _find(load_ptr(callee, REMEMBERED_TABLE), key, words)
    if answer:
        Py_IncRef(answer)
        return answer
    text = PyBytes_FromStringAndSize(key, 8 * words)
    if text == 0:
        return 0
    result: ptr = 0
    given = tuple_of(arguments, n)
    if given:
        learn = load_ptr(callee, load_i64(context, REMEMBERED_LEARN))
        Py_IncRef(learn)
        result = PyObject_CallFunctionObjArgs(learn, text, given, ptr(0))
        Py_DecRef(learn)
        Py_DecRef(given)
    Py_DecRef(text)
    return result
