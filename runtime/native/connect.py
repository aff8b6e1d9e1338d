"""Compiled calls on the tape: a node for the results of one, and its gradients where one Program gives them all."""

from __future__ import annotations

from eagerjit.runtime.native.context import (
    ARRAY_FLAGS,
    CALL_ARGUMENTS,
    CALL_BACKWARD,
    CALL_DEFAULTS,
    CALL_FREED,
    CALL_KEPT,
    CALL_LAST,
    CALL_OVERWRITTEN,
    CALL_TYPE,
    CALL_WHOLE,
    CONNECTION_BACKWARD,
    CONNECTION_INPUTS,
    CONNECTION_KEPT,
    CONNECTION_N_INPUTS,
    CONNECTION_N_KEPT,
    CONNECTION_N_ROOTS,
    CONNECTION_N_USER,
    CONNECTION_REBUILD,
    CONNECTION_ROOTS,
    CONNECTION_WHOLE,
    CONTIGUOUS_FLAG,
    DATA,
    MOST_CONNECTED,
    N_CALL_DEFAULTS,
    NONE,
    SINGLE_OUTPUT,
    WHOLE_EXECUTABLE,
    WHOLE_GIVEN,
    WHOLE_KEPT,
    WHOLE_N_GIVEN,
    WHOLE_N_GRADS,
    WHOLE_N_KEPT,
    context,
)
from eagerjit.runtime.native.execute import FAILED, MISSED, run_executable
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
from eagerjit.runtime.native.nodes import connect, new_node
from eagerjit.runtime.native.objects import any_array_of, hold, let_go, new_instance, replace_slot
from eagerjit.runtime.native.operators import tuple_of

PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyTuple_SetItem = external("i32 PyTuple_SetItem(ptr, i64, ptr)")
PyTuple_GetSlice = external("ptr PyTuple_GetSlice(ptr, i64, i64)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")
PyObject_CallMethod = external("ptr PyObject_CallMethod(ptr, ptr, ptr, ...)")
PyErr_Occurred = external("ptr PyErr_Occurred()")


def _result(made: ptr, single: bool, index: i64) -> ptr:
    """A result of several (borrowed), or the only one."""
    return made if single else PyTuple_GetItem(made, index)


def _found(places: ptr, n: i64, arguments: ptr, found: ptr) -> None:
    """Stores what lies at these places in a call with these arguments (borrowed)."""
    for i in range(n):
        place = load_i64(places, 8 * i)
        thing: ptr = place
        if place < 0:
            thing = PyTuple_GetItem(arguments, -1 - place)
        store_ptr(found, 8 * i, thing)


def _new_call(connection: ptr, made: ptr, single: bool, given: ptr) -> ptr:
    """The op of a compiled call's node; null on failure."""
    call = new_instance(
        load_ptr(context, CALL_TYPE), load_ptr(context, CALL_DEFAULTS), load_i64(context, N_CALL_DEFAULTS)
    )
    if call == 0:
        return 0
    n = load_i64(connection, CONNECTION_N_KEPT)
    kept = PyTuple_New(n)
    if kept == 0:
        let_go(call)
        return 0
    for i in range(n):
        value = _result(made, single, load_i64(load_ptr(connection, CONNECTION_KEPT), 8 * i))
        hold(value)
        PyTuple_SetItem(kept, i, value)
    replace_slot(call, load_i64(context, CALL_BACKWARD), load_ptr(connection, CONNECTION_BACKWARD))
    replace_slot(call, load_i64(context, CALL_WHOLE), load_ptr(connection, CONNECTION_WHOLE))
    replace_slot(call, load_i64(context, CALL_ARGUMENTS), given)
    replace_slot(call, load_i64(context, CALL_KEPT), kept)
    let_go(kept)
    return call


def _put_on_tape(connection: ptr, call: ptr, made: ptr, single: bool, given: ptr) -> i64:
    """Makes the results that have gradients those of a new node; -1 on failure."""
    n = load_i64(connection, CONNECTION_N_ROOTS)
    roots = load_ptr(connection, CONNECTION_ROOTS)
    output = PyTuple_New(n)
    if output == 0:
        return -1
    for i in range(n):
        data = load_ptr(_result(made, single, load_i64(roots, 8 * i)), load_i64(context, DATA))
        hold(data)
        PyTuple_SetItem(output, i, data)
    inputs = buffer(8 * MOST_CONNECTED)
    n_inputs = load_i64(connection, CONNECTION_N_INPUTS)
    _found(load_ptr(connection, CONNECTION_INPUTS), n_inputs, given, inputs)
    node = new_node(call, inputs, n_inputs, output)
    if node == 0:
        return -1
    for i in range(n):
        connect(_result(made, single, load_i64(roots, 8 * i)), node, i)
    let_go(node)
    return 0


