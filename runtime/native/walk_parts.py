"""Gradients of parts of large tensors in a walk backwards: Python adds them in their places (`autograd/placed.py`)."""

from __future__ import annotations

from eagerjit.runtime.native.agreed import PART_SHOWN
from eagerjit.runtime.native.context import FACTS_PARTS, TRUE, WALKER_ADD_PART, WALKER_BEGIN_PARTS, context
from eagerjit.runtime.native.language import external, i64, load_i64, load_ptr, ptr, store_i64
from eagerjit.runtime.native.walk_memory import (
    CREATE_GRAPH,
    EDGE_BYTES,
    EDGE_KEPT,
    EDGE_POSITION,
    EDGE_TARGET,
    EDGE_TENSOR,
    EDGES,
    LEAF_BYTES,
    LEAF_LAST,
    LEAVES,
    PARTS,
    PLACED,
    REACHED,
    RECORD_EDGES,
    RECORD_FACTS,
    RECORD_N_EDGES,
    RECORD_OF,
    asked,
    place_reached,
    succeeded,
    vector_add,
    vector_item,
)

PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")


def _edge_to_whole(walk: ptr, record: ptr) -> ptr:
    """The edge to a tensor of which a part is shown or written, where gradients of several may meet; null elsewhere."""
    facts = load_ptr(record, RECORD_FACTS)
    if load_i64(walk, PARTS) < 2 or facts == 0 or load_i64(facts, FACTS_PARTS) == 0:
        return 0
    if load_ptr(walk, CREATE_GRAPH) == load_ptr(context, TRUE) or load_i64(record, RECORD_N_EDGES) == 0:
        return 0
    edge = vector_item(walk, EDGES, EDGE_BYTES, load_i64(record, RECORD_EDGES))
    return edge if load_i64(edge, EDGE_KEPT) and load_i64(edge, EDGE_POSITION) == 0 else ptr(0)


def add_part(walk: ptr, record: ptr, incoming: ptr) -> i64:
    """1 where Python has added the gradient of a part to the sum for the whole, else 0; -1 on failure."""
    edge = _edge_to_whole(walk, record)
    if edge == 0 or load_i64(load_ptr(record, RECORD_FACTS), FACTS_PARTS) != PART_SHOWN:
        return 0
    total = load_ptr(place_reached(walk, edge), 0)
    if total == 0:
        return 0
    function = asked(walk, WALKER_ADD_PART)
    node = load_ptr(record, RECORD_OF)
    tensor = load_ptr(edge, EDGE_TENSOR)
    grad = PyTuple_GetItem(incoming, 0)
    added = PyObject_CallFunctionObjArgs(function, load_ptr(walk, PLACED), node, tensor, total, grad, ptr(0))
    if succeeded(added) != 0:
        return -1
    if added != load_ptr(context, TRUE):
        return 0
    target = load_i64(edge, EDGE_TARGET)
    if target < 0:
        at = vector_add(walk, REACHED, 8)
        if at < 0:
            return -1
        store_i64(vector_item(walk, REACHED, 8, at), 0, -1 - target)
        store_i64(vector_item(walk, LEAVES, LEAF_BYTES, -1 - target), LEAF_LAST, at)
    return 1


def place_of_whole(walk: ptr, record: ptr) -> ptr:
    """Where the gradient of a node will be the first to reach a tensor with parts; null elsewhere."""
    edge = _edge_to_whole(walk, record)
    place = place_reached(walk, edge) if edge else ptr(0)
    return place if place and load_ptr(place, 0) == 0 else ptr(0)


def begin_parts(walk: ptr, record: ptr, place: ptr, incoming: ptr) -> i64:
    """Lets Python know of the first gradient that has reached a tensor with parts; -1 on failure."""
    total = load_ptr(place, 0)
    if total == 0:
        return 0
    tensor = load_ptr(_edge_to_whole(walk, record), EDGE_TENSOR)
    function = asked(walk, WALKER_BEGIN_PARTS)
    node = load_ptr(record, RECORD_OF)
    grad = PyTuple_GetItem(incoming, 0)
    begun = PyObject_CallFunctionObjArgs(function, load_ptr(walk, PLACED), node, tensor, total, grad, ptr(0))
    return succeeded(begun)
