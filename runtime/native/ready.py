"""Launches that are ready: a kernel has a table of them, one per kind of sizes.

A launch is what the kernel's words are compared with, then what the driver is told. Python adds to the table
(`runtime/gpu/direct.py`).
"""

from __future__ import annotations

from eagerjit.runtime.mode import PRECISION_WORD
from eagerjit.runtime.native.context import MODE_WORDS, context
from eagerjit.runtime.native.device_memory import PyObject_CallFunctionObjArgs
from eagerjit.runtime.native.language import i64, load_i64, load_ptr, ptr
from eagerjit.runtime.native.objects import Py_DecRef, PyLong_FromLongLong

# A kernel's table: how many words are compared, the function that prepares a launch, the launches that were used last,
# and which words are compared: a parameter, and whether only its alignment counts
TABLE_WORDS, TABLE_PREPARE, TABLE_ENTRIES, TABLE_COMPARED = 0, 8, 16, 48
WAYS = 4
ALIGNMENT_ONLY = 1 << 32
# A launch: what was compared begins at COMPARED, which argument is which word at PICKS, tensor maps at MAPS (0: none)
READY_FUNCTION, READY_GRID, READY_THREADS, READY_SHARED, READY_COUNT, READY_PARTIALS, READY_COUNTERS = (
    0, 8, 32, 40, 48, 56, 64,
)  # fmt: skip
READY_TABLES, READY_PICKS, READY_COMPARED, READY_MAPS = 72, 80, 88, 96


def _fits(table: ptr, launch: ptr, tasks: i64, words: ptr) -> bool:
    """Whether a launch is one for these words."""
    compared = load_ptr(launch, READY_COMPARED)
    precision = load_i64(load_ptr(context, MODE_WORDS), 8 * PRECISION_WORD)
    if load_i64(compared, 0) != tasks or load_i64(compared, 8) != precision:
        return 0
    for i in range(load_i64(table, TABLE_WORDS)):
        which = load_i64(table, TABLE_COMPARED + 8 * i)
        word = load_i64(words, 8 * (which & 0xFFFF_FFFF))
        if which & ALIGNMENT_ONLY:
            word = word & 15
        if load_i64(compared, 16 + 8 * i) != word:
            return 0
    return 1


def ready_launch(table: ptr, tasks: i64, words: ptr) -> ptr:
    """The launch for these words, prepared now if need be; null with an exception set."""
    for i in range(WAYS):
        launch = load_ptr(table, TABLE_ENTRIES + 8 * i)
        if launch and _fits(table, launch, tasks, words):
            return launch
    number = PyLong_FromLongLong(tasks)
    address = PyLong_FromLongLong(i64(words))
    made: ptr = 0
    if number and address:
        made = PyObject_CallFunctionObjArgs(load_ptr(table, TABLE_PREPARE), number, address, ptr(0))
    Py_DecRef(number)
    Py_DecRef(address)
    if made == 0:
        return 0
    Py_DecRef(made)
    return load_ptr(table, TABLE_ENTRIES)
