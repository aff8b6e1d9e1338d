"""A compiled call in a walk backwards: its gradients are added to what has reached its inputs before."""

from __future__ import annotations

from eagerjit.runtime.native.connect import drop_values, note_freed, note_last, run_whole, whole_gradient
from eagerjit.runtime.native.context import (
    CALL_LAST,
    NONE,
    OBJECT_TYPE,
    TRUE,
    WALKER_RELEASE_CALL,
    WALKER_THROUGH_CALL,
    WALKER_USED_UP,
    WHOLE_DEPENDS,
    WHOLE_ENDS,
    WHOLE_FREED,
    WHOLE_N_TARGETS,
    WHOLE_REPEATED,
    WHOLE_TARGETS,
    WHOLE_VISIT,
    context,
)
from eagerjit.runtime.native.execute import DONE, FAILED, MISSED
from eagerjit.runtime.native.language import (
    buffer,
    external,
    external_data,
    i64,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.objects import hold, let_go
from eagerjit.runtime.native.walk_freshness import is_fresh, is_used_up
from eagerjit.runtime.native.walk_memory import (
    CREATE_GRAPH,
    EDGE_BYTES,
    EDGE_KEPT,
    EDGE_POSITION,
    EDGES,
    ORDER,
    RECORD_BYTES,
    RECORD_EDGES,
    RECORD_GONE,
    RECORD_INPUTS,
    RECORD_N_EDGES,
    RECORD_OF,
    RECORD_OP,
    RECORD_UNREACHED,
    RECORDS,
    asked,
    place_reached,
    succeeded,
    vector_item,
)
from eagerjit.runtime.native.walk_steps import deposit, needed_flags, take_incoming

PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyList_New = external("ptr PyList_New(i64)")
PyList_GetItem = external("ptr PyList_GetItem(ptr, i64)")
PyList_SetItem = external("i32 PyList_SetItem(ptr, i64, ptr)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")
PyErr_Occurred = external("ptr PyErr_Occurred()")
PySet_New = external("ptr PySet_New(ptr)")
PySet_Add = external("i32 PySet_Add(ptr, ptr)")
PyTuple_Type = external_data("PyTuple_Type")


# -- by one Program ---------------------------------------------------------------------------------------------------


def _is_for_these(walk: ptr, record: ptr, whole: ptr) -> bool:
    """Whether the gradient of all of a call is for the inputs that need one, and adds to nothing one by one."""
    n = load_i64(record, RECORD_N_EDGES)
    if n != load_i64(whole, WHOLE_N_TARGETS):
        return 0
    for k in range(n):
        edge = vector_item(walk, EDGES, EDGE_BYTES, load_i64(record, RECORD_EDGES) + k)
        position = 8 * load_i64(edge, EDGE_POSITION)
        if load_i64(edge, EDGE_KEPT) == 0 or load_i64(load_ptr(whole, WHOLE_TARGETS), position) < 0:
            return 0
        if load_i64(load_ptr(whole, WHOLE_REPEATED), position) and load_ptr(place_reached(walk, edge), 0):
            return 0
    return 1


def _go_through_whole(walk: ptr, record: ptr, incoming: ptr) -> i64:
    """Hands on the gradients of a compiled call as one Program computes them: DONE, MISSED where none does, FAILED."""
    if load_ptr(walk, CREATE_GRAPH) == load_ptr(context, TRUE):
        return MISSED
    call = load_ptr(record, RECORD_OP)
    whole = whole_gradient(call)
    if whole == 0 or is_used_up(record) or not _is_for_these(walk, record, whole) or not is_fresh(walk, record):
        return MISSED
    result = buffer(8)
    status = run_whole(whole, call, incoming, result)
    if status != DONE:
        return status
    note_last(call, load_ptr(whole, WHOLE_VISIT))
    found = load_ptr(result, 0)
    several = load_ptr(found, OBJECT_TYPE) == PyTuple_Type
    for k in range(load_i64(record, RECORD_N_EDGES)):
        at = load_i64(record, RECORD_EDGES) + k
        edge = vector_item(walk, EDGES, EDGE_BYTES, at)
        target = load_i64(load_ptr(whole, WHOLE_TARGETS), 8 * load_i64(edge, EDGE_POSITION))
        grad = PyTuple_GetItem(found, target) if several else found
        hold(grad)
        if status == DONE and deposit(walk, at, grad) != 0:
            status = FAILED
    let_go(found)
    return status


# -- by Python --------------------------------------------------------------------------------------------------------


def _taken(walk: ptr, record: ptr) -> ptr:
    """A new list of what has reached a node's inputs, which is taken from there, None for nothing; null on failure."""
    n = PyTuple_Size(load_ptr(record, RECORD_INPUTS))
    taken = PyList_New(n)
    for i in range(n if taken else 0):
        hold(load_ptr(context, NONE))
        PyList_SetItem(taken, i, load_ptr(context, NONE))
    for k in range(load_i64(record, RECORD_N_EDGES) if taken else 0):
        edge = vector_item(walk, EDGES, EDGE_BYTES, load_i64(record, RECORD_EDGES) + k)
        place = place_reached(walk, edge)
        grad = load_ptr(place, 0)
        if load_i64(edge, EDGE_KEPT) and grad:
            PyList_SetItem(taken, load_i64(edge, EDGE_POSITION), grad)
            store_ptr(place, 0, ptr(0))
    return taken


def _hand_on_totals(walk: ptr, record: ptr, totals: ptr, taken: ptr) -> i64:
    """Puts totals in the place of what was taken, and back what has none; -1 on failure."""
    none = load_ptr(context, NONE)
    for k in range(load_i64(record, RECORD_N_EDGES)):
        at = load_i64(record, RECORD_EDGES) + k
        edge = vector_item(walk, EDGES, EDGE_BYTES, at)
        if load_i64(edge, EDGE_KEPT) == 0:
            continue
        position = load_i64(edge, EDGE_POSITION)
        total = PyTuple_GetItem(totals, position)
        start = PyList_GetItem(taken, position)
        if total == 0:
            return -1
        if total != none:
            hold(total)
            if deposit(walk, at, total) != 0:
                return -1
        elif start != none:
            place = place_reached(walk, edge)
            before = load_ptr(place, 0)
            hold(start)
            store_ptr(place, 0, start)
            if before:
                let_go(before)
    return 0


def go_through_call(walk: ptr, record: ptr) -> i64:
    """Hands on the gradients of a compiled call; -1 on failure."""
    incoming = take_incoming(walk, record)
    if incoming == 0:
        store_i64(record, RECORD_UNREACHED, 1)
        return -1 if PyErr_Occurred() else 0
    status = _go_through_whole(walk, record, incoming)
    if status != MISSED:
        let_go(incoming)
        return 0 if status == DONE else -1
    node = load_ptr(record, RECORD_OF)
    status = -1
    flags: ptr = 0
    taken: ptr = 0
    if is_used_up(record):
        succeeded(PyObject_CallFunctionObjArgs(asked(walk, WALKER_USED_UP), node, ptr(0)))
    else:
        flags = needed_flags(walk, record)
        taken = _taken(walk, record) if flags else ptr(0)
    if taken:
        function = asked(walk, WALKER_THROUGH_CALL)
        create_graph = load_ptr(walk, CREATE_GRAPH)
        totals = PyObject_CallFunctionObjArgs(function, node, incoming, flags, taken, create_graph, ptr(0))
        if totals:
            status = _hand_on_totals(walk, record, totals, taken)
            let_go(totals)
        let_go(taken)
    if flags:
        let_go(flags)
    let_go(incoming)
    return status


# -- what is left -----------------------------------------------------------------------------------------------------


def _is_gone(walk: ptr, at: i64) -> bool:
    """Whether the node in this place of the order is gone."""
    return load_i64(vector_item(walk, RECORDS, RECORD_BYTES, load_i64(vector_item(walk, ORDER, 8, at), 0)), RECORD_GONE)


def _any_is_gone(walk: ptr, position: i64) -> bool:
    """Whether a node before the one in this place is gone."""
    for i in range(position + 1, load_i64(walk, ORDER + 8)):
        if _is_gone(walk, i):
            return 1
    return 0


def call_lasts(walk: ptr, position: i64, record: ptr) -> i64:
    """Whether a part of a compiled call can be walked still, now that nodes before it are gone; -1 on failure."""
    call = load_ptr(record, RECORD_OP)
    whole = whole_gradient(call)
    if whole and load_ptr(call, load_i64(context, CALL_LAST)) == load_ptr(whole, WHOLE_VISIT):
        if load_i64(whole, WHOLE_DEPENDS) == 0 or not _any_is_gone(walk, position):
            note_freed(call, load_ptr(whole, WHOLE_FREED))
            return drop_values(call) if load_i64(whole, WHOLE_ENDS) else 1
    gone = PySet_New(ptr(0))
    if gone == 0:
        return -1
    for i in range(position + 1, load_i64(walk, ORDER + 8)):
        before = vector_item(walk, RECORDS, RECORD_BYTES, load_i64(vector_item(walk, ORDER, 8, i), 0))
        if _is_gone(walk, i) and PySet_Add(gone, load_ptr(before, RECORD_OF)) != 0:
            let_go(gone)
            return -1
    node = load_ptr(record, RECORD_OF)
    ended = PyObject_CallFunctionObjArgs(asked(walk, WALKER_RELEASE_CALL), node, gone, ptr(0))
    let_go(gone)
    return -1 if succeeded(ended) != 0 else ended != load_ptr(context, TRUE)
