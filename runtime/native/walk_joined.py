"""Compiled calls in a walk backwards: each alone, or with the gradient of it that the walk meets right before.

Where all that lies between both is inside the call, one executable gives what the call's inputs get from either.
"""

from __future__ import annotations

from eagerjit.runtime.native.agreed import KIND_CALL, KIND_GRADIENT
from eagerjit.runtime.native.context import (
    CALL_VALUES,
    GRADIENT_OP_NODE,
    GRADIENTS_JOINED,
    NONE,
    WALKER_THROUGH_BOTH,
    context,
)
from eagerjit.runtime.native.execute import DONE, MISSED
from eagerjit.runtime.native.known_gradients import known_of
from eagerjit.runtime.native.language import external, i64, load_i64, load_ptr, ptr, store_i64
from eagerjit.runtime.native.objects import let_go
from eagerjit.runtime.native.walk_calls import (
    find_known,
    go_through_call,
    go_through_known,
    hand_on_totals,
    taken_from,
)
from eagerjit.runtime.native.walk_freshness import is_fresh, is_used_up
from eagerjit.runtime.native.walk_memory import (
    EDGE_BYTES,
    EDGE_KEPT,
    EDGE_POSITION,
    EDGE_TENSOR,
    EDGES,
    ORDER,
    RECORD_BYTES,
    RECORD_COUNT,
    RECORD_DONE,
    RECORD_EDGES,
    RECORD_INPUTS,
    RECORD_IS_CALL,
    RECORD_LEADS,
    RECORD_N_EDGES,
    RECORD_OF,
    RECORD_OP,
    RECORD_SLOT,
    RECORD_UNREACHED,
    RECORDS,
    SLOT_BYTES,
    SLOT_WANTED,
    SLOTS,
    TARGETS,
    asked,
    vector_item,
)
from eagerjit.runtime.native.walk_steps import needed_flags, take_incoming

PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")
PyErr_Occurred = external("ptr PyErr_Occurred()")


# -- which go together ------------------------------------------------------------------------------------------------


def _call_behind(walk: ptr, at: i64, node: ptr) -> ptr:
    """The record that the walk comes to next, if it is that of this node; null otherwise."""
    chosen = load_ptr(walk, TARGETS) != load_ptr(context, NONE)
    for i in range(at + 1, load_i64(walk, ORDER + 8)):
        record = vector_item(walk, RECORDS, RECORD_BYTES, load_i64(vector_item(walk, ORDER, 8, i), 0))
        if chosen and load_i64(record, RECORD_LEADS) == 0:
            continue
        is_it = load_ptr(record, RECORD_OF) == node and load_i64(record, RECORD_IS_CALL) == KIND_CALL
        return record if is_it else ptr(0)
    return 0


def _is_wanted(walk: ptr, record: ptr) -> bool:
    """Whether the gradient of one of a node's results is wanted."""
    slots = vector_item(walk, SLOTS, SLOT_BYTES, load_i64(record, RECORD_SLOT))
    for i in range(load_i64(record, RECORD_COUNT)):
        if load_i64(slots, SLOT_BYTES * i + SLOT_WANTED):
            return 1
    return 0


def _next_kept(walk: ptr, record: ptr, at: i64) -> i64:
    """The first edge of a record from this one on along which a gradient flows; how many there are without one."""
    while at < load_i64(record, RECORD_N_EDGES):
        if load_i64(vector_item(walk, EDGES, EDGE_BYTES, load_i64(record, RECORD_EDGES) + at), EDGE_KEPT):
            return at
        at += 1
    return at


