"""Entry points from Python: calls of jitted functions, eager operators and executables."""

from __future__ import annotations

from eagerjit.runtime.mode import CASTING, GRAD_OFF, TRACING
from eagerjit.runtime.native.agreed import MAX_PARAMETERS, MOST_TAKEN
from eagerjit.runtime.native.arrays import over_arrays, release_over_arrays
from eagerjit.runtime.native.connect import connected
from eagerjit.runtime.native.context import (
    ARITY,
    ARRAYS,
    CONNECTED,
    ENTRY_BYTES,
    EXECUTABLE_ARGUMENTS,
    FUNCTION_FALLBACK,
    FUNCTION_SERVED,
    FUNCTION_TABLE,
    MISS,
    OBJECT_TYPE,
    OPERATOR_CASTS,
    OPERATOR_COUNT,
    OPERATOR_OP,
    OPERATOR_RECORDS,
    OPERATOR_REFLECTED,
    OPERATOR_SLOW,
    OPERATOR_TABLE,
    OPERATOR_WRITES,
    PLAINLY,
    REPEATED,
    SINGLE_OUTPUT,
    WITH_ARGUMENTS,
    context,
)
from eagerjit.runtime.native.execute import DONE, FAILED, MISSED, run_executable
from eagerjit.runtime.native.flags import is_debugged, thread_flags
from eagerjit.runtime.native.language import (
    address_of,
    buffer,
    c_string,
    external,
    external_data,
    i64,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.nodes import needs_gradient, record
from eagerjit.runtime.native.objects import (
    Py_DecRef,
    PyErr_NoMemory,
    PyErr_SetString,
    PyExc_TypeError,
    hold,
    let_go,
)
from eagerjit.runtime.native.operators import (
    MAX_LEAVES,
    bind_arguments,
    chosen_leaves,
    make_key,
    same_key,
    tuple_of,
    tuples_for_lists,
)
from eagerjit.runtime.native.taking import release_leaves, take_leaves
from eagerjit.runtime.native.written import writable, write_recorded

PyObject_Vectorcall = external("ptr PyObject_Vectorcall(ptr, ptr, i64, ptr)")
PyObject_CallOneArg = external("ptr PyObject_CallOneArg(ptr, ptr)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")
PyMem_RawMalloc = external("ptr PyMem_RawMalloc(i64)")
PyMem_RawFree = external("void PyMem_RawFree(ptr)")
PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_SetItem = external("i32 PyTuple_SetItem(ptr, i64, ptr)")
PyErr_Occurred = external("ptr PyErr_Occurred()")
PyErr_ExceptionMatches = external("i32 PyErr_ExceptionMatches(ptr)")
PyErr_Fetch = external("void PyErr_Fetch(ptr, ptr, ptr)")
PyErr_Restore = external("void PyErr_Restore(ptr, ptr, ptr)")
PyObject_HasAttrString = external("i32 PyObject_HasAttrString(ptr, ptr)")
PyErr_Clear = external("void PyErr_Clear()")
PyTuple_Type = external_data("PyTuple_Type")
PyExc_Exception = external_data("PyExc_Exception")
PyExc_MemoryError = external_data("PyExc_MemoryError")

COUNT = 0x7FFF_FFFF_FFFF_FFFF  # the other bit of nargsf lets a callee overwrite the word before the arguments


def to_python(callee: ptr, slot: i64, arguments: ptr, count: i64, keywords: ptr) -> ptr:
    """Calls the Python function that this slot of the callee holds."""
    function = load_ptr(callee, load_i64(context, slot))
    if function == 0:
        PyErr_SetString(load_ptr(PyExc_TypeError, 0), c_string("this object lost the function it calls"))
        return 0
    hold(function)
    result = PyObject_Vectorcall(function, arguments, count, keywords)
    let_go(function)
    return result


# -- jitted functions -------------------------------------------------------------------------------------------------


def _finished(finish: ptr, made: ptr, flags: i64, arguments: ptr, n: i64) -> ptr:
    """Calls `finish` with the outputs, and the arguments if it wants them; takes over the reference to `made`."""
    flat = made
    if flags & SINGLE_OUTPUT:
        flat = PyTuple_New(1)
        if flat == 0:
            Py_DecRef(made)
            return 0
        PyTuple_SetItem(flat, 0, made)
    result: ptr = 0
    if flags & WITH_ARGUMENTS:
        given = tuple_of(arguments, n)
        if given:
            result = PyObject_CallFunctionObjArgs(finish, flat, given, ptr(0))
            Py_DecRef(given)
    else:
        result = PyObject_CallOneArg(finish, flat)
    Py_DecRef(flat)
    return result


def _is_own() -> i64:
    """Whether an Exception is set that the plain call raises too: no such call knows of work that was queued before.

    Python's own MemoryError may come after tensors were written, which must not be done twice.
    """
    if not PyErr_ExceptionMatches(load_ptr(PyExc_Exception, 0)):
        return 0
    raised = buffer(24)
    PyErr_Fetch(raised, raised + 8, raised + 16)
    error = load_ptr(raised, 8)
    own: i64 = load_ptr(raised, 0) != load_ptr(PyExc_MemoryError, 0)
    if error != 0 and PyObject_HasAttrString(error, c_string("_of_queued_work")):
        own = 0
    PyErr_Restore(load_ptr(raised, 0), error, load_ptr(raised, 16))
    return own


def function_call(callee: ptr, arguments: ptr, count: i64, keywords: ptr) -> ptr:
    """Vectorcall of a Function: the first executable of this arity whose guards hold, else the fallback."""
    n = count & COUNT
    result = buffer(8)
    over = buffer(128)  # 8 * MOST_ARRAYS
    taken = buffer(8 * MOST_TAKEN)
    arrays = 0
    debugged = is_debugged()
    if debugged == -1:
        return 0
    if debugged == 0 and thread_flags() & (TRACING | CASTING) == 0:
        i = 0
        while i < load_i64(load_ptr(callee, FUNCTION_TABLE), 0):
            entry = load_ptr(callee, FUNCTION_TABLE) + 8 + ENTRY_BYTES * i
            i += 1
            flags = load_i64(entry, 8)
            given = arguments
            n_given = n
            plan = load_ptr(entry, 24)
            if plan:
                n_given = take_leaves(plan, arguments, n, keywords, taken)
                if n_given < 0:
                    continue
                given = taken
            elif keywords or flags & ARITY != n:
                continue
            if flags >> ARRAYS:
                if arrays == 0:
                    arrays = over_arrays(arguments, n, over)
                if arrays == -1 and PyErr_Occurred():
                    return 0
                if arrays != flags >> ARRAYS:
                    continue
                given = over
            executable = load_ptr(entry, 0)
            finish = load_ptr(entry, 16)
            hold(executable)
            if finish:
                hold(finish)
            status = run_executable(executable, given, result)
            made: ptr = 0
            if status == DONE:
                made = load_ptr(result, 0)
                store_i64(callee, FUNCTION_SERVED, load_i64(callee, FUNCTION_SERVED) + 1)
                if flags & CONNECTED:
                    made = connected(finish, made, flags, given, n_given)
                elif finish:
                    made = _finished(finish, made, flags, given, n_given)
            let_go(executable)
            if finish:
                let_go(finish)
            if plan:
                release_leaves(taken, n_given)
            if status == FAILED and flags & REPEATED and _is_own():
                PyErr_Clear()
                break
            if status == DONE or status == FAILED:
                release_over_arrays(over, arrays)
                return made
        release_over_arrays(over, arrays)
    return to_python(callee, FUNCTION_FALLBACK, arguments, count, keywords)


# -- eager operators --------------------------------------------------------------------------------------------------


def _serve(callee: ptr, full: ptr, result: ptr) -> i64:
    """Runs the first executable filed under these arguments whose guards hold; the status of the last one tried."""
    n = load_i64(callee, OPERATOR_COUNT)
    key = buffer(8 * MAX_PARAMETERS)
    leaves = buffer(8 * MAX_LEAVES)
    at = make_key(callee, full, key)
    if at == 0:
        return MISSED
    table = load_ptr(callee, OPERATOR_TABLE)
    while True:
        at &= load_i64(table, 0)
        entry = table + 8 + (16 + 8 * n) * at
        executable = load_ptr(entry, 0)
        if executable == 0:
            return MISSED
        if same_key(entry, key, n):
            status = MISSED
            hold(executable)
            if chosen_leaves(full, load_i64(entry, 8), n, leaves) == load_i64(executable, EXECUTABLE_ARGUMENTS):
                status = run_executable(executable, leaves, result)
            let_go(executable)
            if status != MISSED or load_ptr(callee, OPERATOR_TABLE) != table:
                return status
        at += 1


def _serve_and_record(callee: ptr, full: ptr, result: ptr, flags: i64) -> i64:
    """Serves a call, and puts it on the tape where gradients are recorded: DONE, MISSED or FAILED."""
    status = _serve(callee, full, result)
    if status == DONE and flags & GRAD_OFF == 0 and load_i64(callee, OPERATOR_RECORDS):
        op = load_ptr(callee, load_i64(context, OPERATOR_OP))
        if record(op, full, load_i64(callee, OPERATOR_COUNT), load_ptr(result, 0)) != 0:
            Py_DecRef(load_ptr(result, 0))
            return FAILED
    return status


def serve_write(callee: ptr, full: ptr, result: ptr) -> i64:
    """Serves a call without regard to gradients."""
    return _serve(callee, full, result)


def _write(callee: ptr, full: ptr, result: ptr, flags: i64) -> i64:
    """Serves a call that writes its first argument: DONE, MISSED or FAILED."""
    plainly = load_i64(callee, OPERATOR_WRITES) == PLAINLY
    if flags & GRAD_OFF or not needs_gradient(full, load_i64(callee, OPERATOR_COUNT)):
        may = not plainly or writable(load_ptr(full, 0), flags & GRAD_OFF)
        return _serve(callee, full, result) if may else MISSED
    return write_recorded(callee, full, address_of(serve_write), result) if plainly else MISSED


def operator_call(callee: ptr, arguments: ptr, count: i64, keywords: ptr) -> ptr:
    """Vectorcall of an OpCall: the executable for these arguments, with a node where one is due, else `slow`."""
    n = count & COUNT
    flags = thread_flags()
    full = buffer(8 * MAX_PARAMETERS)
    left = flags & TRACING or (flags & CASTING and load_i64(callee, OPERATOR_CASTS))
    bound = not left and bind_arguments(callee, arguments, n, keywords, full)
    if bound:
        result = buffer(8)
        parameters = load_i64(callee, OPERATOR_COUNT)
        replaced = tuples_for_lists(full, parameters)
        status = FAILED
        if replaced >= 0 and load_i64(callee, OPERATOR_WRITES):
            status = _write(callee, full, result, flags)
        elif replaced >= 0:
            status = _serve_and_record(callee, full, result, flags)
        if replaced > 0:
            for i in range(parameters):
                if (replaced >> i) & 1:
                    Py_DecRef(load_ptr(full, 8 * i))
        if status != MISSED:
            return load_ptr(result, 0) if status == DONE else ptr(0)
    swapped = buffer(16)
    if n == 2 and keywords == 0 and load_i64(callee, OPERATOR_REFLECTED):
        store_ptr(swapped, 0, load_ptr(arguments, 8))
        store_ptr(swapped, 8, load_ptr(arguments, 0))
        arguments = swapped
        count = n
    return to_python(callee, OPERATOR_SLOW, arguments, count, keywords)


# -- executables ------------------------------------------------------------------------------------------------------


def executable_run(executable: ptr, leaves: ptr) -> ptr:
    """Executable.run(leaves): METH_O; calls with exactly the arguments the program has."""
    if load_ptr(leaves, OBJECT_TYPE) != PyTuple_Type:
        PyErr_SetString(load_ptr(PyExc_TypeError, 0), c_string("run takes one tuple of arguments"))
        return 0
    n = load_i64(executable, EXECUTABLE_ARGUMENTS)
    if PyTuple_Size(leaves) != n:
        PyErr_SetString(load_ptr(PyExc_TypeError, 0), c_string("run takes as many arguments as the program has"))
        return 0
    result = buffer(8)
    arguments: ptr = 0
    on_stack = buffer(128)
    many: ptr = 0
    if n <= 16:
        arguments = on_stack
    else:
        many = PyMem_RawMalloc(8 * n)
        if many == 0:
            return PyErr_NoMemory()
        arguments = many
    for i in range(n):
        store_ptr(arguments, 8 * i, PyTuple_GetItem(leaves, i))
    status = run_executable(executable, arguments, result)
    if many:
        PyMem_RawFree(many)
    if status == DONE:
        return load_ptr(result, 0)
    if status == FAILED:
        return 0
    missed = load_ptr(context, MISS)
    hold(missed)
    return missed
