"""The modes of the running thread, as native code reads them."""

from __future__ import annotations

from eagerjit.runtime.mode import DEBUGGERS_WORD, MODULES_WORD
from eagerjit.runtime.native.context import (
    DEBUGGER,
    FLAGS_KEY,
    GET_TOOL,
    GET_TRACE,
    IS_DEBUGGED,
    MODE_WORDS,
    MODULES,
    NONE,
    TRUE,
    context,
)
from eagerjit.runtime.native.language import external, i64, load_i64, load_ptr, ptr

PyThread_tss_get = external("ptr PyThread_tss_get(ptr)")
PyDict_Size = external("i64 PyDict_Size(ptr)")
PyObject_CallNoArgs = external("ptr PyObject_CallNoArgs(ptr)")
PyObject_CallOneArg = external("ptr PyObject_CallOneArg(ptr, ptr)")
Py_DecRef = external("void Py_DecRef(ptr)")


def thread_flags() -> i64:
    """This thread's modes: the word that Python keeps for it, or none."""
    word = PyThread_tss_get(load_ptr(context, FLAGS_KEY))
    if word == 0:
        return 0
    return load_i64(word, 0)


def _is(expected: i64, answer: ptr) -> i64:
    """Whether what a function of Python has answered is a certain object; -1 where it has raised."""
    if answer == 0:
        return -1
    Py_DecRef(answer)
    return load_ptr(context, expected) == answer


def _is_unwatched() -> i64:
    """Whether nobody follows this thread, debugger or not."""
    tool = load_ptr(context, GET_TOOL)
    if tool != 0 and _is(NONE, PyObject_CallOneArg(tool, load_ptr(context, DEBUGGER))) != 1:
        return 0
    return _is(NONE, PyObject_CallNoArgs(load_ptr(context, GET_TRACE)))


def is_debugged() -> i64:
    """Whether a debugger follows this thread; -1 with an error set."""
    words = load_ptr(context, MODE_WORDS)
    if load_i64(words, 8 * MODULES_WORD) == PyDict_Size(load_ptr(context, MODULES)):
        if load_i64(words, 8 * DEBUGGERS_WORD) == 0 or _is_unwatched() == 1:
            return 0
    return _is(TRUE, PyObject_CallNoArgs(load_ptr(context, IS_DEBUGGED)))
