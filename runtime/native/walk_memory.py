"""What a walk backwards keeps: vectors (address, items, room), a table of what it has met, and a heap of nodes.

Met are nodes, each with a record, and leaves, which are tensors without one.
"""

from __future__ import annotations

from eagerjit.runtime.native.agreed import HASH_FACTOR
from eagerjit.runtime.native.language import (
    copy_bytes,
    external,
    fill_bytes,
    i64,
    load_i64,
    load_ptr,
    ptr,
    shift_right_unsigned,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.objects import PyErr_NoMemory, let_go

PyMem_RawRealloc = external("ptr PyMem_RawRealloc(ptr, i64)")
PyMem_RawCalloc = external("ptr PyMem_RawCalloc(i64, i64)")
PyMem_RawFree = external("void PyMem_RawFree(ptr)")
# -- a walk: vectors of 24 bytes, then words --------------------------------------------------------------------------
RECORDS, EDGES, SLOTS, LEAVES, HEAP, ORDER, REACHED = 0, 24, 48, 72, 96, 120, 144
TABLE, TABLE_MASK, MET = 168, 176, 184
WALKER = 192
PARTS = 200  # how many nodes show parts of large tensors
CALLS = 208  # how many compiled calls the walk has come to
TARGETS = 216  # a list of the tensors whose gradients are wanted, or None (borrowed)
CREATE_GRAPH = 224  # a bool (borrowed)
PLACED = 232  # what Python keeps of sums for tensors whose parts have gradients (borrowed)
WALK_BYTES = 240

# -- a record: a node -------------------------------------------------------------------------------------------------
RECORD_OF = 0  # held, as are its operation, its inputs (null: used up) and the facts of an Op
RECORD_SEQUENCE = 8
RECORD_OP = 16
RECORD_FACTS = 24
RECORD_INPUTS = 32
RECORD_EDGES = 40  # its first edge, and how many there are
RECORD_N_EDGES = 48
RECORD_SLOT = 56  # where gradients of its results are
RECORD_COUNT = 64  # of results; -1 for one that is no tuple
RECORD_LEADS = 72  # whether a gradient that is wanted depends on it
RECORD_GONE = 80
RECORD_IS_CALL = 88  # KIND_CALL or KIND_GRADIENT for a compiled call or the gradient of one; 0: an operation
RECORD_UNREACHED = 96  # whether no gradient has come to it
RECORD_KNOWN = 104  # the gradient of a compiled call that the walk has run, if native code knew one (borrowed)
RECORD_DONE = 112  # whether the walk went through it with the gradient behind it
RECORD_BYTES = 120

# -- an edge: a tensor that a gradient flows to ------------------------------------------------------------------------
EDGE_POSITION = 0  # of the input, and the item in it that is the tensor, or -1
EDGE_PART = 8
EDGE_TENSOR = 16  # held
EDGE_TARGET = 24  # a record's index, or a leaf's with all bits inverted
EDGE_SLOT = 32
EDGE_KEPT = 40  # whether a gradient is needed
EDGE_BYTES = 48

# -- a gradient of a result, and a leaf --------------------------------------------------------------------------------
SLOT_GRAD, SLOT_WANTED, SLOT_BYTES = 0, 8, 16
LEAF_TENSOR, LEAF_GRAD, LEAF_WANTED, LEAF_LAST, LEAF_BYTES = 0, 8, 16, 24, 32


def vector_item(walk: ptr, vector: i64, size: i64, index: i64) -> ptr:
    """The address of a vector's item."""
    return load_ptr(walk, vector) + size * index


def vector_add(walk: ptr, vector: i64, size: i64) -> i64:
    """The index of a new item of zeros; -1 without memory."""
    count = load_i64(walk, vector + 8)
    if count == load_i64(walk, vector + 16):
        room = 2 * count if count else 16
        larger = PyMem_RawRealloc(load_ptr(walk, vector), room * size)
        if larger == 0:
            PyErr_NoMemory()
            return -1
        store_ptr(walk, vector, larger)
        store_i64(walk, vector + 16, room)
    fill_bytes(load_ptr(walk, vector) + count * size, 0, size)
    store_i64(walk, vector + 8, count + 1)
    return count


def asked(walk: ptr, function: i64) -> ptr:
    """One of Python's functions or tables (borrowed)."""
    return load_ptr(load_ptr(walk, WALKER), function)


def succeeded(answer: ptr) -> i64:
    """0, or -1 where a call of Python has raised; drops what it gave."""
    if answer == 0:
        return -1
    let_go(answer)
    return 0


def place_reached(walk: ptr, edge: ptr) -> ptr:
    """Where what has reached an edge's tensor is."""
    target = load_i64(edge, EDGE_TARGET)
    if target < 0:
        return vector_item(walk, LEAVES, LEAF_BYTES, -1 - target) + LEAF_GRAD
    return vector_item(walk, SLOTS, SLOT_BYTES, load_i64(edge, EDGE_SLOT)) + SLOT_GRAD


# -- what has been met ------------------------------------------------------------------------------------------------


def _place(walk: ptr, thing: ptr) -> ptr:
    """The entry (object, index) of a node or leaf, or the free one where it would be."""
    mask = load_i64(walk, TABLE_MASK)
    at = shift_right_unsigned(i64(thing) * HASH_FACTOR, 32)
    while True:
        entry = load_ptr(walk, TABLE) + 16 * (at & mask)
        known = load_ptr(entry, 0)
        if known == thing or known == 0:
            return entry
        at += 1


def find(walk: ptr, thing: ptr) -> i64:
    """The index of a node's record or of a leaf; -1 for what has not been met."""
    entry = _place(walk, thing)
    return load_i64(entry, 8) if load_ptr(entry, 0) else -1


def enter(walk: ptr, thing: ptr, index: i64) -> i64:
    """Notes the index of what has not been met before; -1 without memory."""
    count = load_i64(walk, MET)
    mask = load_i64(walk, TABLE_MASK)
    if 2 * count > mask:
        before = load_ptr(walk, TABLE)
        larger = PyMem_RawCalloc(4 * (mask + 1), 16)
        if larger == 0:
            PyErr_NoMemory()
            return -1
        store_ptr(walk, TABLE, larger)
        store_i64(walk, TABLE_MASK, 4 * (mask + 1) - 1)
        for i in range(mask + 1):
            if load_ptr(before, 16 * i):
                copy_bytes(_place(walk, load_ptr(before, 16 * i)), before + 16 * i, 16)
        PyMem_RawFree(before)
    entry = _place(walk, thing)
    store_ptr(entry, 0, thing)
    store_i64(entry, 8, index)
    store_i64(walk, MET, count + 1)
    return 0


def begin(walk: ptr, walker: ptr) -> i64:
    """Makes an empty walk; -1 without memory."""
    fill_bytes(walk, 0, WALK_BYTES)
    store_ptr(walk, WALKER, walker)
    table = PyMem_RawCalloc(64, 16)
    if table == 0:
        PyErr_NoMemory()
        return -1
    store_ptr(walk, TABLE, table)
    store_i64(walk, TABLE_MASK, 63)
    return 0


# -- nodes by the order of execution: a heap of (sequence, record) -----------------------------------------------------


def push(walk: ptr, sequence: i64, record: i64) -> i64:
    at = vector_add(walk, HEAP, 16)
    if at < 0:
        return -1
    heap = load_ptr(walk, HEAP)
    while at > 0:
        above = (at - 1) // 2
        if load_i64(heap, 16 * above) > sequence:
            break
        copy_bytes(heap + 16 * at, heap + 16 * above, 16)
        at = above
    store_i64(heap, 16 * at, sequence)
    store_i64(heap, 16 * at + 8, record)
    return 0


def pop(walk: ptr) -> i64:
    """The record that was executed last of those waiting."""
    heap = load_ptr(walk, HEAP)
    count = load_i64(walk, HEAP + 8) - 1
    found = load_i64(heap, 8)
    store_i64(walk, HEAP + 8, count)
    sequence = load_i64(heap, 16 * count)
    record = load_i64(heap, 16 * count + 8)
    at = 0
    while 2 * at + 1 < count:
        below = 2 * at + 1
        if below + 1 < count and load_i64(heap, 16 * below + 16) > load_i64(heap, 16 * below):
            below += 1
        if load_i64(heap, 16 * below) <= sequence:
            break
        copy_bytes(heap + 16 * at, heap + 16 * below, 16)
        at = below
    store_i64(heap, 16 * at, sequence)
    store_i64(heap, 16 * at + 8, record)
    return found


# -- the end --------------------------------------------------------------------------------------------------------


def finish(walk: ptr) -> None:
    """Lets go of all that the walk holds: inputs from the first executed on, so that no long chain is freed at once."""
    for i in range(load_i64(walk, SLOTS + 8)):
        _drop(vector_item(walk, SLOTS, SLOT_BYTES, i) + SLOT_GRAD)
    for i in range(load_i64(walk, LEAVES + 8)):
        _drop(vector_item(walk, LEAVES, LEAF_BYTES, i) + LEAF_GRAD)
        _drop(vector_item(walk, LEAVES, LEAF_BYTES, i) + LEAF_TENSOR)
    for i in range(load_i64(walk, EDGES + 8)):
        _drop(vector_item(walk, EDGES, EDGE_BYTES, i) + EDGE_TENSOR)
    for i in range(load_i64(walk, ORDER + 8) - 1, -1, -1):
        _drop(vector_item(walk, RECORDS, RECORD_BYTES, load_i64(vector_item(walk, ORDER, 8, i), 0)) + RECORD_INPUTS)
    for i in range(load_i64(walk, RECORDS + 8)):
        record = vector_item(walk, RECORDS, RECORD_BYTES, i)
        _drop(record + RECORD_INPUTS)
        _drop(record + RECORD_FACTS)
        _drop(record + RECORD_OP)
        _drop(record + RECORD_OF)
    for vector in range(7):
        PyMem_RawFree(load_ptr(walk, 24 * vector))
    PyMem_RawFree(load_ptr(walk, TABLE))


def _drop(place: ptr) -> None:
    held = load_ptr(place, 0)
    if held:
        store_ptr(place, 0, ptr(0))
        let_go(held)
