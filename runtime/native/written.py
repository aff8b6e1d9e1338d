"""Eager writes in place: which native code does, and how they go on the tape.

A tensor that is written takes over the node of the write. Its old history goes on in another tensor over the same
memory, which the node has among its inputs.
"""

from __future__ import annotations

from eagerjit.runtime.native.agreed import MAX_PARAMETERS
from eagerjit.runtime.native.context import (
    ARRAY_DESCRIPTOR,
    ARRAY_DIMS,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_STRIDES,
    CONTIGUOUS_FLAG,
    INDEX,
    ITEM_SIZES,
    MAX_NDIM,
    NODE,
    NODE_REPLACED,
    NONE,
    OBJECT_TYPE,
    OPERATOR_COPIES,
    OPERATOR_COUNT,
    OPERATOR_OP,
    READS_RESULT,
    REQUIRES_GRAD,
    STORAGE,
    STORAGE_REGISTERED,
    STORAGE_VIEWS,
    TRUE,
    VIEW,
    VIEW_AMONG,
    VIEW_ARGUMENTS,
    VIEW_BASE,
    VIEW_OP,
    VIEW_TYPE,
    WRITEABLE_FLAG,
    context,
)
from eagerjit.runtime.native.execute import DONE, FAILED, MISSED
from eagerjit.runtime.native.language import (
    buffer,
    c_string,
    call_i64,
    copy_bytes,
    external,
    i64,
    load_i32,
    load_i64,
    load_ptr,
    ptr,
    store_ptr,
)
from eagerjit.runtime.native.nodes import adopt, base_of, is_floating, new_node, put, refresh, reserve_sequences
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
from eagerjit.runtime.native.operators import held_code_of, is_tuple

PyErr_Occurred = external("ptr PyErr_Occurred()")
PyList_Size = external("i64 PyList_Size(ptr)")
PyList_GetItem = external("ptr PyList_GetItem(ptr, i64)")
PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyLong_AsLongLong = external("i64 PyLong_AsLongLong(ptr)")
PyObject_CallNoArgs = external("ptr PyObject_CallNoArgs(ptr)")
PyObject_GetAttrString = external("ptr PyObject_GetAttrString(ptr, ptr)")


def _elements_apart(array: ptr) -> bool:
    """Whether every stride leads beyond all that smaller ones reach."""
    ndim = load_i32(array, ARRAY_NDIM)
    code = held_code_of(load_ptr(array, ARRAY_DESCRIPTOR))
    if ndim > MAX_NDIM or code < 0:
        return 0
    reach = load_i64(context, ITEM_SIZES + 8 * code)
    seen = 0
    for _ in range(ndim):
        nearest = -1
        stride = 0
        for axis in range(ndim):
            step = load_i64(load_ptr(array, ARRAY_STRIDES), 8 * axis)
            step = -step if step < 0 else step
            unseen = (seen >> axis) & 1 == 0 and load_i64(load_ptr(array, ARRAY_DIMS), 8 * axis) > 1
            if unseen and (nearest < 0 or step < stride):
                nearest = axis
                stride = step
        if nearest < 0:
            return 1
        if stride < reach:
            return 0
        reach += stride * (load_i64(load_ptr(array, ARRAY_DIMS), 8 * nearest) - 1)
        seen = seen | (1 << nearest)
    return 1


def _may_be_written(array: ptr) -> bool:
    """Whether an array may be written, each element once."""
    flags = load_i32(array, ARRAY_FLAGS)
    return flags & WRITEABLE_FLAG != 0 and (flags & CONTIGUOUS_FLAG != 0 or _elements_apart(array))


def writable(thing: ptr, gradients_off: i64) -> bool:
    """Whether something is a tensor whose memory may be written, each element once, and no base needs a gradient."""
    if not is_tensor(thing):
        return 0
    view = load_ptr(thing, load_i64(context, VIEW))
    if view == load_ptr(context, NONE):
        return 1
    array = array_of(thing)
    if array == 0 or not _may_be_written(array):
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


