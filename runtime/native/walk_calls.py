"""A compiled call, or the gradient of one, in a walk backwards: what it gives is added to what reached its inputs."""

from __future__ import annotations

from eagerjit.runtime.native.agreed import KIND_GRADIENT
from eagerjit.runtime.native.context import (
    CALL_LAST,
    GRADIENTS_ALONE,
    GRADIENTS_HIDDEN,
    KNOWN_DEPENDS,
    KNOWN_ENDS,
    KNOWN_FREED,
    KNOWN_N_STARTS,
    KNOWN_N_WANTED,
    KNOWN_REPEATED,
    KNOWN_STARTS,
    KNOWN_TARGETS,
    KNOWN_VISIT,
    NONE,
    NOT_WANTED,
    OBJECT_TYPE,
    TRUE,
    WALKER_RELEASE_CALL,
    WALKER_THROUGH_CALL,
    WALKER_USED_UP,
    context,
)
from eagerjit.runtime.native.execute import DONE, FAILED, MISSED
from eagerjit.runtime.native.known_gradients import drop_values, is_of, known_of, note_freed, note_last, run_known
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
    RECORD_IS_CALL,
    RECORD_KNOWN,
    RECORD_N_EDGES,
    RECORD_OF,
    RECORD_OP,
    RECORDS,
    asked,
    place_reached,
    succeeded,
    vector_item,
)
from eagerjit.runtime.native.walk_steps import deposit, needed_flags

PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_SetItem = external("i32 PyTuple_SetItem(ptr, i64, ptr)")
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


# -- by one executable ------------------------------------------------------------------------------------------------


def _takes_edges(walk: ptr, record: ptr, known: ptr) -> bool:
    """Whether a gradient is for the inputs that need one, and adds use by use to what has reached them."""
    n_wanted = 0
    n_starts = 0
    targets = load_ptr(known, KNOWN_TARGETS)
    repeated = load_ptr(known, KNOWN_REPEATED)
    for k in range(load_i64(record, RECORD_N_EDGES)):
        edge = vector_item(walk, EDGES, EDGE_BYTES, load_i64(record, RECORD_EDGES) + k)
        position = 8 * load_i64(edge, EDGE_POSITION)
        if load_i64(edge, EDGE_KEPT) == 0:
            continue
        if load_i64(targets, position) == NOT_WANTED:
            return 0
        n_wanted += 1
        if load_i64(repeated, position) and load_ptr(place_reached(walk, edge), 0):
            if load_i64(load_ptr(known, KNOWN_STARTS), position) < 0:
                return 0
            n_starts += 1
    return n_wanted == load_i64(known, KNOWN_N_WANTED) and n_starts == load_i64(known, KNOWN_N_STARTS)


def find_known(walk: ptr, table: ptr, record: ptr, incoming: ptr, of_call: ptr) -> ptr:
    """The gradient in a table (or null) that does for a node as the walk comes to it; null where there is none."""
    has_history = load_ptr(walk, CREATE_GRAPH) == load_ptr(context, TRUE)
    for i in range(load_i64(table, 0) if table else 0):
        known = load_ptr(table, 8 + 8 * i)
        if is_of(known, incoming, of_call, has_history) and _takes_edges(walk, record, known):
            return known
    return 0


def _starts(walk: ptr, record: ptr, known: ptr) -> ptr:
    """A new tuple of what has reached the inputs to which a gradient adds use by use; null on failure, or where two of
    them are one tensor."""
    n = load_i64(known, KNOWN_N_STARTS)
    starts = PyTuple_New(n)
    for k in range(load_i64(record, RECORD_N_EDGES) if starts and n else 0):
        edge = vector_item(walk, EDGES, EDGE_BYTES, load_i64(record, RECORD_EDGES) + k)
        if load_i64(edge, EDGE_KEPT) == 0:
            continue
        for before in range(k):
            other = vector_item(walk, EDGES, EDGE_BYTES, load_i64(record, RECORD_EDGES) + before)
            if load_i64(other, EDGE_KEPT) and place_reached(walk, other) == place_reached(walk, edge):
                let_go(starts)
                return 0
        at = load_i64(load_ptr(known, KNOWN_STARTS), 8 * load_i64(edge, EDGE_POSITION))
        if at >= 0:
            start = load_ptr(place_reached(walk, edge), 0)
            hold(start)
            PyTuple_SetItem(starts, at, start)
    return starts


