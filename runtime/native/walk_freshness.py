"""Whether a node can be walked still: nothing was freed that it saved, nor overwritten that its gradient reads."""

from __future__ import annotations

from eagerjit.runtime.native.context import (
    FACTS_N_READ,
    FACTS_READ,
    MOST_BITS,
    NODE_INPUTS,
    NODE_OVERWRITTEN,
    NODE_VERSIONS,
    NONE,
    RESULTS,
    STORAGE,
    STORAGE_VERSION,
    context,
)
from eagerjit.runtime.native.language import external, i64, load_i64, load_ptr, ptr
from eagerjit.runtime.native.objects import is_tensor
from eagerjit.runtime.native.walk_graph import node_slot
from eagerjit.runtime.native.walk_memory import (
    EDGE_BYTES,
    EDGE_KEPT,
    EDGE_POSITION,
    EDGES,
    RECORD_EDGES,
    RECORD_FACTS,
    RECORD_INPUTS,
    RECORD_N_EDGES,
    RECORD_OF,
    vector_item,
)

PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyLong_AsLongLong = external("i64 PyLong_AsLongLong(ptr)")


def is_used_up(record: ptr) -> bool:
    """Whether a walk, perhaps one inside of this, has freed what a node saved."""
    node = load_ptr(record, RECORD_OF)
    return load_ptr(record, RECORD_INPUTS) == 0 or node_slot(node, NODE_INPUTS) == load_ptr(context, NONE)


def _values_read(walk: ptr, record: ptr) -> i64:
    """A bit for each argument that needed gradients read, RESULTS for results; all where that is unknown."""
    facts = load_ptr(record, RECORD_FACTS)
    if facts == 0 or load_i64(facts, FACTS_N_READ) < 0:
        return -1
    read = 0
    for k in range(load_i64(record, RECORD_N_EDGES)):
        edge = vector_item(walk, EDGES, EDGE_BYTES, load_i64(record, RECORD_EDGES) + k)
        position = load_i64(edge, EDGE_POSITION)
        if load_i64(edge, EDGE_KEPT) and position < load_i64(facts, FACTS_N_READ):
            read |= load_i64(load_ptr(facts, FACTS_READ), 8 * position)
    return read


def is_fresh(walk: ptr, record: ptr) -> bool:
    """Whether no input and no result that a node's gradient may read was overwritten since it was recorded."""
    node = load_ptr(record, RECORD_OF)
    inputs = load_ptr(record, RECORD_INPUTS)
    none = load_ptr(context, NONE)
    read = _values_read(walk, record)
    if read & RESULTS and node_slot(node, NODE_OVERWRITTEN) != none:
        return 0
    versions = node_slot(node, NODE_VERSIONS)
    offset = load_i64(context, STORAGE)
    for i in range(PyTuple_Size(inputs)):
        if i < MOST_BITS and (read >> i) & 1 == 0:
            continue
        x = PyTuple_GetItem(inputs, i)
        if not is_tensor(x) or load_ptr(x, offset) == none:
            continue
        version = load_ptr(load_ptr(x, offset), load_i64(context, STORAGE_VERSION))
        saved = PyTuple_GetItem(versions, i) if versions != none else ptr(0)
        if version != saved and PyLong_AsLongLong(version) != (PyLong_AsLongLong(saved) if saved else 0):
            return 0
    return 1
