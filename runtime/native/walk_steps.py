"""One node of a walk backwards: what has reached it, its gradients, and what these are added to."""

from __future__ import annotations

from eagerjit.runtime.native.context import (
    FACTS_FUSED,
    FACTS_GRADIENTS,
    GRADIENT_BYTES,
    GRADIENT_CALL,
    GRADIENT_NEEDS,
    GRADIENT_PRESENT,
    GRADIENT_READS,
    NODE_OUTPUT,
    NONE,
    TRUE,
    WALKER_BESIDE,
    WALKER_CHECK,
    WALKER_FILL,
    WALKER_GRADIENTS,
    WALKER_LEARN_GRADIENT,
    WALKER_USED_UP,
    context,
)
from eagerjit.runtime.native.entry import PyObject_Vectorcall
from eagerjit.runtime.native.language import buffer, external, i64, load_i64, load_ptr, ptr, store_i64, store_ptr
from eagerjit.runtime.native.objects import array_of, hold, let_go, tensor_over
from eagerjit.runtime.native.walk_freshness import is_fresh, is_used_up
from eagerjit.runtime.native.walk_graph import node_slot
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
    LEAF_BYTES,
    LEAF_GRAD,
    LEAF_LAST,
    LEAVES,
    REACHED,
    RECORD_COUNT,
    RECORD_EDGES,
    RECORD_FACTS,
    RECORD_INPUTS,
    RECORD_N_EDGES,
    RECORD_OF,
    RECORD_OP,
    RECORD_SLOT,
    RECORD_UNREACHED,
    SLOT_BYTES,
    SLOT_GRAD,
    SLOT_WANTED,
    SLOTS,
    asked,
    succeeded,
    vector_add,
    vector_item,
)
from eagerjit.runtime.native.walk_parts import add_part, begin_parts, place_of_whole

PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_SetItem = external("i32 PyTuple_SetItem(ptr, i64, ptr)")
PySequence_GetItem = external("ptr PySequence_GetItem(ptr, i64)")
PySet_Add = external("i32 PySet_Add(ptr, ptr)")
PyBool_FromLong = external("ptr PyBool_FromLong(i64)")
PyLong_FromVoidPtr = external("ptr PyLong_FromVoidPtr(ptr)")
PyNumber_Add = external("ptr PyNumber_Add(ptr, ptr)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")
PyErr_Occurred = external("ptr PyErr_Occurred()")

MOST_ARGUMENTS = 30  # of an operation whose gradient is called natively


# -- gradients that reach a tensor ------------------------------------------------------------------------------------


def deposit(walk: ptr, edge_index: i64, grad: ptr) -> i64:
    """Adds a gradient, of which it takes over the reference, to what has reached an edge's tensor; -1 on failure."""
    edge = vector_item(walk, EDGES, EDGE_BYTES, edge_index)
    tensor = load_ptr(edge, EDGE_TENSOR)
    target = load_i64(edge, EDGE_TARGET)
    slot = load_i64(edge, EDGE_SLOT)
    if array_of(grad) == 0 or array_of(tensor) == 0:
        placed = PyObject_CallFunctionObjArgs(asked(walk, WALKER_BESIDE), grad, tensor, ptr(0))
        let_go(grad)
        if placed == 0:
            return -1
        grad = placed
    if target < 0:
        leaf = -1 - target
        at = vector_add(walk, REACHED, 8)
        if at < 0:
            let_go(grad)
            return -1
        store_i64(vector_item(walk, REACHED, 8, at), 0, leaf)
        store_i64(vector_item(walk, LEAVES, LEAF_BYTES, leaf), LEAF_LAST, at)
        place = vector_item(walk, LEAVES, LEAF_BYTES, leaf) + LEAF_GRAD
    else:
        place = vector_item(walk, SLOTS, SLOT_BYTES, slot) + SLOT_GRAD
    known = load_ptr(place, 0)
    if known == 0:
        store_ptr(place, 0, grad)
        return 0
    total = PyNumber_Add(known, grad)
    let_go(grad)
    if total == 0:
        return -1
    store_ptr(place, 0, total)
    let_go(known)
    return 0


def _note_shared(shared: ptr, grad: ptr) -> i64:
    """Notes that a gradient's memory may be another one's; -1 on failure."""
    number = PyLong_FromVoidPtr(grad)
    if number == 0:
        return -1
    status = PySet_Add(shared, number)
    let_go(number)
    return status


def _hand_on(walk: ptr, edge: i64, grad: ptr, incoming: ptr, n: i64, shared: ptr) -> i64:
    """Deposits a result (borrowed) that may be a gradient that came in; -1 on failure."""
    if grad == load_ptr(context, NONE):
        return 0
    for i in range(n):
        if load_ptr(incoming, 8 * i) == grad and _note_shared(shared, grad) != 0:
            return -1
    hold(grad)
    return deposit(walk, edge, grad)


# -- one node ---------------------------------------------------------------------------------------------------------


