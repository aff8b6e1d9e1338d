"""The native executor: runs the words of a Program in one call, with the meaning `interpret.py` gives them.

A frame is one block of 64-bit words. The executable owns one; a run that finds it busy makes its own:

    leaves | outputs | count of references | references | arenas and their sizes | kernel arguments | slots

Slots of constants have their numbers from the start. Outputs, the count and arenas are null between runs, so that a run
which stops anywhere releases exactly what it had: what it loaded and the ndarrays it works on. Leaves are borrowed,
from the caller, the executable or these references.
"""

from __future__ import annotations

from eagerjit.runtime.mode import EPOCH_WORD, GRADIENTS
from eagerjit.runtime.native.captured import guard_captured
from eagerjit.runtime.native.context import (
    EXECUTABLE_ARENAS,
    EXECUTABLE_ARGUMENTS,
    EXECUTABLE_BUSY,
    EXECUTABLE_CHECKS,
    EXECUTABLE_DEVICE,
    EXECUTABLE_EPOCHS,
    EXECUTABLE_FRAME,
    EXECUTABLE_HELD,
    EXECUTABLE_LEAVES,
    EXECUTABLE_OBJECTS,
    EXECUTABLE_OUTPUTS,
    EXECUTABLE_PARAMETERS,
    EXECUTABLE_SLOTS,
    EXECUTABLE_WORDS,
    FLOAT_VALUE,
    MODE_WORDS,
    OBJECT_TYPE,
    context,
)
from eagerjit.runtime.native.device import (
    copy_there,
    device_is_ready,
    end_temporaries,
    fresh_there,
    guard_captured_there,
    guard_there,
    launch_there,
    temporary,
    view_there,
    words_of_checks,
)
from eagerjit.runtime.native.flags import thread_flags
from eagerjit.runtime.native.guards import (
    add_held,
    guard_definition,
    guard_different,
    guard_distinct,
    guard_equal,
    guard_method,
    guard_tensor,
    guard_writable,
    has_bits,
    read_integer,
)
from eagerjit.runtime.native.language import (
    copy_bytes,
    external,
    external_data,
    i64,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.loads import lacks_key, load_attribute, load_cell, load_grad, load_item
from eagerjit.runtime.native.objects import (
    allocate,
    fresh_tensor,
    hold,
    let_go,
    no_memory,
    put_result,
    release,
    view_of,
)
from eagerjit.runtime.native.places import bump_storage
from eagerjit.runtime.native.work import (
    call_host,
    floor_divide,
    modulo,
    raise_failure,
    run_convolution,
    run_kernel,
    run_matmul,
    set_grad,
)
from eagerjit.runtime.program import DeviceOp, NativeOp, Op

DONE = 0
MISSED = 1
FAILED = -1

RELEASE_WORK = 100_000
"""Scalar operations from which on a run gives the GIL back: about 10 µs, some hundred times what that costs."""

PyEval_SaveThread = external("ptr PyEval_SaveThread()")
PyEval_RestoreThread = external("void PyEval_RestoreThread(ptr)")
PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_SetItem = external("i32 PyTuple_SetItem(ptr, i64, ptr)")
PyMem_RawCalloc = external("ptr PyMem_RawCalloc(i64, i64)")
PyMem_RawFree = external("void PyMem_RawFree(ptr)")
PyFloat_Type = external_data("PyFloat_Type")


def interpret(executable: ptr, leaves: ptr, outputs: ptr, held: ptr, arenas: ptr, arguments: ptr, slots: ptr) -> i64:
    """Runs the words: DONE, MISSED, or FAILED with an exception set."""
    words = load_ptr(executable, EXECUTABLE_WORDS)
    objects = load_ptr(executable, EXECUTABLE_OBJECTS)
    thread: ptr = 0
    reports = 0
    while True:
        code = load_i64(words, 0)
        operands: ptr = words + 16
        a = load_i64(words, 16)
        b = load_i64(words, 24)
        c = load_i64(words, 32)
        words = words + 16 + 8 * load_i64(words, 8)
        status = 1
        match code:
            case Op.END:
                return DONE
            case Op.TENSOR:
                status = guard_tensor(operands, leaves, held, slots)
            case NativeOp.CAPTURED:
                status = guard_captured(operands, leaves, held, slots)
            case NativeOp.METHOD:
                status = guard_method(operands, objects)
            case NativeOp.DEFINITION:
                status = guard_definition(operands, objects)
            case Op.CHECK_EQ:
                status = load_i64(slots, 8 * a) == load_i64(slots, 8 * b)
            case Op.CHECK_CONST:
                status = load_i64(slots, 8 * a) == b
            case Op.CHECK_GE:
                status = load_i64(slots, 8 * a) >= b
            case Op.CHECK_TRUE:
                status = (load_i64(slots, 8 * a) != 0) == b
            case Op.CHECK_VALUE:
                status = has_bits(load_ptr(slots, 8 * a), b, c)
            case Op.READ_SIZE:
                store_i64(slots, 8 * a, load_i64(load_ptr(slots, 8 * b), 0))
            case Op.CONST:
                store_i64(slots, 8 * a, b)
            case Op.ADD:
                store_i64(slots, 8 * a, load_i64(slots, 8 * b) + load_i64(slots, 8 * c))
            case Op.SUB:
                store_i64(slots, 8 * a, load_i64(slots, 8 * b) - load_i64(slots, 8 * c))
            case Op.MUL:
                store_i64(slots, 8 * a, load_i64(slots, 8 * b) * load_i64(slots, 8 * c))
            case NativeOp.SHIFT:
                store_i64(slots, 8 * a, load_i64(slots, 8 * b) >> c)
            case Op.FLOORDIV | Op.MOD:
                divisor = load_i64(slots, 8 * c)
                if divisor == 0:
                    status = 0
                elif code == Op.FLOORDIV:
                    store_i64(slots, 8 * a, floor_divide(load_i64(slots, 8 * b), divisor))
                else:
                    store_i64(slots, 8 * a, modulo(load_i64(slots, 8 * b), divisor))
            case Op.MIN | Op.MAX:
                x = load_i64(slots, 8 * b)
                y = load_i64(slots, 8 * c)
                store_i64(slots, 8 * a, x if (x < y) == (code == Op.MIN) else y)
            case Op.LT:
                store_i64(slots, 8 * a, load_i64(slots, 8 * b) < load_i64(slots, 8 * c))
            case Op.LE:
                store_i64(slots, 8 * a, load_i64(slots, 8 * b) <= load_i64(slots, 8 * c))
            case Op.EQ:
                store_i64(slots, 8 * a, load_i64(slots, 8 * b) == load_i64(slots, 8 * c))
            case Op.LOAD_OBJECT:
                store_ptr(leaves, 8 * a, load_ptr(objects, 8 * b))
            case Op.LOAD_ITEM | Op.LOAD_CELL | Op.LOAD_ATTRIBUTE | Op.LOAD_GRAD:
                to = leaves + 8 * a
                if code == Op.LOAD_ITEM:
                    status = load_item(load_ptr(leaves, 8 * b), load_ptr(objects, 8 * c), to)
                elif code == Op.LOAD_CELL:
                    status = load_cell(load_ptr(objects, 8 * b), to)
                elif code == Op.LOAD_ATTRIBUTE:
                    status = load_attribute(load_ptr(leaves, 8 * b), load_ptr(objects, 8 * c), to)
                else:
                    status = load_grad(load_ptr(leaves, 8 * b), to)
                if status > 0:
                    add_held(held, load_ptr(to))
            case Op.IS:
                status = load_ptr(leaves, 8 * a) == load_ptr(objects, 8 * b)
            case Op.SAME:
                status = (load_ptr(leaves, 8 * a) == load_ptr(leaves, 8 * b)) == c
            case Op.EQUAL:
                status = guard_equal(load_ptr(leaves, 8 * a), load_ptr(objects, 8 * b))
            case Op.TYPE_IS:
                status = load_ptr(load_ptr(leaves, 8 * a), OBJECT_TYPE) == load_ptr(objects, 8 * b)
            case Op.LACKS:
                status = lacks_key(load_ptr(leaves, 8 * a), load_ptr(objects, 8 * b))
            case Op.GRAD_MODE:
                status = (thread_flags() & GRADIENTS) == a
            case Op.EPOCH:
                epoch = load_i64(load_ptr(context, MODE_WORDS), 8 * EPOCH_WORD)
                status = load_i64(load_ptr(executable, EXECUTABLE_EPOCHS), 8 * a) == epoch
            case Op.READ_FLOAT:
                item = load_ptr(leaves, 8 * a)
                if load_ptr(item, OBJECT_TYPE) == PyFloat_Type:
                    store_i64(slots, 8 * b, load_i64(item, FLOAT_VALUE))
                else:
                    status = 0
            case Op.READ_INT:
                status = read_integer(load_ptr(leaves, 8 * a), slots + 8 * b)
            case Op.DISTINCT:
                status = guard_distinct(operands, leaves)
            case Op.DIFFERENT:
                status = guard_different(operands, leaves)
            case Op.WRITABLE:
                status = guard_writable(load_ptr(leaves, 8 * a))
            case Op.ARENA:
                block = allocate(load_i64(slots, 8 * b))
                if block == 0:
                    no_memory(load_i64(slots, 8 * b))
                    return FAILED
                store_ptr(slots, 8 * a, block)
                store_ptr(arenas, 0, block)
                store_i64(arenas, 8, load_i64(slots, 8 * b))
                arenas = arenas + 16
            case Op.OUTPUT:
                item = fresh_tensor(b, c, slots, operands + 32, load_i64(operands, 24))
                status = put_result(outputs + 8 * a, item)
            case Op.OUTPUT_LEAF:
                item = load_ptr(leaves, 8 * b)
                hold(item)
                store_ptr(outputs, 8 * a, item)
            case Op.OUTPUT_VIEW:
                item = load_ptr(outputs, 8 * c) if b else load_ptr(leaves, 8 * c)
                ndim = load_i64(operands, 32)
                data = load_ptr(slots, 8 * load_i64(operands, 40))
                item = view_of(item, load_i64(operands, 24), ndim, slots, operands + 48, data)
                status = put_result(outputs + 8 * a, item)
            case Op.OUTPUT_OBJECT:
                item = load_ptr(objects, 8 * b)
                hold(item)
                store_ptr(outputs, 8 * a, item)
            case Op.BEGIN:
                if load_i64(slots, 8 * a) > RELEASE_WORK:
                    thread = PyEval_SaveThread()
            case Op.KERNEL | Op.MATMUL | Op.CONVOLUTION:
                failure = 0
                if code == Op.KERNEL:
                    failure = run_kernel(executable, operands, slots, arguments)
                elif code == Op.MATMUL:
                    failure = run_matmul(operands, slots, arguments)
                else:
                    failure = run_convolution(operands, slots, arguments)
                if failure != 0:
                    if thread:
                        PyEval_RestoreThread(thread)
                    raise_failure(executable, failure, slots)
                    return FAILED
            case Op.COPY:
                copy_bytes(load_ptr(slots, 8 * a), load_ptr(slots, 8 * b), load_i64(slots, 8 * c))
            case Op.FINISH:
                if thread:
                    PyEval_RestoreThread(thread)
                    thread = 0
            case Op.CALL:
                if thread:
                    PyEval_RestoreThread(thread)
                status = call_host(executable, operands, slots, arguments)
                if thread and status > 0:
                    thread = PyEval_SaveThread()
            case Op.SET_GRAD:
                status = set_grad(leaves, outputs, a, b)
            case Op.BUMP_VERSION:
                status = bump_storage(load_ptr(leaves, 8 * a), load_ptr(objects, 8 * b) if b >= 0 else ptr(0), c)
            case DeviceOp.TENSOR:
                status = guard_there(load_ptr(executable, EXECUTABLE_DEVICE), operands, leaves, held, slots)
            case DeviceOp.CAPTURED:
                keeper = load_ptr(executable, EXECUTABLE_DEVICE)
                status = guard_captured_there(keeper, operands, objects, leaves, held, slots)
            case DeviceOp.ARENA:
                block = temporary(load_ptr(executable, EXECUTABLE_DEVICE), load_i64(slots, 8 * b), arenas)
                if block == 0:
                    return FAILED
                store_ptr(slots, 8 * a, block)
                arenas = arenas + 16
            case DeviceOp.OUTPUT:
                keeper = load_ptr(executable, EXECUTABLE_DEVICE)
                item = fresh_there(keeper, b, c, slots, operands + 32, load_i64(operands, 24))
                status = put_result(outputs + 8 * a, item)
            case DeviceOp.OUTPUT_VIEW:
                item = load_ptr(outputs, 8 * c) if b else load_ptr(leaves, 8 * c)
                keeper = load_ptr(executable, EXECUTABLE_DEVICE)
                ndim = load_i64(operands, 32)
                data = load_ptr(slots, 8 * load_i64(operands, 40))
                item = view_there(keeper, item, load_i64(operands, 24), ndim, slots, operands + 48, data)
                status = put_result(outputs + 8 * a, item)
            case DeviceOp.KERNEL:
                if reports == 0 and load_ptr(executable, EXECUTABLE_CHECKS):
                    reports = words_of_checks(load_ptr(executable, EXECUTABLE_CHECKS), slots)
                    if reports == 0:
                        return FAILED
                status = launch_there(executable, operands, slots, arguments, arenas, reports)
                arenas = arenas + 32
            case DeviceOp.COPY:
                keeper = load_ptr(executable, EXECUTABLE_DEVICE)
                status = copy_there(keeper, load_i64(slots, 8 * a), load_i64(slots, 8 * b), load_i64(slots, 8 * c))
        if status <= 0:
            return FAILED if status < 0 else MISSED


def _end(outputs: ptr, n_outputs: i64, held: ptr) -> None:
    """Gives up the results that nobody takes, and what the run held."""
    for i in range(n_outputs):
        item = load_ptr(outputs, 8 * i)
        if item:
            store_ptr(outputs, 8 * i, 0)
            let_go(item)
    n_held = load_i64(held, 0)
    store_i64(held, 0, 0)
    for i in range(1, n_held + 1):
        let_go(load_ptr(held, 8 * i))


def _result(outputs: ptr, n: i64) -> ptr:
    """The single output, or a tuple of them; takes over the references."""
    if n == 1:
        only = load_ptr(outputs, 0)
        store_ptr(outputs, 0, 0)
        return only
    result = PyTuple_New(n)
    if result:
        for i in range(n):
            item = load_ptr(outputs, 8 * i)
            store_ptr(outputs, 8 * i, 0)
            PyTuple_SetItem(result, i, item)
    return result


def run_executable(executable: ptr, arguments: ptr, result: ptr) -> i64:
    """Runs on `n_arguments` borrowed objects: DONE with a new reference stored in `result`, MISSED or FAILED.

    The caller holds the arguments and the executable for the duration.
    """
    if load_ptr(executable, EXECUTABLE_DEVICE) and not device_is_ready(load_ptr(executable, EXECUTABLE_DEVICE)):
        return MISSED
    n_arguments = load_i64(executable, EXECUTABLE_ARGUMENTS)
    n_leaves = load_i64(executable, EXECUTABLE_LEAVES)
    n_outputs = load_i64(executable, EXECUTABLE_OUTPUTS)
    n_held = load_i64(executable, EXECUTABLE_HELD)
    n_arenas = load_i64(executable, EXECUTABLE_ARENAS)
    n_parameters = load_i64(executable, EXECUTABLE_PARAMETERS)
    frame = load_ptr(executable, EXECUTABLE_FRAME)
    own = load_i64(executable, EXECUTABLE_BUSY) == 0
    if own:
        store_i64(executable, EXECUTABLE_BUSY, 1)
    else:
        n_words = n_leaves + n_outputs + 1 + n_held + 2 * n_arenas + n_parameters
        n_words += load_i64(executable, EXECUTABLE_SLOTS)
        frame = PyMem_RawCalloc(n_words + 1, 8)
        if frame == 0:
            no_memory(8 * n_words)
            return FAILED
    leaves = frame
    outputs = leaves + 8 * n_leaves
    held = outputs + 8 * n_outputs
    arenas = held + 8 * (1 + n_held)
    parameters = arenas + 16 * n_arenas
    slots = parameters + 8 * n_parameters
    if not own:
        constants = load_ptr(executable, EXECUTABLE_FRAME) + (slots - frame)
        copy_bytes(slots, constants, 8 * load_i64(executable, EXECUTABLE_SLOTS))
    for i in range(n_arguments):
        store_ptr(leaves, 8 * i, load_ptr(arguments, 8 * i))
    status = interpret(executable, leaves, outputs, held, arenas, parameters, slots)
    if load_ptr(executable, EXECUTABLE_DEVICE):
        end_temporaries(load_ptr(executable, EXECUTABLE_DEVICE), arenas, n_arenas)
        n_arenas = 0
    for i in range(n_arenas):
        block = load_ptr(arenas, 16 * i)
        if block:
            release(block, load_i64(arenas, 16 * i + 8))
            store_ptr(arenas, 16 * i, 0)
    if status == DONE:
        made = _result(outputs, n_outputs)
        store_ptr(result, 0, made)
        if made == 0:
            status = FAILED
    _end(outputs, n_outputs, held)
    if own:
        store_i64(executable, EXECUTABLE_BUSY, 0)
    else:
        PyMem_RawFree(frame)
    return status
