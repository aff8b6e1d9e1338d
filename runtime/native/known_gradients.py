"""Gradients of compiled calls, and of such gradients, that one executable computes: found, run, and what they free."""

from __future__ import annotations

from eagerjit.runtime.native.connect import find_places, put_gradients_on_tape
from eagerjit.runtime.native.context import (
    ARRAY_FLAGS,
    CALL_ARGUMENTS,
    CALL_FREED,
    CALL_KEPT,
    CALL_KNOWN,
    CALL_LAST,
    CALL_OVERWRITTEN,
    CALL_VALUES,
    CONTIGUOUS_FLAG,
    HISTORY_FLAGS,
    KNOWN_EXECUTABLE,
    KNOWN_GIVEN,
    KNOWN_HISTORY,
    KNOWN_KEPT,
    KNOWN_N_GIVEN,
    KNOWN_N_KEPT,
    KNOWN_N_OF_CALL,
    KNOWN_N_PRESENT,
    KNOWN_N_VALUES,
    KNOWN_OF_CALL,
    KNOWN_PRESENT,
    MOST_CONNECTED,
    NODE_OP,
    NONE,
    REQUIRES_GRAD,
    TRUE,
    context,
)
from eagerjit.runtime.native.execute import DONE, FAILED, MISSED, run_executable
from eagerjit.runtime.native.language import (
    buffer,
    c_string,
    external,
    i64,
    load_i32,
    load_i64,
    load_ptr,
    ptr,
    store_ptr,
)
from eagerjit.runtime.native.objects import any_array_of, hold, let_go, replace_slot

PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyTuple_SetItem = external("i32 PyTuple_SetItem(ptr, i64, ptr)")
PyObject_CallMethod = external("ptr PyObject_CallMethod(ptr, ptr, ptr, ...)")
PyErr_Occurred = external("ptr PyErr_Occurred()")


# -- which one --------------------------------------------------------------------------------------------------------


def known_of(op: ptr) -> ptr:
    """What native code knows of the gradients of a compiled call, or of such gradients.

    Null where nothing of that is told yet, or something of the call was freed or overwritten, which Python looks into.
    """
    none = load_ptr(context, NONE)
    offset = load_i64(context, CALL_KNOWN)
    known = load_ptr(op, offset) if offset else ptr(0)
    if known == 0 or known == none or load_ptr(op, load_i64(context, CALL_OVERWRITTEN)) != none:
        return 0
    return known if PyTuple_Size(load_ptr(op, load_i64(context, CALL_FREED))) == 0 else ptr(0)


def _are_at(grads: ptr, positions: ptr, n: i64) -> bool:
    """Whether the gradients that are there are those at these positions."""
    found = 0
    for i in range(PyTuple_Size(grads)):
        if PyTuple_GetItem(grads, i) != load_ptr(context, NONE):
            if found == n or load_i64(positions, 8 * found) != i:
                return 0
            found += 1
    return found == n


def _have_flags(grads: ptr, flags: ptr) -> bool:
    """Whether those of the gradients need one in turn for which that is told."""
    found = 0
    for i in range(PyTuple_Size(grads)):
        grad = PyTuple_GetItem(grads, i)
        if grad != load_ptr(context, NONE):
            needing = load_ptr(grad, load_i64(context, REQUIRES_GRAD)) == load_ptr(context, TRUE)
            if load_i64(flags, 8 * found) != needing:
                return 0
            found += 1
    return 1


def is_of(known: ptr, incoming: ptr, of_call: ptr, has_history: bool) -> bool:
    """Whether a gradient is that of the results which have one, those of the call (or null) among them."""
    history = load_ptr(known, KNOWN_HISTORY)
    if (history != 0) != has_history:
        return 0
    if not _are_at(incoming, load_ptr(known, KNOWN_PRESENT), load_i64(known, KNOWN_N_PRESENT)):
        return 0
    if of_call and not _are_at(of_call, load_ptr(known, KNOWN_OF_CALL), load_i64(known, KNOWN_N_OF_CALL)):
        return 0
    return not has_history or _have_flags(incoming, load_ptr(history, HISTORY_FLAGS))


# -- its run ----------------------------------------------------------------------------------------------------------


def _in_order(grads: ptr) -> ptr:
    """A new tuple of the gradients that are there in row-major order; null on failure, or where one is none."""
    none = load_ptr(context, NONE)
    n = 0
    for i in range(PyTuple_Size(grads)):
        n += PyTuple_GetItem(grads, i) != none
    found = PyTuple_New(n)
    at = 0
    for i in range(PyTuple_Size(grads) if found else 0):
        grad = PyTuple_GetItem(grads, i)
        if grad == none:
            continue
        array = any_array_of(grad)
        if array and load_i32(array, ARRAY_FLAGS) & CONTIGUOUS_FLAG:
            hold(grad)
        else:
            grad = PyObject_CallMethod(grad, c_string("contiguous"), ptr(0)) if array else ptr(0)
        if grad == 0:
            let_go(found)
            return 0
        PyTuple_SetItem(found, at, grad)
        at += 1
    return found


