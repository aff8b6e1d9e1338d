"""Answers known by heart (`runtime/answers.py`), by keys of words.

A table is a mask, and mask + 1 entries of a key's hash, the key's address and length in words, and the answer (null
where free).
"""

from __future__ import annotations

from eagerjit.runtime.native.agreed import HASH_FACTOR, HASH_SEED
from eagerjit.runtime.native.language import external, i64, load_i64, load_ptr, ptr, shift_right_unsigned
from eagerjit.runtime.native.objects import Py_DecRef, Py_IncRef

PyBytes_FromStringAndSize = external("ptr PyBytes_FromStringAndSize(ptr, i64)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")


def _hash(key: ptr, n: i64) -> i64:
    mixed = HASH_SEED
    for i in range(n):
        mixed = (mixed ^ load_i64(key, 8 * i)) * HASH_FACTOR
        mixed ^= shift_right_unsigned(mixed, 29)
    return shift_right_unsigned(mixed, 24)


def find_answer(table: ptr, key: ptr, n: i64) -> ptr:
    """The answer filed under a key (borrowed), null for none."""
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


def learned(learner: ptr, key: ptr, n: i64, arguments: ptr) -> ptr:
    """Calls learner(key, arguments), the Python function that finds an answer; takes over the arguments, a tuple."""
    result: ptr = 0
    text = PyBytes_FromStringAndSize(key, 8 * n)
    if text:
        Py_IncRef(learner)
        result = PyObject_CallFunctionObjArgs(learner, text, arguments, ptr(0))
        Py_DecRef(learner)
        Py_DecRef(text)
    Py_DecRef(arguments)
    return result