def _all_is_inside(walk: ptr, gradient: ptr, call: ptr) -> bool:
    """Whether what gets a gradient of a call's gradient is inside the call, or gets one of the call too."""
    n_values = PyTuple_Size(load_ptr(load_ptr(gradient, RECORD_OP), load_i64(context, CALL_VALUES)))
    first = PyTuple_Size(load_ptr(gradient, RECORD_INPUTS)) - PyTuple_Size(load_ptr(call, RECORD_INPUTS))
    behind = _next_kept(walk, call, 0)
    at = _next_kept(walk, gradient, 0)
    while at < load_i64(gradient, RECORD_N_EDGES):
        edge = vector_item(walk, EDGES, EDGE_BYTES, load_i64(gradient, RECORD_EDGES) + at)
        position = load_i64(edge, EDGE_POSITION)
        if position < n_values:
            return 0
        if position >= first:
            if behind == load_i64(call, RECORD_N_EDGES):
                return 0
            other = vector_item(walk, EDGES, EDGE_BYTES, load_i64(call, RECORD_EDGES) + behind)
            if load_i64(other, EDGE_POSITION) != position - first:
                return 0
            if load_ptr(other, EDGE_TENSOR) != load_ptr(edge, EDGE_TENSOR):
                return 0
            behind = _next_kept(walk, call, behind + 1)
        at = _next_kept(walk, gradient, at + 1)
    return behind == load_i64(call, RECORD_N_EDGES)


def _joined_call(walk: ptr, at: i64, gradient: ptr) -> ptr:
    """The record of the call that goes together with its gradient, which lies at this place of the order; or null."""
    op = load_ptr(gradient, RECORD_OP)
    if known_of(op) == 0 or is_used_up(gradient):
        return 0
    call = _call_behind(walk, at, load_ptr(op, load_i64(context, GRADIENT_OP_NODE)))
    if call == 0 or known_of(load_ptr(call, RECORD_OP)) == 0 or is_used_up(call) or _is_wanted(walk, call):
        return 0
    inside = _all_is_inside(walk, gradient, call) and is_fresh(walk, call) and is_fresh(walk, gradient)
    return call if inside else ptr(0)


# -- the way through --------------------------------------------------------------------------------------------------


def _through_both_in_python(walk: ptr, gradient: ptr, call: ptr, incoming: ptr, of_call: ptr) -> i64:
    """Hands on what Python computes; -1 on failure."""
    flags = needed_flags(walk, call)
    taken = taken_from(walk, call) if flags else ptr(0)
    status = -1
    if taken:
        function = asked(walk, WALKER_THROUGH_BOTH)
        node = load_ptr(gradient, RECORD_OF)
        behind = load_ptr(call, RECORD_OF)
        totals = PyObject_CallFunctionObjArgs(function, node, behind, incoming, of_call, flags, taken, ptr(0))
        if totals:
            status = hand_on_totals(walk, call, totals, taken)
            let_go(totals)
        let_go(taken)
    if flags:
        let_go(flags)
    return status


def _go_through_both(walk: ptr, gradient: ptr, call: ptr, incoming: ptr) -> i64:
    """Hands on, for the inputs of a call, the gradients of the call and of its gradient; -1 on failure."""
    of_call = take_incoming(walk, call)
    if of_call == 0:
        of_call = ptr(0) if PyErr_Occurred() else PyTuple_New(0)
    if of_call == 0:
        return -1
    store_i64(call, RECORD_DONE, 1)
    table = known_of(load_ptr(gradient, RECORD_OP))
    known = find_known(walk, load_ptr(table, GRADIENTS_JOINED) if table else ptr(0), call, incoming, of_call)
    status = MISSED
    if known:
        status = go_through_known(walk, call, known, load_ptr(gradient, RECORD_OF), incoming, of_call)
    if status == MISSED:
        status = _through_both_in_python(walk, gradient, call, incoming, of_call)
    let_go(of_call)
    return 0 if status == DONE else -1


def go_through_calls(walk: ptr, at: i64, record: ptr) -> i64:
    """Hands on the gradients of what stands for several operations, at this place of the order; -1 on failure."""
    if load_i64(record, RECORD_DONE):
        return 0
    incoming = take_incoming(walk, record)
    if incoming == 0:
        store_i64(record, RECORD_UNREACHED, 1)
        return -1 if PyErr_Occurred() else 0
    call: ptr = 0
    if load_i64(record, RECORD_IS_CALL) == KIND_GRADIENT:
        call = _joined_call(walk, at, record)
    if call:
        status = _go_through_both(walk, record, call, incoming)
    else:
        status = go_through_call(walk, record, incoming)
    let_go(incoming)
    return status