def _is_leaf(tensor: ptr) -> bool:
    """Whether a tensor needs a gradient that no node gives it."""
    if load_ptr(tensor, load_i64(context, REQUIRES_GRAD)) != load_ptr(context, TRUE):
        return 0
    return load_ptr(tensor, load_i64(context, NODE)) == load_ptr(context, NONE)


def _written_part(target: ptr) -> ptr:
    """What goes on the tape where a view of a whole was written (a new reference); null where Python sees to it."""
    view = load_ptr(target, load_i64(context, VIEW))
    base = base_of(target)
    none = load_ptr(context, NONE)
    if base == 0 or load_ptr(view, load_i64(context, VIEW_AMONG)) != none:
        return 0
    if not is_tensor(base) or load_ptr(base, load_i64(context, VIEW)) != none:
        return 0
    array = array_of(target)
    if array == 0 or not _may_be_written(array) or _is_leaf(base) or is_floating(base) != 1:
        return 0
    if PyTuple_Size(load_ptr(view, load_i64(context, VIEW_ARGUMENTS))) > MAX_PARAMETERS - 2:
        return 0
    op = PyObject_GetAttrString(load_ptr(view, load_i64(context, VIEW_OP)), c_string("written"))
    if op == none:
        Py_DecRef(op)
        return 0
    return op


def _is_recorded_here(callee: ptr, full: ptr, n: i64) -> i64:
    """Whether this write can go on the tape by native code: of no leaf, and what no gradient reads; -1 on failure."""
    target = load_ptr(full, 0)
    if not is_tensor(target) or _is_leaf(target) or is_floating(target) != 1:
        return 0
    needs = load_i64(context, REQUIRES_GRAD)
    copies = load_i64(callee, OPERATOR_COPIES)
    if copies & READS_RESULT and load_ptr(target, load_i64(context, VIEW)) != load_ptr(context, NONE):
        return 0
    storage = storage_of(target)
    if storage == 0:
        return -1
    for i in range(n):
        argument = load_ptr(full, 8 * i)
        if is_tuple(argument):
            return 0
        if i and is_tensor(argument) and load_ptr(argument, load_i64(context, STORAGE)) == storage:
            return 0
        if (copies >> i) & 1 and is_tensor(argument) and load_ptr(argument, needs) == load_ptr(context, TRUE):
            return 0
    return 1


def _as_it_was(target: ptr) -> ptr:
    """Another tensor over the memory, with the history that the target has now; null on failure."""
    storage = storage_of(target)
    array = any_array_of(target)
    if storage == 0 or array == 0:
        return 0
    Py_IncRef(array)
    old = tensor_over(array)
    if old == 0:
        return 0
    replace_slot(old, load_i64(context, STORAGE), storage)
    replace_slot(old, load_i64(context, NODE), load_ptr(target, load_i64(context, NODE)))
    replace_slot(old, load_i64(context, INDEX), load_ptr(target, load_i64(context, INDEX)))
    replace_slot(old, load_i64(context, REQUIRES_GRAD), load_ptr(target, load_i64(context, REQUIRES_GRAD)))
    return old


def _node_over(tensor: ptr, op: ptr, inputs: ptr, n: i64, old: ptr) -> ptr:
    """A new node that gives a tensor in the place of the old one (taken over); null on failure."""
    array = any_array_of(tensor)
    Py_IncRef(array)
    node = new_node(op, inputs, n, array)
    if node == 0:
        Py_DecRef(old)
        return 0
    put(node, NODE_REPLACED, old)
    return node


def write_recorded(callee: ptr, full: ptr, serve: ptr, result: ptr) -> i64:
    """Serves a call that writes a tensor, by `serve(callee, full, result)`, and puts it on the tape: its status."""
    n = load_i64(callee, OPERATOR_COUNT)
    target = load_ptr(full, 0)
    here = _is_recorded_here(callee, full, n)
    if here <= 0:
        return FAILED if here < 0 else MISSED
    over: ptr = 0
    if load_ptr(target, load_i64(context, VIEW)) != load_ptr(context, NONE):
        over = _written_part(target)
        if over == 0:
            return FAILED if PyErr_Occurred() else MISSED
    status = _write_and_record(callee, full, n, serve, result, over)
    if over:
        Py_DecRef(over)
    return status