def _arguments_of(known: ptr, op: ptr, taken: ptr, n: i64, arguments: ptr) -> i64:
    """Stores what an executable takes (borrowed): what is in `n` tuples, and what the op has kept and was given; how
    many that are, -1 where the op has let go of it."""
    count = 0
    for k in range(n):
        given = load_ptr(taken, 8 * k)
        for i in range(PyTuple_Size(given)):
            store_ptr(arguments, 8 * count, PyTuple_GetItem(given, i))
            count += 1
    kept = load_ptr(op, load_i64(context, CALL_KEPT))
    n_kept = load_i64(known, KNOWN_N_KEPT)
    for i in range(n_kept):
        index = load_i64(load_ptr(known, KNOWN_KEPT), 8 * i)
        if index >= PyTuple_Size(kept):
            return -1
        store_ptr(arguments, 8 * (count + i), PyTuple_GetItem(kept, index))
    count += n_kept
    n_given = load_i64(known, KNOWN_N_GIVEN)
    places = load_ptr(known, KNOWN_GIVEN)
    of_op = load_ptr(op, load_i64(context, CALL_ARGUMENTS))
    for i in range(n_given):
        if load_i64(places, 8 * i) < 0 and -1 - load_i64(places, 8 * i) >= PyTuple_Size(of_op):
            return -1
    find_places(places, n_given, of_op, arguments + 8 * count)
    return count + n_given


def run_known(known: ptr, node: ptr, incoming: ptr, of_call: ptr, starts: ptr, result: ptr) -> i64:
    """Computes the gradients of a node: DONE, MISSED or FAILED.

    It takes tuples of those that came in, of those of its call (or null), and of what it adds to. Gradients that have a
    history are put on the tape.
    """
    op = load_ptr(node, load_i64(context, NODE_OP))
    values = load_ptr(op, load_i64(context, CALL_VALUES))
    if PyTuple_Size(values) != load_i64(known, KNOWN_N_VALUES):
        return MISSED
    table = known_of(op)
    sources = buffer(32)
    store_ptr(sources, 0, values)
    store_ptr(sources, 8, incoming)
    store_ptr(sources, 16, of_call)
    store_ptr(sources, 24, starts)
    taken = buffer(32)
    n = 0
    status = DONE
    for k in range(4):
        source = load_ptr(sources, 8 * k)
        if source and status == DONE:
            ordered = _in_order(source)
            store_ptr(taken, 8 * n, ordered)
            if ordered:
                n += 1
            else:
                status = FAILED if PyErr_Occurred() else MISSED
    if status == DONE:  # unless another thread has walked through it meanwhile
        status = _run(known, node, op, taken, n, result) if table and known_of(op) == table else MISSED
    for k in range(n):
        let_go(load_ptr(taken, 8 * k))
    return status


def _run(known: ptr, node: ptr, op: ptr, taken: ptr, n: i64, result: ptr) -> i64:
    """The same, given all that the op does not have itself in row-major order."""
    arguments = buffer(8 * MOST_CONNECTED)
    kept = load_ptr(op, load_i64(context, CALL_KEPT))
    given = load_ptr(op, load_i64(context, CALL_ARGUMENTS))
    hold(kept)
    hold(given)
    status = MISSED
    if _arguments_of(known, op, taken, n, arguments) >= 0:
        status = run_executable(load_ptr(known, KNOWN_EXECUTABLE), arguments, result)
    let_go(given)
    let_go(kept)
    history = load_ptr(known, KNOWN_HISTORY)
    if status == DONE and history:
        if put_gradients_on_tape(history, op, node, load_ptr(taken, 8), load_ptr(result, 0)) != 0:
            let_go(load_ptr(result, 0))
            status = FAILED
    return status


# -- what is left -----------------------------------------------------------------------------------------------------


def note_last(call: ptr, visit: ptr) -> None:
    """Notes which operations of a call a walk has gone through."""
    replace_slot(call, load_i64(context, CALL_LAST), visit)


def note_freed(call: ptr, freed: ptr) -> None:
    """Notes which of them have freed their values."""
    replace_slot(call, load_i64(context, CALL_FREED), freed)


def drop_values(call: ptr) -> i64:
    """Lets go of a call's arguments and of what it has kept, as nothing of it can be walked again; -1 on failure."""
    nothing = PyTuple_New(0)
    if nothing == 0:
        return -1
    replace_slot(call, load_i64(context, CALL_ARGUMENTS), nothing)
    replace_slot(call, load_i64(context, CALL_KEPT), nothing)
    let_go(nothing)
    return 0
