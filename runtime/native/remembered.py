"""What a tensor says of its layout, answered from memory: `shape`, `size(-1)`, `stride()`, `is_contiguous()`.

The key is dtype, sizes, strides and the arguments, numbers or None.
"""

from __future__ import annotations

from eagerjit.runtime.mode import TRACING
from eagerjit.runtime.native.answers import find_answer, learned
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
)
from eagerjit.runtime.native.objects import Py_IncRef, array_of
from eagerjit.runtime.native.operators import code_of, tuple_of

PyLong_AsLongLongAndOverflow = external("i64 PyLong_AsLongLongAndOverflow(ptr, ptr)")
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


def remembered_call(callee: ptr, arguments: ptr, count: i64, keywords: ptr) -> ptr:
    """Vectorcall of a Remembered: the known answer, else learn(key, arguments), or the function if there is no key."""
    n = count & COUNT
    key = buffer(8 * MAX_KEY_WORDS)
    words = 0
    if keywords == 0 and thread_flags() & TRACING == 0:
        words = _key(arguments, n, key)
    if words == 0:
        return to_python(callee, REMEMBERED_FUNCTION, arguments, count, keywords)
    answer = find_answer(load_ptr(callee, REMEMBERED_TABLE), key, words)
    if answer:
        Py_IncRef(answer)
        return answer
    given = tuple_of(arguments, n)
    return learned(load_ptr(callee, load_i64(context, REMEMBERED_LEARN)), key, words, given) if given else ptr(0)
