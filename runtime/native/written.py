"""Eager writes in place: which native code does, and how they go on the tape.

A tensor that is written takes over the node of the write. Its old history goes on in another tensor over the same
memory, which the node has among its inputs.
"""

from __future__ import annotations

from eagerjit.runtime.native.agreed import MAX_PARAMETERS
from eagerjit.runtime.native.context import (
    ARRAY_FLAGS,
    CONTIGUOUS_FLAG,
    INDEX,
    NODE,
    NODE_REPLACED,
    NONE,
    OBJECT_TYPE,
    OPERATOR_COPIES,
    OPERATOR_COUNT,
    OPERATOR_OP,
    REQUIRES_GRAD,
    STORAGE,
    STORAGE_VIEWS,
    TRUE,
    VIEW,
    VIEW_BASE,
    VIEW_TYPE,
    WRITEABLE_FLAG,
    context,
)
from eagerjit.runtime.native.language import (
    buffer,
    copy_bytes,
    external,
    i64,
    load_i32,
    load_i64,
    load_ptr,
    ptr,
    store_ptr,
)
from eagerjit.runtime.native.nodes import is_floating, new_node, put
from eagerjit.runtime.native.objects import (
    Py_DecRef,
    Py_IncRef,
    any_array_of,
    array_of,
    is_tensor,
    replace_slot,
    storage_of,
    tensor_over,
)
from eagerjit.runtime.native.operators import is_tuple

PyList_Size = external("i64 PyList_Size(ptr)")


def writable(thing: ptr, gradients_off: i64) -> bool:
    """Whether something is a tensor whose memory may be written, each element once, and no base needs a gradient."""
    if not is_tensor(thing):
        return 0
    view = load_ptr(thing, load_i64(context, VIEW))
    if view == load_ptr(context, NONE):
        return 1
    array = array_of(thing)
    wanted = CONTIGUOUS_FLAG | WRITEABLE_FLAG
    if array == 0 or load_i32(array, ARRAY_FLAGS) & wanted != wanted:
        return 0
    while gradients_off == 0 and thing:
        if load_ptr(thing, load_i64(context, REQUIRES_GRAD)) == load_ptr(context, TRUE):
            return 0
        view = load_ptr(thing, load_i64(context, VIEW))
        if view == load_ptr(context, NONE):
            return 1
        if load_ptr(view, OBJECT_TYPE) != load_ptr(context, VIEW_TYPE):
            return 0
        thing = load_ptr(view, load_i64(context, VIEW_BASE))
        if not is_tensor(thing):
            return 0
    return 1


def _is_recorded_here(callee: ptr, full: ptr, n: i64) -> bool:
    """Whether this write can go on the tape by native code: of no view, no leaf, and what no gradient reads."""
    target = load_ptr(full, 0)
    none = load_ptr(context, NONE)
    if not is_tensor(target) or load_ptr(target, load_i64(context, VIEW)) != none or is_floating(target) != 1:
        return 0
    needs = load_i64(context, REQUIRES_GRAD)
    true = load_ptr(context, TRUE)
    if load_ptr(target, needs) == true and load_ptr(target, load_i64(context, NODE)) == none:
        return 0
    copies = load_i64(callee, OPERATOR_COPIES)
    for i in range(n):
        argument = load_ptr(full, 8 * i)
        if is_tuple(argument) or (i and argument == target):
            return 0
        if (copies >> i) & 1 and is_tensor(argument) and load_ptr(argument, needs) == true:
            return 0
    return 1


def _as_it_was(target: ptr, storage: ptr) -> ptr:
    """Another tensor over the memory, with the history that the target has now; null on failure."""
    array = any_array_of(target)
    Py_IncRef(array)
    old = tensor_over(array)
    if old == 0:
        return 0
    replace_slot(old, load_i64(context, STORAGE), storage)
    replace_slot(old, load_i64(context, NODE), load_ptr(target, load_i64(context, NODE)))
    replace_slot(old, load_i64(context, INDEX), load_ptr(target, load_i64(context, INDEX)))
    replace_slot(old, load_i64(context, REQUIRES_GRAD), load_ptr(target, load_i64(context, REQUIRES_GRAD)))
    return old


def node_of_write(callee: ptr, full: ptr) -> ptr:
    """A new node for a write that is about to happen; null where Python has to see to it, or with an exception set."""
    n = load_i64(callee, OPERATOR_COUNT)
    if not _is_recorded_here(callee, full, n):
        return 0
    target = load_ptr(full, 0)
    storage = storage_of(target)
    if storage == 0 or PyList_Size(load_ptr(storage, load_i64(context, STORAGE_VIEWS))) != 0:
        return 0
    old = _as_it_was(target, storage)
    if old == 0:
        return 0
    inputs = buffer(8 * MAX_PARAMETERS)
    copy_bytes(inputs, full, 8 * n)
    store_ptr(inputs, 0, old)
    array = any_array_of(target)
    Py_IncRef(array)
    node = new_node(load_ptr(callee, load_i64(context, OPERATOR_OP)), inputs, n, array)
    if node == 0:
        Py_DecRef(old)
        return 0
    put(node, NODE_REPLACED, old)
    return node
