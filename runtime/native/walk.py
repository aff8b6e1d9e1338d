"""The plain walk backwards: what the engine (`eagerjit/autograd/engine.py`) does where nothing is recorded, no node has
hooks, and those that stand for several operations are compiled calls that are gone through as a whole.

Per node native code knows which Program its gradient is (`runtime/walking.py`); what it does not know it asks Python
for, node by node. It stands back, with NotImplemented and before anything has been computed, from what is not plain.
"""

from __future__ import annotations

from eagerjit.runtime.native.context import (
    ARRAY_BASE,
    ARRAY_FLAGS,
    CONTIGUOUS_FLAG,
    FACTS_N_SAVED,
    FACTS_SAVED,
    GRAD,
    HOOKS,
    NODE,
    NODE_INPUTS,
    NODE_OUTPUT,
    NONE,
    OBJECT_REFERENCES,
    OBJECT_TYPE,
    REQUIRES_GRAD,
    RESULTS,
    TRUE,
    WALKER_HOOKED,
    WALKER_LIGHTEN,
    WALKER_SAVES,
    WALKER_TO_LEAF,
    context,
)
from eagerjit.runtime.native.language import (
    buffer,
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
from eagerjit.runtime.native.objects import array_of, hold, is_tensor, let_go, replace_slot
from eagerjit.runtime.native.walk_calls import call_lasts
from eagerjit.runtime.native.walk_graph import collect, keep_relevant, slot_of
from eagerjit.runtime.native.walk_joined import go_through_calls
from eagerjit.runtime.native.walk_memory import (
    CALLS,
    CREATE_GRAPH,
    EDGE_BYTES,
    EDGE_TARGET,
    EDGES,
    LEAF_BYTES,
    LEAF_GRAD,
    LEAF_LAST,
    LEAF_TENSOR,
    LEAF_WANTED,
    LEAVES,
    ORDER,
    PLACED,
    REACHED,
    RECORD_BYTES,
    RECORD_EDGES,
    RECORD_FACTS,
    RECORD_GONE,
    RECORD_INPUTS,
    RECORD_IS_CALL,
    RECORD_LEADS,
    RECORD_N_EDGES,
    RECORD_OF,
    RECORD_OP,
    RECORD_UNREACHED,
    RECORDS,
    SLOT_BYTES,
    SLOT_WANTED,
    SLOTS,
    TARGETS,
    WALK_BYTES,
    asked,
    begin,
    find,
    finish,
    succeeded,
    vector_item,
)
from eagerjit.runtime.native.walk_steps import deposit, go_through

PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyList_Size = external("i64 PyList_Size(ptr)")
PyList_GetItem = external("ptr PyList_GetItem(ptr, i64)")
PyTuple_Type = external_data("PyTuple_Type")
PyList_Type = external_data("PyList_Type")
PyList_New = external("ptr PyList_New(i64)")
PyList_SetItem = external("i32 PyList_SetItem(ptr, i64, ptr)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")
PyErr_Occurred = external("ptr PyErr_Occurred()")
Py_NotImplementedStruct = external_data("_Py_NotImplementedStruct")

# -- the end ----------------------------------------------------------------------------------------------------------


def _is_own(grad: ptr, leaf: ptr) -> bool:
    """Whether nobody else holds a gradient or its memory, and that and its leaf's lie in row-major order."""
    if load_i32(grad, OBJECT_REFERENCES) != 1 or load_ptr(grad, load_i64(context, NODE)) != load_ptr(context, NONE):
        return 0
    array = array_of(grad)
    if array == 0 or load_ptr(array, ARRAY_BASE) != 0 or load_i32(array, OBJECT_REFERENCES) != 1:
        return 0
    of_leaf = array_of(leaf)
    if of_leaf == 0 or load_i32(of_leaf, ARRAY_FLAGS) & CONTIGUOUS_FLAG == 0:
        return 0
    return load_i32(array, ARRAY_FLAGS) & CONTIGUOUS_FLAG != 0


def _to_leaves(walk: ptr, shared: ptr) -> i64:
    """Adds what has reached the leaves to their `.grad`, in the order in which it reached them last; -1 on failure."""
    none = load_ptr(context, NONE)
    create_graph = load_ptr(walk, CREATE_GRAPH)
    plain = create_graph != load_ptr(context, TRUE)
    for at in range(load_i64(walk, REACHED + 8)):
        index = load_i64(vector_item(walk, REACHED, 8, at), 0)
        leaf = vector_item(walk, LEAVES, LEAF_BYTES, index)
        if load_i64(leaf, LEAF_LAST) != at:
            continue
        tensor = load_ptr(leaf, LEAF_TENSOR)
        grad = load_ptr(leaf, LEAF_GRAD)
        unhooked = plain and load_ptr(tensor, load_i64(context, HOOKS)) == none
        if unhooked and load_ptr(tensor, load_i64(context, GRAD)) == none and _is_own(grad, tensor):
            replace_slot(tensor, load_i64(context, GRAD), grad)
            continue
        function = asked(walk, WALKER_TO_LEAF)
        if succeeded(PyObject_CallFunctionObjArgs(function, tensor, grad, shared, create_graph, ptr(0))) != 0:
            return -1
    return 0


def _want(walk: ptr, targets: ptr) -> None:
    """Marks the tensors whose gradients are wanted."""
    for i in range(PyList_Size(targets)):
        place = _gradient_of(walk, PyList_GetItem(targets, i))
        if place:
            store_i64(place, SLOT_WANTED, 1)


def _gradient_of(walk: ptr, tensor: ptr) -> ptr:
    """Where the gradient of a tensor is, and then whether it is wanted; null for one that the walk has not met."""
    node = load_ptr(tensor, load_i64(context, NODE))
    if node == load_ptr(context, NONE):
        leaf = find(walk, tensor)
        return vector_item(walk, LEAVES, LEAF_BYTES, leaf) + LEAF_GRAD if leaf >= 0 else ptr(0)
    record = find(walk, node)
    return vector_item(walk, SLOTS, SLOT_BYTES, slot_of(walk, record, tensor)) if record >= 0 else ptr(0)


def _found(walk: ptr, targets: ptr) -> ptr:
    """A new list of the gradients of the targets, those of leaves as their hooks give them; null on failure."""
    none = load_ptr(context, NONE)
    for at in range(load_i64(walk, REACHED + 8)):
        leaf = vector_item(walk, LEAVES, LEAF_BYTES, load_i64(vector_item(walk, REACHED, 8, at), 0))
        tensor = load_ptr(leaf, LEAF_TENSOR)
        if load_i64(leaf, LEAF_WANTED) != 1 or load_ptr(tensor, load_i64(context, HOOKS)) == none:
            continue
        store_i64(leaf, LEAF_WANTED, 2)
        before = load_ptr(leaf, LEAF_GRAD)
        seen = PyObject_CallFunctionObjArgs(asked(walk, WALKER_HOOKED), tensor, before, ptr(0))
        if seen == 0:
            return 0
        store_ptr(leaf, LEAF_GRAD, seen)
        let_go(before)
    n = PyList_Size(targets)
    found = PyList_New(n)
    for i in range(n if found else 0):
        place = _gradient_of(walk, PyList_GetItem(targets, i))
        grad = load_ptr(place, 0) if place else ptr(0)
        grad = grad if grad else none
        hold(grad)
        PyList_SetItem(found, i, grad)
    return found


# -- what is left -----------------------------------------------------------------------------------------------------


def _holds_tensors(value: ptr) -> bool:
    if load_ptr(value, OBJECT_TYPE) == PyTuple_Type:
        for i in range(PyTuple_Size(value)):
            if _holds_tensors(PyTuple_GetItem(value, i)):
                return 1
        return 0
    if load_ptr(value, OBJECT_TYPE) == PyList_Type:
        for i in range(PyList_Size(value)):
            if _holds_tensors(PyList_GetItem(value, i)):
                return 1
        return 0
    return is_tensor(value)


def _needs_gradient(value: ptr) -> bool:
    """Whether an argument, or an item of it, needs a gradient."""
    if load_ptr(value, OBJECT_TYPE) == PyTuple_Type:
        for i in range(PyTuple_Size(value)):
            if _needs_gradient(PyTuple_GetItem(value, i)):
                return 1
        return 0
    if load_ptr(value, OBJECT_TYPE) == PyList_Type:
        for i in range(PyList_Size(value)):
            if _needs_gradient(PyList_GetItem(value, i)):
                return 1
        return 0
    return is_tensor(value) and load_ptr(value, load_i64(context, REQUIRES_GRAD)) == load_ptr(context, TRUE)


def _saves(walk: ptr, record: ptr) -> i64:
    """Whether a node saves values for its gradient; -1 on failure."""
    inputs = load_ptr(record, RECORD_INPUTS)
    facts = load_ptr(record, RECORD_FACTS)
    if inputs == 0:
        return 1
    if facts == 0:
        answer = PyObject_CallFunctionObjArgs(asked(walk, WALKER_SAVES), load_ptr(record, RECORD_OP), ptr(0))
        return -1 if succeeded(answer) != 0 else answer == load_ptr(context, TRUE)
    n = PyTuple_Size(inputs)
    if load_i64(facts, FACTS_N_SAVED) < n:
        n = load_i64(facts, FACTS_N_SAVED)
        if n < 0:
            return 1
    read = 0
    for i in range(n):
        saved_words = load_i64(load_ptr(facts, FACTS_SAVED), 8 * i)
        if saved_words and _needs_gradient(PyTuple_GetItem(inputs, i)):
            read |= saved_words
    if read & RESULTS:
        return 1
    for i in range(PyTuple_Size(inputs) if read else 0):
        if (read >> i) & 1 and _holds_tensors(PyTuple_GetItem(inputs, i)):
            return 1
    return 0


def _lasts(walk: ptr, record: ptr) -> i64:
    """Whether a node saves no values and its gradients flow to none of those that are gone; -1 on failure."""
    saves = _saves(walk, record)
    if saves != 0:
        return -1 if saves < 0 else 0
    for k in range(load_i64(record, RECORD_N_EDGES)):
        target = load_i64(vector_item(walk, EDGES, EDGE_BYTES, load_i64(record, RECORD_EDGES) + k), EDGE_TARGET)
        if target >= 0 and load_i64(vector_item(walk, RECORDS, RECORD_BYTES, target), RECORD_GONE):
            return 0
    return 1


def _release(walk: ptr, all_nodes: bool) -> i64:
    """Drops the values of the nodes, and those as a whole that cannot be walked again (`release.py`); -1 on failure."""
    none = load_ptr(context, NONE)
    for i in range(load_i64(walk, ORDER + 8) - 1, -1, -1):
        record = vector_item(walk, RECORDS, RECORD_BYTES, load_i64(vector_item(walk, ORDER, 8, i), 0))
        if not all_nodes and load_i64(record, RECORD_LEADS) == 0:
            continue
        if load_i64(walk, CALLS) and load_i64(record, RECORD_UNREACHED):
            continue  # what a compiled call gives no gradient may depend on what the plain call's results do not
        node = load_ptr(record, RECORD_OF)
        is_call = load_i64(record, RECORD_IS_CALL)
        lasts = call_lasts(walk, i, record) if is_call else _lasts(walk, record)
        if lasts < 0:
            return -1
        if lasts:
            if not is_call and succeeded(PyObject_CallFunctionObjArgs(asked(walk, WALKER_LIGHTEN), node, ptr(0))) != 0:
                return -1
            continue
        store_i64(record, RECORD_GONE, 1)
        replace_slot(node, load_i64(context, NODE_INPUTS), none)
        replace_slot(node, load_i64(context, NODE_OUTPUT), none)
    return 0


# -- the walk ---------------------------------------------------------------------------------------------------------


def _walked(walk: ptr, grads: ptr, retain: bool, shared: ptr) -> ptr:
    """What has been found for the targets, None without any; null on failure."""
    none = load_ptr(context, NONE)
    targets = load_ptr(walk, TARGETS)
    if targets != none:
        _want(walk, targets)
        keep_relevant(walk)
    for i in range(PyList_Size(grads)):
        grad = PyList_GetItem(grads, i)
        hold(grad)
        if deposit(walk, i, grad) != 0:
            return 0
    for i in range(load_i64(walk, ORDER + 8)):
        record = vector_item(walk, RECORDS, RECORD_BYTES, load_i64(vector_item(walk, ORDER, 8, i), 0))
        if targets != none and load_i64(record, RECORD_LEADS) == 0:
            continue
        is_call = load_i64(record, RECORD_IS_CALL)
        store_i64(walk, CALLS, load_i64(walk, CALLS) + (is_call != 0))
        if (go_through_calls(walk, i, record) if is_call else go_through(walk, record, shared)) != 0:
            return 0
    found = none
    if targets == none:
        if _to_leaves(walk, shared) != 0:
            return 0
        hold(none)
    else:
        found = _found(walk, targets)
        if found == 0:
            return 0
    if not retain and _release(walk, targets == none) != 0:
        let_go(found)
        return 0
    return found


def walk_call(walker: ptr, arguments: ptr) -> ptr:
    """Walker.walk((roots, gradients, targets or None, retain_graph, create_graph, shared, placed)): METH_O.

    The gradients of the targets as a list, or None; NotImplemented where the walk is not plain.
    """
    walk = buffer(WALK_BYTES)
    if begin(walk, walker) != 0:
        return 0
    found: ptr = 0
    store_ptr(walk, TARGETS, PyTuple_GetItem(arguments, 2))
    store_ptr(walk, CREATE_GRAPH, PyTuple_GetItem(arguments, 4))
    store_ptr(walk, PLACED, PyTuple_GetItem(arguments, 6))
    if collect(walk, PyTuple_GetItem(arguments, 0)) == 0:
        retain = PyTuple_GetItem(arguments, 3) == load_ptr(context, TRUE)
        grads = PyTuple_GetItem(arguments, 1)
        found = _walked(walk, grads, retain, PyTuple_GetItem(arguments, 5))
    elif PyErr_Occurred() == 0:
        hold(Py_NotImplementedStruct)
        found = Py_NotImplementedStruct
    finish(walk)
    return found