def take_incoming(walk: ptr, record: ptr) -> ptr:
    """A new tuple of the gradients that reached a node's results, None for those that none reached; null for none."""
    count = load_i64(record, RECORD_COUNT)
    slots = vector_item(walk, SLOTS, SLOT_BYTES, load_i64(record, RECORD_SLOT))
    n = count if count >= 0 else 1
    reached = 0
    for i in range(n):
        reached |= load_ptr(slots, SLOT_BYTES * i + SLOT_GRAD) != 0
    if reached == 0:
        return 0
    incoming = PyTuple_New(n)
    if incoming == 0:
        return 0
    for i in range(n):
        slot = slots + SLOT_BYTES * i
        grad = load_ptr(slot, SLOT_GRAD)
        if grad == 0:
            grad = load_ptr(context, NONE)
            hold(grad)
        elif load_i64(slot, SLOT_WANTED):
            hold(grad)
        else:
            store_ptr(slot, SLOT_GRAD, ptr(0))
        PyTuple_SetItem(incoming, i, grad)
    return incoming


def _filled(walk: ptr, record: ptr, incoming: ptr) -> ptr:
    """Gradients (taken over) of several results, those that are absent made by Python; null on failure."""
    none = load_ptr(context, NONE)
    for i in range(PyTuple_Size(incoming)):
        if PyTuple_GetItem(incoming, i) == none:
            node = load_ptr(record, RECORD_OF)
            whole = PyObject_CallFunctionObjArgs(asked(walk, WALKER_FILL), node, incoming, ptr(0))
            let_go(incoming)
            return whole
    return incoming


def _needs(walk: ptr, record: ptr) -> i64:
    """A bit for each input that needs a gradient; -1 where some have none, or where items of an input need one."""
    if PyTuple_Size(load_ptr(record, RECORD_INPUTS)) > MOST_ARGUMENTS:
        return -1
    needs = 0
    for k in range(load_i64(record, RECORD_N_EDGES)):
        edge = vector_item(walk, EDGES, EDGE_BYTES, load_i64(record, RECORD_EDGES) + k)
        if load_i64(edge, EDGE_PART) >= 0:
            return -1
        if load_i64(edge, EDGE_KEPT):
            needs |= 1 << load_i64(edge, EDGE_POSITION)
    return needs


def needed_flags(walk: ptr, record: ptr) -> ptr:
    """A new tuple of bools: which inputs need a gradient; null on failure."""
    n = PyTuple_Size(load_ptr(record, RECORD_INPUTS))
    flags = PyTuple_New(n)
    if flags == 0:
        return 0
    for i in range(n):
        PyTuple_SetItem(flags, i, PyBool_FromLong(0))
    for k in range(load_i64(record, RECORD_N_EDGES)):
        edge = vector_item(walk, EDGES, EDGE_BYTES, load_i64(record, RECORD_EDGES) + k)
        if load_i64(edge, EDGE_KEPT):
            PyTuple_SetItem(flags, load_i64(edge, EDGE_POSITION), PyBool_FromLong(1))
    return flags


def _known_gradient(facts: ptr, needs: i64) -> ptr:
    """The gradient for these inputs; null where none is known."""
    table = load_ptr(facts, FACTS_GRADIENTS)
    if table == 0:
        return 0
    for i in range(load_i64(table, 0)):
        entry = table + 8 + GRADIENT_BYTES * i
        if load_i64(entry, GRADIENT_NEEDS) == needs:
            return entry
    return 0


def _gradient(walk: ptr, record: ptr, needs: i64) -> ptr:
    """The gradient of an Op for these inputs, learnt at the first need; null with an exception set, or without."""
    known = _known_gradient(load_ptr(record, RECORD_FACTS), needs)
    if known:
        return known
    flags = needed_flags(walk, record)
    if flags == 0:
        return 0
    op = load_ptr(record, RECORD_OP)
    learnt = PyObject_CallFunctionObjArgs(asked(walk, WALKER_LEARN_GRADIENT), op, flags, ptr(0))
    let_go(flags)
    return _known_gradient(load_ptr(record, RECORD_FACTS), needs) if succeeded(learnt) == 0 else ptr(0)


def _called(record: ptr, gradient: ptr, incoming: ptr) -> ptr:
    """What a gradient gives, a new reference; null on failure."""
    none = load_ptr(context, NONE)
    arguments = buffer(8 * (MOST_ARGUMENTS + 2))
    inputs = load_ptr(record, RECORD_INPUTS)
    n = PyTuple_Size(inputs)
    output = none
    if load_i64(gradient, GRADIENT_READS):
        data = node_slot(load_ptr(record, RECORD_OF), NODE_OUTPUT)
        hold(data)
        output = tensor_over(data)
        if output == 0:
            return 0
    else:
        hold(none)
    store_ptr(arguments, 0, PyTuple_GetItem(incoming, 0))
    store_ptr(arguments, 8, output)
    for i in range(n):
        store_ptr(arguments, 16 + 8 * i, PyTuple_GetItem(inputs, i))
    call = load_ptr(gradient, GRADIENT_CALL)
    hold(call)
    result = PyObject_Vectorcall(call, arguments, n + 2, ptr(0))
    let_go(call)
    let_go(output)
    return result


