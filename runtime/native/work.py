"""Instructions of a Program that do more than move a word: kernels, products, calls, errors, integer division."""

from __future__ import annotations

from eagerjit.runtime.native.context import (
    EXECUTABLE_ERRORS,
    EXECUTABLE_FUNCTIONS,
    EXECUTABLE_OBJECTS,
    GRAD,
    NONE,
    context,
)
from eagerjit.runtime.native.convolution_plan import X
from eagerjit.runtime.native.language import (
    c_string,
    call_i64,
    external,
    external_data,
    global_bytes,
    i64,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.objects import (
    Py_DecRef,
    PyErr_NoMemory,
    PyErr_SetObject,
    PyErr_SetString,
    PyLong_FromLongLong,
    is_tensor,
    not_a_tensor,
    replace_slot,
)
from eagerjit.runtime.native.products import TOO_LARGE
from eagerjit.runtime.native.threads import is_worth_threads, parallel_for, serial_for, thread_count

TOGETHER = 16
"""Tasks that a kernel whose rows lie across memory runs at the same time, where its range has as many."""

matmul_function = global_bytes(8)
convolution_function = global_bytes(8)
"""The addresses of `matmul` and `convolution`, which are loaded with the first Program that calls them."""

PyObject_Vectorcall = external("ptr PyObject_Vectorcall(ptr, ptr, i64, ptr)")
PyUnicode_Format = external("ptr PyUnicode_Format(ptr, ptr)")
PyExc_OverflowError = external_data("PyExc_OverflowError")


def floor_divide(a: i64, b: i64) -> i64:
    """Python's // for a non-zero divisor; wraps where the quotient does not fit."""
    if b == -1:
        return -a
    quotient = a // b
    if a % b != 0 and (a < 0) != (b < 0):
        quotient -= 1
    return quotient


def modulo(a: i64, b: i64) -> i64:
    """Python's % for a non-zero divisor."""
    if b == -1:
        return 0
    rest = a % b
    if rest != 0 and (rest < 0) != (b < 0):
        rest += b
    return rest


def run_kernel(executable: ptr, operands: ptr, slots: ptr, arguments: ptr) -> i64:
    """KERNEL: its status, or OUT_OF_MEMORY."""
    n = load_i64(operands, 32)
    for i in range(n):
        store_i64(arguments, 8 * i, load_i64(slots, 8 * load_i64(operands, 40 + 8 * i)))
    function = load_ptr(load_ptr(executable, EXECUTABLE_FUNCTIONS), 8 * load_i64(operands, 0))
    tasks = load_i64(slots, 8 * load_i64(operands, 8))
    work = load_i64(slots, 8 * load_i64(operands, 16))
    scratch_slot = load_i64(operands, 24)
    scratch_bytes = 0
    if scratch_slot >= 0:
        scratch_bytes = load_i64(slots, 8 * scratch_slot)
    if is_worth_threads(work):
        # Some kernels run so many tasks together where they can.
        block = TOGETHER if tasks >= 2 * TOGETHER * thread_count() else 1
        return parallel_for(function, arguments, tasks, scratch_bytes, block)
    if scratch_bytes:
        return serial_for(function, arguments, tasks, scratch_bytes)
    return call_i64(function, arguments, 0, tasks, ptr(0))


def run_matmul(operands: ptr, slots: ptr, batch: ptr) -> i64:
    """MATMUL: 0 or a negative status."""
    n_batch = load_i64(operands, 8)
    for i in range(4 * n_batch):
        store_i64(batch, 8 * i, _slot(operands, slots, 13 + i))
    return call_i64(
        load_ptr(matmul_function),
        load_i64(operands, 0),
        _slot(operands, slots, 2),
        _slot(operands, slots, 3),
        _slot(operands, slots, 4),
        _slot(operands, slots, 5),
        _slot(operands, slots, 6),
        _slot(operands, slots, 7),
        _slot(operands, slots, 8),
        _slot(operands, slots, 9),
        _slot(operands, slots, 10),
        _slot(operands, slots, 11),
        _slot(operands, slots, 12),
        n_batch,
        batch,
    )


def run_convolution(operands: ptr, slots: ptr, table: ptr) -> i64:
    """CONVOLUTION: 0 or a negative status."""
    for i in range(18):
        store_i64(table, 8 * i, _slot(operands, slots, 9 + i))
    for i in range(7):
        store_i64(table, X + 8 * i, _slot(operands, slots, 2 + i))
    function = load_ptr(convolution_function)
    return call_i64(function, load_i64(operands, 0), load_i64(operands, 8), table)


def _slot(operands: ptr, slots: ptr, i: i64) -> i64:
    """The value of the slot that the i-th operand names."""
    return load_i64(slots, 8 * load_i64(operands, 8 * i))


def raise_failure(executable: ptr, status: i64, slots: ptr) -> None:
    """Sets the exception that a kernel's or a product's status stands for."""
    if status == TOO_LARGE:
        PyErr_SetString(load_ptr(PyExc_OverflowError, 0), c_string("a matrix product has a size beyond 2**31 - 1"))
        return
    if status < 0:
        PyErr_NoMemory()
        return
    failure = load_ptr(executable, EXECUTABLE_ERRORS) + 24 * (status - 1)
    slot = load_i64(failure, 16)
    if slot < 0:
        PyErr_SetObject(load_ptr(failure, 0), load_ptr(failure, 8))
        return
    number = PyLong_FromLongLong(load_i64(slots, 8 * slot))
    if number == 0:
        return
    message = PyUnicode_Format(load_ptr(failure, 8), number)
    Py_DecRef(number)
    if message:
        PyErr_SetObject(load_ptr(failure, 0), message)
        Py_DecRef(message)


def call_host(executable: ptr, operands: ptr, slots: ptr, arguments: ptr) -> i64:
    """CALL: 1, or -1 with an exception set. The last word of `arguments` is the call's own.

    Where there is a direct function (`runtime/direct.py`), Python is called for what that declines.
    """
    n = load_i64(operands, 8)
    for i in range(n):
        store_i64(arguments, 8 * i, load_i64(slots, 8 * load_i64(operands, 16 + 8 * i)))
    # Calls lie before the objects, the first one farthest: each a callee and what its direct function is told.
    entry = load_ptr(executable, EXECUTABLE_OBJECTS) - 16 * (1 + load_i64(operands, 0))
    about = load_ptr(entry, 8)
    if about and call_i64(load_ptr(about), arguments, about):
        return 1
    address = PyLong_FromLongLong(i64(arguments))
    if address == 0:
        return -1
    store_ptr(arguments, 8 * n, address)
    result = PyObject_Vectorcall(load_ptr(entry), arguments + 8 * n, 1, 0)
    Py_DecRef(address)
    if result == 0:
        return -1
    Py_DecRef(result)
    return 1


def set_grad(leaves: ptr, outputs: ptr, leaf: i64, output: i64) -> i64:
    """SET_GRAD: 1, or -1 with an exception set."""
    tensor = load_ptr(leaves, 8 * leaf)
    if not is_tensor(tensor):
        return not_a_tensor()
    value = load_ptr(context, NONE)
    if output >= 0:
        value = load_ptr(outputs, 8 * output)
    replace_slot(tensor, load_i64(context, GRAD), value)
    return 1
