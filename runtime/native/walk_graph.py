"""The graph of a walk backwards: the nodes that its roots depend on, last executed first, and where gradients flow.

Whatever the plain walk does not know (hooks, most nodes that stand for several operations) makes it stand back:
functions here give -1 then, and where they have set an exception.
"""

from __future__ import annotations

from eagerjit.runtime.native.agreed import KIND_CALL, KIND_GRADIENT, KIND_OP, KIND_STRANGE
from eagerjit.runtime.native.context import (
    ARRAY_DIMS,
    ARRAY_NDIM,
    CALL_KNOWN,
    FACTS_PARTS,
    GRADIENTS_HIDDEN,
    GRADIENTS_INNER,
    INDEX,
    NODE,
    NODE_HOOKS,
    NODE_INPUTS,
    NODE_OP,
    NODE_OUTPUT,
    NODE_REPLACED,
    NODE_SEQUENCE,
    NONE,
    OBJECT_TYPE,
    REQUIRES_GRAD,
    TRUE,
    WALKER_FACTS_NAME,
    WALKER_IS_WHOLE,
    WALKER_KIND_OF,
    WALKER_KINDS,
    WALKER_LEARN,
    context,
)
from eagerjit.runtime.native.language import (
    external,
    external_data,
    i64,
    load_i32,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.objects import any_array_of, hold, is_tensor, let_go
from eagerjit.runtime.native.walk_memory import (
    CREATE_GRAPH,
    EDGE_BYTES,
    EDGE_KEPT,
    EDGE_PART,
    EDGE_POSITION,
    EDGE_SLOT,
    EDGE_TARGET,
    EDGE_TENSOR,
    EDGES,
    HEAP,
    LEAF_BYTES,
    LEAF_TENSOR,
    LEAF_WANTED,
    LEAVES,
    ORDER,
    PARTS,
    RECORD_BYTES,
    RECORD_COUNT,
    RECORD_EDGES,
    RECORD_FACTS,
    RECORD_INPUTS,
    RECORD_IS_CALL,
    RECORD_LEADS,
    RECORD_N_EDGES,
    RECORD_OF,
    RECORD_OP,
    RECORD_SEQUENCE,
    RECORD_SLOT,
    RECORDS,
    SLOT_BYTES,
    SLOT_WANTED,
    SLOTS,
    TARGETS,
    asked,
    enter,
    find,
    pop,
    push,
    vector_add,
    vector_item,
)

PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyList_Size = external("i64 PyList_Size(ptr)")
PyList_GetItem = external("ptr PyList_GetItem(ptr, i64)")
PyLong_AsLongLong = external("i64 PyLong_AsLongLong(ptr)")
PyObject_GetAttr = external("ptr PyObject_GetAttr(ptr, ptr)")
PyObject_CallOneArg = external("ptr PyObject_CallOneArg(ptr, ptr)")
PyDict_GetItem = external("ptr PyDict_GetItem(ptr, ptr)")
PyTuple_Type = external_data("PyTuple_Type")
PyList_Type = external_data("PyList_Type")
PyLong_Type = external_data("PyLong_Type")

FEW = 4096  # elements of a tensor up to which Python, too, adds up gradients of its slices one by one


# -- nodes ------------------------------------------------------------------------------------------------------------


def node_slot(node: ptr, offset: i64) -> ptr:
    """What a node has in the context's slot (borrowed)."""
    return load_ptr(node, load_i64(context, offset))


def _kind_of(walk: ptr, op: ptr) -> i64:
    """What kind of operation stands on the tape; -1 with an exception set."""
    kind = load_ptr(op, OBJECT_TYPE)
    known = PyDict_GetItem(asked(walk, WALKER_KINDS), kind)
    if known:
        return PyLong_AsLongLong(known)
    known = PyObject_CallOneArg(asked(walk, WALKER_KIND_OF), kind)
    if known == 0:
        return -1
    found = PyLong_AsLongLong(known)
    let_go(known)
    return found


def _facts_of(walk: ptr, op: ptr) -> ptr:
    """A new reference to the facts of an Op, learnt at the first need; null with an exception set."""
    facts = PyObject_GetAttr(op, asked(walk, WALKER_FACTS_NAME))
    if facts == load_ptr(context, NONE):
        let_go(facts)
        facts = PyObject_CallOneArg(asked(walk, WALKER_LEARN), op)
    return facts


def _known_of(op: ptr) -> ptr:
    """What native code knows of the gradients of a compiled call; null where it is told nothing."""
    offset = load_i64(context, CALL_KNOWN)
    known = load_ptr(op, offset) if offset else ptr(0)
    return ptr(0) if known == load_ptr(context, NONE) else known


def _is_plain_call(walk: ptr, op: ptr, kind: i64) -> bool:
    """Whether a walk goes through a compiled call as a whole, as nothing inside of it is wanted, or through its
    gradient, which a walk that records takes apart."""
    if kind == KIND_GRADIENT:
        return load_ptr(walk, CREATE_GRAPH) != load_ptr(context, TRUE)
    if load_ptr(walk, TARGETS) == load_ptr(context, NONE):
        return 1
    known = _known_of(op)
    if known:
        return load_i64(known, GRADIENTS_INNER) == 0
    whole = PyObject_CallOneArg(asked(walk, WALKER_IS_WHOLE), op)
    if whole:
        let_go(whole)
    return whole == load_ptr(context, TRUE)


def _meet(walk: ptr, node: ptr) -> i64:
    """The record of a node; -1 where the plain walk does not know what to do with it."""
    known = find(walk, node)
    if known >= 0:
        return known
    sequence = node_slot(node, NODE_SEQUENCE)
    op = node_slot(node, NODE_OP)
    if load_ptr(sequence, OBJECT_TYPE) != PyLong_Type or node_slot(node, NODE_HOOKS) != load_ptr(context, NONE):
        return -1
    kind = _kind_of(walk, op)
    is_call = kind == KIND_CALL or kind == KIND_GRADIENT
    if kind <= KIND_STRANGE or (is_call and not _is_plain_call(walk, op, kind)):
        return -1
    facts: ptr = 0
    if kind == KIND_OP:
        facts = _facts_of(walk, op)
        if facts == 0:
            return -1
    index = vector_add(walk, RECORDS, RECORD_BYTES)
    if index < 0:
        if facts:
            let_go(facts)
        return -1
    record = vector_item(walk, RECORDS, RECORD_BYTES, index)
    hold(node)
    store_ptr(record, RECORD_OF, node)
    hold(op)
    store_ptr(record, RECORD_OP, op)
    store_ptr(record, RECORD_FACTS, facts)
    store_i64(record, RECORD_SEQUENCE, PyLong_AsLongLong(sequence))
    store_i64(record, RECORD_IS_CALL, kind if is_call else 0)
    inputs = node_slot(node, NODE_INPUTS)
    if inputs != load_ptr(context, NONE):
        if load_ptr(inputs, OBJECT_TYPE) != PyTuple_Type:
            return -1
        hold(inputs)
        store_ptr(record, RECORD_INPUTS, inputs)
    output = node_slot(node, NODE_OUTPUT)
    count = PyTuple_Size(output) if load_ptr(output, OBJECT_TYPE) == PyTuple_Type else -1
    known = _known_of(op) if kind == KIND_CALL and count >= 0 else ptr(0)
    if known:
        count += load_i64(known, GRADIENTS_HIDDEN)
    store_i64(record, RECORD_COUNT, count)
    store_i64(record, RECORD_SLOT, load_i64(walk, SLOTS + 8))
    for _i in range(count if count >= 0 else 1):
        if vector_add(walk, SLOTS, SLOT_BYTES) < 0:
            return -1
    if enter(walk, node, index) < 0 or push(walk, load_i64(record, RECORD_SEQUENCE), index) < 0:
        return -1
    return index


def _meet_leaf(walk: ptr, tensor: ptr) -> i64:
    """The index of a leaf; -1 without memory."""
    known = find(walk, tensor)
    if known >= 0:
        return known
    index = vector_add(walk, LEAVES, LEAF_BYTES)
    if index < 0 or enter(walk, tensor, index) < 0:
        return -1
    hold(tensor)
    store_ptr(vector_item(walk, LEAVES, LEAF_BYTES, index), LEAF_TENSOR, tensor)
    return index


# -- edges ------------------------------------------------------------------------------------------------------------


def slot_of(walk: ptr, record: i64, tensor: ptr) -> i64:
    """Where gradients of a result of this node are."""
    at = vector_item(walk, RECORDS, RECORD_BYTES, record)
    slot = load_i64(at, RECORD_SLOT)
    if load_i64(at, RECORD_COUNT) >= 0:
        slot += PyLong_AsLongLong(load_ptr(tensor, load_i64(context, INDEX)))
    return slot


def _end_of_slots(walk: ptr, record: i64) -> i64:
    """The slot behind those for gradients of a node's results."""
    at = vector_item(walk, RECORDS, RECORD_BYTES, record)
    count = load_i64(at, RECORD_COUNT)
    return load_i64(at, RECORD_SLOT) + (count if count >= 0 else 1)


def edge_to(walk: ptr, tensor: ptr, position: i64, part: i64) -> i64:
    """Adds an edge to a tensor; -1 where the walk has to stand back."""
    none = load_ptr(context, NONE)
    node = load_ptr(tensor, load_i64(context, NODE))
    slot = 0
    if node == none:
        target = _meet_leaf(walk, tensor)
        if target < 0:
            return -1
        target = -1 - target
    else:
        target = _meet(walk, node)
        if target < 0:
            return -1
        slot = slot_of(walk, target, tensor)
        if slot >= _end_of_slots(walk, target):
            return -1
    edge = vector_add(walk, EDGES, EDGE_BYTES)
    if edge < 0:
        return -1
    at = vector_item(walk, EDGES, EDGE_BYTES, edge)
    hold(tensor)
    store_ptr(at, EDGE_TENSOR, tensor)
    store_i64(at, EDGE_POSITION, position)
    store_i64(at, EDGE_PART, part)
    store_i64(at, EDGE_TARGET, target)
    store_i64(at, EDGE_SLOT, slot)
    store_i64(at, EDGE_KEPT, 1)
    return 0


def _edge_from(walk: ptr, sequence: i64, tensor: ptr, position: i64, part: i64) -> i64:
    """Adds the edge to an input as it was when it was read, if a gradient flows to it; -1 as above."""
    none = load_ptr(context, NONE)
    needing = load_i64(context, REQUIRES_GRAD)
    if load_ptr(tensor, needing) == 0:
        return -1  # a tensor of parts, whose place on the tape is that of its values
    if load_ptr(tensor, needing) != load_ptr(context, TRUE):
        return 0
    while True:
        node = load_ptr(tensor, load_i64(context, NODE))
        if node == none:
            break
        made = node_slot(node, NODE_SEQUENCE)
        if load_ptr(made, OBJECT_TYPE) != PyLong_Type:
            return -1
        if PyLong_AsLongLong(made) <= sequence:
            break
        tensor = node_slot(node, NODE_REPLACED)
        if tensor == none:
            return 0
    if load_ptr(tensor, needing) != load_ptr(context, TRUE):
        return 0
    return edge_to(walk, tensor, position, part)


def _edges_of(walk: ptr, index: i64) -> i64:
    """Adds the edges of a node; -1 as above."""
    record = vector_item(walk, RECORDS, RECORD_BYTES, index)
    first = load_i64(walk, EDGES + 8)
    store_i64(record, RECORD_EDGES, first)
    inputs = load_ptr(record, RECORD_INPUTS)
    sequence = load_i64(record, RECORD_SEQUENCE)
    if inputs == 0:
        return 0
    for i in range(PyTuple_Size(inputs)):
        x = PyTuple_GetItem(inputs, i)
        status = 0
        if is_tensor(x):
            status = _edge_from(walk, sequence, x, i, -1)
        elif load_ptr(x, OBJECT_TYPE) == PyTuple_Type:
            for k in range(PyTuple_Size(x)):
                if status == 0 and is_tensor(PyTuple_GetItem(x, k)):
                    status = _edge_from(walk, sequence, PyTuple_GetItem(x, k), i, k)
        elif load_ptr(x, OBJECT_TYPE) == PyList_Type:
            for k in range(PyList_Size(x)):
                if status == 0 and is_tensor(PyList_GetItem(x, k)):
                    status = _edge_from(walk, sequence, PyList_GetItem(x, k), i, k)
        if status < 0:
            return -1
    record = vector_item(walk, RECORDS, RECORD_BYTES, index)
    store_i64(record, RECORD_N_EDGES, load_i64(walk, EDGES + 8) - first)
    facts = load_ptr(record, RECORD_FACTS)
    if facts and load_i64(facts, FACTS_PARTS) and _size(PyTuple_GetItem(inputs, 0)) > FEW:
        store_i64(walk, PARTS, load_i64(walk, PARTS) + 1)
    return 0


def _size(tensor: ptr) -> i64:
    """How many elements a tensor has."""
    array = any_array_of(tensor)
    size = 1
    for axis in range(load_i32(array, ARRAY_NDIM) if array else 0):
        size *= load_i64(load_ptr(array, ARRAY_DIMS), 8 * axis)
    return size


def _first_wanted(targets: ptr) -> i64:
    """The place of the node executed first of those whose results are targets; -1 with a leaf among them."""
    earliest = -1
    for i in range(PyList_Size(targets)):
        node = load_ptr(PyList_GetItem(targets, i), load_i64(context, NODE))
        if node == load_ptr(context, NONE) or load_ptr(node_slot(node, NODE_SEQUENCE), OBJECT_TYPE) != PyLong_Type:
            return -1
        sequence = PyLong_AsLongLong(node_slot(node, NODE_SEQUENCE))
        if i == 0 or sequence < earliest:
            earliest = sequence
    return earliest


def collect(walk: ptr, roots: ptr) -> i64:
    """Finds all that the roots depend on, to each of which the first edges lead; -1 where the walk stands back.

    Without targets (None) that is all, with targets what was executed after the first of them.
    """
    targets = load_ptr(walk, TARGETS)
    earliest = _first_wanted(targets) if targets != load_ptr(context, NONE) else -1
    for i in range(PyList_Size(roots)):
        if edge_to(walk, PyList_GetItem(roots, i), i, -1) < 0:
            return -1
    while load_i64(walk, HEAP + 8) > 0:
        record = pop(walk)
        if load_i64(vector_item(walk, RECORDS, RECORD_BYTES, record), RECORD_SEQUENCE) <= earliest:
            break
        at = vector_add(walk, ORDER, 8)
        if at < 0 or _edges_of(walk, record) < 0:
            return -1
        store_i64(vector_item(walk, ORDER, 8, at), 0, record)
    return 0


def keep_relevant(walk: ptr) -> None:
    """Keeps the edges that lead to what is wanted."""
    for i in range(load_i64(walk, ORDER + 8) - 1, -1, -1):
        record = vector_item(walk, RECORDS, RECORD_BYTES, load_i64(vector_item(walk, ORDER, 8, i), 0))
        leads = load_ptr(record, RECORD_INPUTS) == 0
        for k in range(load_i64(record, RECORD_N_EDGES)):
            edge = vector_item(walk, EDGES, EDGE_BYTES, load_i64(record, RECORD_EDGES) + k)
            target = load_i64(edge, EDGE_TARGET)
            if target < 0:
                kept = load_i64(vector_item(walk, LEAVES, LEAF_BYTES, -1 - target), LEAF_WANTED)
            else:
                kept = load_i64(vector_item(walk, RECORDS, RECORD_BYTES, target), RECORD_LEADS)
                kept |= load_i64(vector_item(walk, SLOTS, SLOT_BYTES, load_i64(edge, EDGE_SLOT)), SLOT_WANTED)
            store_i64(edge, EDGE_KEPT, kept)
            leads |= kept
        store_i64(record, RECORD_LEADS, leads)