def _write_and_record(callee: ptr, full: ptr, n: i64, serve: ptr, result: ptr, over: ptr) -> i64:
    target = load_ptr(full, 0)
    base = target
    if over:
        base = load_ptr(load_ptr(target, load_i64(context, VIEW)), load_i64(context, VIEW_BASE))
    had_history = load_ptr(base, load_i64(context, REQUIRES_GRAD)) == load_ptr(context, TRUE)
    whole = _as_it_was(base)
    if whole == 0:
        return FAILED
    old = whole
    if over:
        old = _part_as_it_was(target, whole)
        if old == 0:
            Py_DecRef(whole)
            return FAILED
    else:
        Py_IncRef(old)
    inputs = buffer(8 * MAX_PARAMETERS)
    copy_bytes(inputs, full, 8 * n)
    store_ptr(inputs, 0, old)
    node = _node_over(target, load_ptr(callee, load_i64(context, OPERATOR_OP)), inputs, n, old)
    status = FAILED
    if node:
        status = call_i64(serve, callee, full, result)
    if status == DONE:
        written = 0
        if over:
            written = _overwrite(base, whole, target, node, over)
        else:
            adopt(target, node)
        reserve_sequences(PyLong_AsLongLong(load_ptr(storage_of(base), load_i64(context, STORAGE_REGISTERED))))
        if written < 0 or (had_history == 0 and _refresh_views(base) < 0):
            Py_DecRef(load_ptr(result, 0))
            status = FAILED
    Py_DecRef(node)
    Py_DecRef(whole)
    return status


def _part_as_it_was(target: ptr, whole: ptr) -> ptr:
    """A view before it is written, whose history leads to its base as that was: not to the base, which leads to it."""
    old = _as_it_was(target)
    if old == 0 or load_ptr(old, load_i64(context, REQUIRES_GRAD)) != load_ptr(context, TRUE):
        return old
    view = load_ptr(target, load_i64(context, VIEW))
    inputs = buffer(8 * MAX_PARAMETERS)
    store_ptr(inputs, 0, whole)
    n = 1 + _arguments_of(view, inputs + 8)
    array = any_array_of(target)
    Py_IncRef(array)
    node = new_node(load_ptr(view, load_i64(context, VIEW_OP)), inputs, n, array)
    if node == 0:
        Py_DecRef(old)
        return 0
    adopt(old, node)
    Py_DecRef(node)
    return old


def _overwrite(base: ptr, whole: ptr, target: ptr, node: ptr, op: ptr) -> i64:
    """Gives the base of a view the history of having been overwritten there with what a node gives; -1 on failure.

    `whole` is the base as it was.
    """
    array = any_array_of(target)
    Py_IncRef(array)
    value = tensor_over(array)
    if value == 0:
        return -1
    adopt(value, node)
    inputs = buffer(8 * MAX_PARAMETERS)
    store_ptr(inputs, 0, whole)
    store_ptr(inputs, 8, value)
    n = 2 + _arguments_of(load_ptr(target, load_i64(context, VIEW)), inputs + 16)
    Py_IncRef(whole)
    made = _node_over(base, op, inputs, n, whole)
    Py_DecRef(value)
    if made == 0:
        return -1
    adopt(base, made)
    Py_DecRef(made)
    return 0


def _arguments_of(view: ptr, to: ptr) -> i64:
    """Stores the arguments of a view (borrowed), and returns how many."""
    arguments = load_ptr(view, load_i64(context, VIEW_ARGUMENTS))
    n = PyTuple_Size(arguments)
    for i in range(n):
        store_ptr(to, 8 * i, PyTuple_GetItem(arguments, i))
    return n


def _refresh_views(base: ptr) -> i64:
    """Reads the views of a base from its first history; -1 on failure."""
    views = load_ptr(storage_of(base), load_i64(context, STORAGE_VIEWS))
    for i in range(PyList_Size(views)):
        view = PyObject_CallNoArgs(PyList_GetItem(views, i))
        if view == 0:
            return -1
        status = refresh(view) if is_tensor(view) else i64(0)
        Py_DecRef(view)
        if status < 0:
            return -1
    return 0