def _for_user(connection: ptr, made: ptr, single: bool) -> ptr:
    """The function's result, a new reference; null on failure."""
    n = load_i64(connection, CONNECTION_N_USER)
    if n < 0:
        first = _result(made, single, 0)
        hold(first)
        return first
    user: ptr = 0
    if single:
        user = PyTuple_New(n)
        if user and n:
            hold(made)
            PyTuple_SetItem(user, 0, made)
    else:
        user = PyTuple_GetSlice(made, 0, n)
    rebuild = load_ptr(connection, CONNECTION_REBUILD)
    if user == 0 or rebuild == 0:
        return user
    built = PyObject_CallFunctionObjArgs(rebuild, user, load_ptr(context, NONE), ptr(0))
    let_go(user)
    return built


def connected(connection: ptr, made: ptr, flags: i64, arguments: ptr, n: i64) -> ptr:
    """The function's result of what an executable has given (taken over), put on the tape; null on failure."""
    single = flags & SINGLE_OUTPUT != 0
    result: ptr = 0
    given = tuple_of(arguments, n)
    call: ptr = 0
    if given:
        call = _new_call(connection, made, single, given)
    if call:
        if _put_on_tape(connection, call, made, single, given) == 0:
            result = _for_user(connection, made, single)
        let_go(call)
    if given:
        let_go(given)
    let_go(made)
    return result


# -- gradients --------------------------------------------------------------------------------------------------------


def whole_gradient(call: ptr) -> ptr:
    """The gradient of all of a call that nothing has been freed of; null where Python has to see to it."""
    none = load_ptr(context, NONE)
    whole = load_ptr(call, load_i64(context, CALL_WHOLE))
    if whole == none or load_ptr(call, load_i64(context, CALL_OVERWRITTEN)) != none:
        return 0
    return whole if PyTuple_Size(load_ptr(call, load_i64(context, CALL_FREED))) == 0 else ptr(0)


def _in_order(grads: ptr) -> ptr:
    """A new tuple of gradients in row-major order; null on failure, and without an exception where one is missing."""
    n = PyTuple_Size(grads)
    found = PyTuple_New(n)
    for i in range(n if found else 0):
        grad = PyTuple_GetItem(grads, i)
        array = any_array_of(grad)
        if array and load_i32(array, ARRAY_FLAGS) & CONTIGUOUS_FLAG:
            hold(grad)
        else:
            grad = PyObject_CallMethod(grad, c_string("contiguous"), ptr(0)) if array else ptr(0)
        if grad == 0:
            let_go(found)
            return 0
        PyTuple_SetItem(found, i, grad)
    return found


def run_whole(whole: ptr, call: ptr, incoming: ptr, result: ptr) -> i64:
    """Computes the gradients from a tuple of those that came in: DONE, MISSED or FAILED."""
    n = PyTuple_Size(incoming)
    if n != load_i64(whole, WHOLE_N_GRADS):
        return MISSED
    grads = _in_order(incoming)
    if grads == 0:
        return FAILED if PyErr_Occurred() else MISSED
    if whole_gradient(call) != whole:  # another thread has walked through it meanwhile
        let_go(grads)
        return MISSED
    arguments = buffer(8 * MOST_CONNECTED)
    for i in range(n):
        store_ptr(arguments, 8 * i, PyTuple_GetItem(grads, i))
    kept = load_ptr(call, load_i64(context, CALL_KEPT))
    given = load_ptr(call, load_i64(context, CALL_ARGUMENTS))
    hold(kept)
    hold(given)
    n_kept = load_i64(whole, WHOLE_N_KEPT)
    for i in range(n_kept):
        store_ptr(arguments, 8 * (n + i), PyTuple_GetItem(kept, load_i64(load_ptr(whole, WHOLE_KEPT), 8 * i)))
    _found(load_ptr(whole, WHOLE_GIVEN), load_i64(whole, WHOLE_N_GIVEN), given, arguments + 8 * (n + n_kept))
    status = run_executable(load_ptr(whole, WHOLE_EXECUTABLE), arguments, result)
    let_go(given)
    let_go(kept)
    let_go(grads)
    return status


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
