"""Compiled calls on the tape: a node for the results of one, and one for its gradients where these have a history."""

from __future__ import annotations

from eagerjit.runtime.native.context import (
    CALL_ARGUMENTS,
    CALL_BACKWARD,
    CALL_DEFAULTS,
    CALL_KEPT,
    CALL_KNOWN,
    CALL_TYPE,
    CALL_VALUES,
    CONNECTION_BACKWARD,
    CONNECTION_INPUTS,
    CONNECTION_KEPT,
    CONNECTION_KNOWN,
    CONNECTION_N_INPUTS,
    CONNECTION_N_KEPT,
    CONNECTION_N_ROOTS,
    CONNECTION_N_USER,
    CONNECTION_REBUILD,
    CONNECTION_ROOTS,
    DATA,
    GRADIENT_OP_CALL,
    GRADIENT_OP_DEFAULTS,
    GRADIENT_OP_NODE,
    GRADIENT_OP_TWICE,
    GRADIENT_OP_TYPE,
    HISTORY_HIDDEN,
    HISTORY_KNOWN,
    HISTORY_N_HIDDEN,
    HISTORY_N_OUTPUTS,
    HISTORY_N_RESULTS,
    HISTORY_OUTPUTS,
    HISTORY_TWICE,
    INDEX,
    MOST_CONNECTED,
    N_CALL_DEFAULTS,
    N_GRADIENT_OP_DEFAULTS,
    NODE,
    NODE_CODE,
    NODE_INPUTS,
    NODE_OFFSET,
    NONE,
    OBJECT_TYPE,
    REQUIRES_GRAD,
    SINGLE_OUTPUT,
    TRUE,
    context,
)
from eagerjit.runtime.native.language import (
    buffer,
    external,
    external_data,
    i64,
    load_i64,
    load_ptr,
    ptr,
    store_ptr,
)
from eagerjit.runtime.native.nodes import connect, new_node
from eagerjit.runtime.native.objects import hold, let_go, new_instance, replace_slot, tensor_over
from eagerjit.runtime.native.operators import tuple_of

PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyTuple_SetItem = external("i32 PyTuple_SetItem(ptr, i64, ptr)")
PyTuple_GetSlice = external("ptr PyTuple_GetSlice(ptr, i64, i64)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")
PyLong_FromLongLong = external("ptr PyLong_FromLongLong(i64)")
PyTuple_Type = external_data("PyTuple_Type")


def _result(made: ptr, single: bool, index: i64) -> ptr:
    """A result of several (borrowed), or the only one."""
    return made if single else PyTuple_GetItem(made, index)


def find_places(places: ptr, n: i64, arguments: ptr, found: ptr) -> None:
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
    replace_slot(call, load_i64(context, CALL_KNOWN), load_ptr(connection, CONNECTION_KNOWN))
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
    find_places(load_ptr(connection, CONNECTION_INPUTS), n_inputs, given, inputs)
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


# -- gradients that have a history ------------------------------------------------------------------------------------


def _gradient(found: ptr, index: i64) -> ptr:
    """A result of an executable, which is a tuple of several or the only one (borrowed)."""
    return PyTuple_GetItem(found, index) if load_ptr(found, OBJECT_TYPE) == PyTuple_Type else found


def _kept_with(kept: ptr, found: ptr, first: i64) -> ptr:
    """A new tuple of what a call has kept, and of the results from the first of those that are kept too on; or null."""
    n = PyTuple_Size(kept)
    more = 0
    if load_ptr(found, OBJECT_TYPE) == PyTuple_Type:
        more = PyTuple_Size(found) - first
    all_of_them = PyTuple_New(n + more)
    for i in range(n + more if all_of_them else 0):
        value = PyTuple_GetItem(kept, i) if i < n else PyTuple_GetItem(found, first + i - n)
        hold(value)
        PyTuple_SetItem(all_of_them, i, value)
    return all_of_them