def _bits_below(word: i64, position: i64) -> i64:
    """How many of the bits before a position are set."""
    rest = word & ((1 << position) - 1)
    count = 0
    while rest:
        rest &= rest - 1
        count += 1
    return count


def _through_program(walk: ptr, record: ptr, gradient: ptr, incoming: ptr, shared: ptr) -> i64:
    """Hands on the gradients of a node by the Program that computes them all; -1 on failure."""
    present = load_i64(gradient, GRADIENT_PRESENT)
    result = _called(record, gradient, incoming)
    if result == 0:
        return -1
    given = buffer(8)
    store_ptr(given, 0, PyTuple_GetItem(incoming, 0))
    status = 0
    for k in range(load_i64(record, RECORD_N_EDGES)):
        at = load_i64(record, RECORD_EDGES) + k
        edge = vector_item(walk, EDGES, EDGE_BYTES, at)
        position = load_i64(edge, EDGE_POSITION)
        if status != 0 or load_i64(edge, EDGE_KEPT) == 0 or (present >> position) & 1 == 0:
            continue
        grad = result
        if present & (present - 1):
            grad = PyTuple_GetItem(result, _bits_below(present, position))
        status = _hand_on(walk, at, grad, given, 1, shared)
    let_go(result)
    return status


def _through_python(walk: ptr, record: ptr, incoming: ptr, shared: ptr) -> i64:
    """Hands on the gradients of a node as Python computes them; -1 on failure."""
    none = load_ptr(context, NONE)
    flags = needed_flags(walk, record)
    if flags == 0:
        return -1
    node = load_ptr(record, RECORD_OF)
    function = asked(walk, WALKER_GRADIENTS)
    create_graph = load_ptr(walk, CREATE_GRAPH)
    results = PyObject_CallFunctionObjArgs(function, node, incoming, flags, create_graph, shared, ptr(0))
    let_go(flags)
    if results == 0:
        return -1
    n = PyTuple_Size(incoming)
    given = buffer(8 * 64)
    for i in range(n if n <= 64 else 64):
        store_ptr(given, 8 * i, PyTuple_GetItem(incoming, i))
    status = 0
    for k in range(load_i64(record, RECORD_N_EDGES)):
        at = load_i64(record, RECORD_EDGES) + k
        edge = vector_item(walk, EDGES, EDGE_BYTES, at)
        if status != 0 or load_i64(edge, EDGE_KEPT) == 0:
            continue
        part = load_i64(edge, EDGE_PART)
        grad = PySequence_GetItem(results, load_i64(edge, EDGE_POSITION))
        if grad and part >= 0 and grad != none:
            whole = grad
            grad = PySequence_GetItem(whole, part)
            let_go(whole)
        status = _hand_on(walk, at, grad, given, n if part < 0 and n <= 64 else 0, shared) if grad else -1
        if grad:
            let_go(grad)
    let_go(results)
    return status


def go_through(walk: ptr, record: ptr, shared: ptr) -> i64:
    """Hands on the gradients of one node; -1 on failure."""
    incoming = take_incoming(walk, record)
    if incoming == 0:
        store_i64(record, RECORD_UNREACHED, 1)
        return -1 if PyErr_Occurred() else 0
    node = load_ptr(record, RECORD_OF)
    several = load_i64(record, RECORD_COUNT) >= 0
    if several:
        incoming = _filled(walk, record, incoming)
        if incoming == 0:
            return -1
    status = 0
    if is_used_up(record):
        status = succeeded(PyObject_CallFunctionObjArgs(asked(walk, WALKER_USED_UP), node, ptr(0)))
    elif not is_fresh(walk, record):
        flags = needed_flags(walk, record)
        status = -1
        if flags:
            status = succeeded(PyObject_CallFunctionObjArgs(asked(walk, WALKER_CHECK), node, flags, ptr(0)))
            let_go(flags)
    if status == 0:
        status = add_part(walk, record, incoming)
    if status == 0:
        first = place_of_whole(walk, record)
        facts = load_ptr(record, RECORD_FACTS)
        plain = load_ptr(walk, CREATE_GRAPH) != load_ptr(context, TRUE) and not several and facts != 0
        needs = _needs(walk, record) if plain and load_i64(facts, FACTS_FUSED) else -1
        gradient = _gradient(walk, record, needs) if needs > 0 else ptr(0)
        if gradient:
            status = _through_program(walk, record, gradient, incoming, shared)
        elif PyErr_Occurred():
            status = -1
        elif needs != 0:
            status = _through_python(walk, record, incoming, shared)
        if status == 0 and first:
            status = begin_parts(walk, record, first, incoming)
    let_go(incoming)
    return -1 if status < 0 else 0
