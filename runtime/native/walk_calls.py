"""A compiled call in a walk backwards: its gradients are added to what has reached its inputs before."""

from __future__ import annotations

from eagerjit.runtime.native.context import NONE, WALKER_THROUGH_CALL, WALKER_USED_UP, context
from eagerjit.runtime.native.language import external, i64, load_i64, load_ptr, ptr, store_i64, store_ptr
from eagerjit.runtime.native.objects import hold, let_go
from eagerjit.runtime.native.walk_freshness import is_used_up
from eagerjit.runtime.native.walk_memory import (
    CREATE_GRAPH,
    EDGE_BYTES,
    EDGE_KEPT,
    EDGE_POSITION,
    EDGES,
    RECORD_EDGES,
    RECORD_INPUTS,
    RECORD_N_EDGES,
    RECORD_OF,
    RECORD_UNREACHED,
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