def _new_gradient_op(history: ptr, call: ptr, node: ptr, grads: ptr, found: ptr) -> ptr:
    """The op of the node of a call's gradients; null on failure."""
    kept = _kept_with(load_ptr(call, load_i64(context, CALL_KEPT)), found, load_i64(history, HISTORY_N_RESULTS))
    if kept == 0:
        return 0
    defaults = load_ptr(context, GRADIENT_OP_DEFAULTS)
    made = new_instance(load_ptr(context, GRADIENT_OP_TYPE), defaults, load_i64(context, N_GRADIENT_OP_DEFAULTS))
    if made:
        replace_slot(made, load_i64(context, GRADIENT_OP_CALL), call)
        replace_slot(made, load_i64(context, GRADIENT_OP_NODE), node)
        replace_slot(made, load_i64(context, GRADIENT_OP_TWICE), load_ptr(history, HISTORY_TWICE))
        replace_slot(made, load_i64(context, CALL_KNOWN), load_ptr(history, HISTORY_KNOWN))
        replace_slot(made, load_i64(context, CALL_ARGUMENTS), load_ptr(call, load_i64(context, CALL_ARGUMENTS)))
        replace_slot(made, load_i64(context, CALL_VALUES), grads)
        replace_slot(made, load_i64(context, CALL_KEPT), kept)
    let_go(kept)
    return made


def _hidden_value(node: ptr, position: i64) -> ptr:
    """A tensor without memory that stands for a result of a call's node; null on failure."""
    none = load_ptr(context, NONE)
    hold(none)
    value = tensor_over(none)
    number = PyLong_FromLongLong(position) if value else ptr(0)
    if number == 0:
        if value:
            let_go(value)
        return 0
    replace_slot(value, load_i64(context, INDEX), number)
    let_go(number)
    replace_slot(value, load_i64(context, NODE), node)
    replace_slot(value, load_i64(context, REQUIRES_GRAD), load_ptr(context, TRUE))
    return value


def _inputs_of_gradient(history: ptr, node: ptr, grads: ptr, inputs: ptr) -> i64:
    """Stores what a call's gradients depend on, the hidden values as new references; how many, -1 on failure."""
    n = PyTuple_Size(grads)
    for i in range(n):
        store_ptr(inputs, 8 * i, PyTuple_GetItem(grads, i))
    n_hidden = load_i64(history, HISTORY_N_HIDDEN)
    for i in range(n_hidden):
        value = _hidden_value(node, load_i64(load_ptr(history, HISTORY_HIDDEN), 8 * i))
        if value == 0:
            _drop_hidden(inputs + 8 * n, i)
            return -1
        store_ptr(inputs, 8 * (n + i), value)
    n += n_hidden
    of_call = load_ptr(node, load_i64(context, NODE_INPUTS))
    n_of_call = PyTuple_Size(of_call) if load_ptr(of_call, OBJECT_TYPE) == PyTuple_Type else 0
    for i in range(n_of_call):
        store_ptr(inputs, 8 * (n + i), PyTuple_GetItem(of_call, i))
    return n + n_of_call


def _drop_hidden(values: ptr, n: i64) -> None:
    for i in range(n):
        let_go(load_ptr(values, 8 * i))


def put_gradients_on_tape(history: ptr, call: ptr, node: ptr, grads: ptr, found: ptr) -> i64:
    """Makes the gradients of a call (its op and node) from those that came in results of a new node; -1 on failure."""
    n = load_i64(history, HISTORY_N_OUTPUTS)
    outputs = load_ptr(history, HISTORY_OUTPUTS)
    if n == 0:
        return 0
    made = _new_gradient_op(history, call, node, grads, found)
    if made == 0:
        return -1
    inputs = buffer(8 * MOST_CONNECTED)
    n_inputs = _inputs_of_gradient(history, node, grads, inputs)
    output = PyTuple_New(n) if n_inputs >= 0 else ptr(0)
    of_gradient: ptr = 0
    if output:
        for i in range(n):
            data = load_ptr(_gradient(found, load_i64(outputs, 8 * i)), load_i64(context, DATA))
            hold(data)
            PyTuple_SetItem(output, i, data)
        of_gradient = new_node(made, inputs, n_inputs, output)
    if n_inputs >= 0:
        _drop_hidden(inputs + 8 * PyTuple_Size(grads), load_i64(history, HISTORY_N_HIDDEN))
    let_go(made)
    if of_gradient == 0:
        return -1
    replace_slot(of_gradient, load_i64(context, NODE_CODE), load_ptr(node, load_i64(context, NODE_CODE)))
    replace_slot(of_gradient, load_i64(context, NODE_OFFSET), load_ptr(node, load_i64(context, NODE_OFFSET)))
    for i in range(n):
        connect(_gradient(found, load_i64(outputs, 8 * i)), of_gradient, i)
    let_go(of_gradient)
    return 0