def _hand_on(walk: ptr, record: ptr, known: ptr, found: ptr) -> i64:
    """Hands on what a gradient has given for the inputs of a node; -1 on failure."""
    several = load_ptr(found, OBJECT_TYPE) == PyTuple_Type
    for k in range(load_i64(record, RECORD_N_EDGES)):
        at = load_i64(record, RECORD_EDGES) + k
        edge = vector_item(walk, EDGES, EDGE_BYTES, at)
        position = load_i64(edge, EDGE_POSITION)
        target = load_i64(load_ptr(known, KNOWN_TARGETS), 8 * position)
        if load_i64(edge, EDGE_KEPT) == 0 or target < 0:
            continue
        if load_i64(load_ptr(known, KNOWN_STARTS), 8 * position) >= 0:  # what it gives is the sum already
            place = place_reached(walk, edge)
            start = load_ptr(place, 0)
            store_ptr(place, 0, ptr(0))
            let_go(start)
        grad = PyTuple_GetItem(found, target) if several else found
        hold(grad)
        if deposit(walk, at, grad) != 0:
            return -1
    return 0


def go_through_known(walk: ptr, record: ptr, known: ptr, node: ptr, incoming: ptr, of_call: ptr) -> i64:
    """Hands on for a record what one executable computes, the gradient of a node: DONE, MISSED or FAILED."""
    starts = _starts(walk, record, known)
    if starts == 0:
        return FAILED if PyErr_Occurred() else MISSED
    result = buffer(8)
    status = run_known(known, node, incoming, of_call, starts, result)
    let_go(starts)
    if status != DONE:
        return status
    store_ptr(record, RECORD_KNOWN, known)
    if load_ptr(known, KNOWN_VISIT):
        note_last(load_ptr(record, RECORD_OP), load_ptr(known, KNOWN_VISIT))
    found = load_ptr(result, 0)
    if _hand_on(walk, record, known, found) != 0:
        status = FAILED
    let_go(found)
    return status


def _go_through_alone(walk: ptr, record: ptr, incoming: ptr) -> i64:
    """Hands on the gradients of a node if native code knows one that does: DONE, MISSED or FAILED."""
    table = known_of(load_ptr(record, RECORD_OP))
    if table == 0 or is_used_up(record):
        return MISSED
    known = find_known(walk, load_ptr(table, GRADIENTS_ALONE), record, incoming, ptr(0))
    if known == 0 or not is_fresh(walk, record):
        return MISSED
    return go_through_known(walk, record, known, load_ptr(record, RECORD_OF), incoming, ptr(0))


# -- by Python --------------------------------------------------------------------------------------------------------


def taken_from(walk: ptr, record: ptr) -> ptr:
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


def hand_on_totals(walk: ptr, record: ptr, totals: ptr, taken: ptr) -> i64:
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


def go_through_call(walk: ptr, record: ptr, incoming: ptr) -> i64:
    """Hands on the gradients of a compiled call, or of the gradient of one; -1 on failure."""
    status = _go_through_alone(walk, record, incoming)
    if status != MISSED:
        return 0 if status == DONE else -1
    node = load_ptr(record, RECORD_OF)
    status = -1
    flags: ptr = 0
    taken: ptr = 0
    if is_used_up(record):
        succeeded(PyObject_CallFunctionObjArgs(asked(walk, WALKER_USED_UP), node, ptr(0)))
    else:
        flags = needed_flags(walk, record)
        taken = taken_from(walk, record) if flags else ptr(0)
    if taken:
        function = asked(walk, WALKER_THROUGH_CALL)
        create_graph = load_ptr(walk, CREATE_GRAPH)
        totals = PyObject_CallFunctionObjArgs(function, node, incoming, flags, taken, create_graph, ptr(0))
        if totals:
            status = hand_on_totals(walk, record, totals, taken)
            let_go(totals)
        let_go(taken)
    if flags:
        let_go(flags)
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
    if load_i64(record, RECORD_IS_CALL) == KIND_GRADIENT:
        return 0
    call = load_ptr(record, RECORD_OP)
    known = load_ptr(record, RECORD_KNOWN)
    table = known_of(call)
    if known and table and load_ptr(call, load_i64(context, CALL_LAST)) == load_ptr(known, KNOWN_VISIT):
        if load_i64(known, KNOWN_DEPENDS) == 0 or not _any_is_gone(walk, position):
            note_freed(call, load_ptr(known, KNOWN_FREED))
            ends = load_i64(known, KNOWN_ENDS) == 1 + load_i64(table, GRADIENTS_HIDDEN)
            return drop_values(call) if ends else 1
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
