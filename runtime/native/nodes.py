"""Autograd nodes for the results of eager operators."""

from __future__ import annotations

from eagerjit.runtime import dtypes
from eagerjit.runtime.mode import SEQUENCE_WORD
from eagerjit.runtime.native.context import (
    ARRAY_DESCRIPTOR,
    INDEX,
    MODE_WORDS,
    N_NODE_DEFAULTS,
    NODE,
    NODE_CODE,
    NODE_DEFAULTS,
    NODE_INPUTS,
    NODE_OFFSET,
    NODE_OP,
    NODE_OUTPUT,
    NODE_REPLACED,
    NODE_SEQUENCE,
    NODE_TYPE,
    NODE_VERSIONS,
    NONE,
    OBJECT_TYPE,
    RECORD_NODE,
    REFRESH_VIEW,
    REQUIRES_GRAD,
    STORAGE,
    STORAGE_VERSION,
    TRUE,
    VIEW,
    VIEW_BASE,
    VIEW_TRACKED,
    VIEW_TYPE,
    context,
)
from eagerjit.runtime.native.language import (
    buffer,
    external,
    external_data,
    i64,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.objects import Py_DecRef, Py_IncRef, any_array_of, is_tensor, new_instance, replace_slot
from eagerjit.runtime.native.operators import held_code_of, is_tuple, tuple_of
from eagerjit.runtime.native.places import user_code

PyLong_FromLongLong = external("ptr PyLong_FromLongLong(i64)")
PyLong_AsLongLong = external("i64 PyLong_AsLongLong(ptr)")
PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")
PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_SetItem = external("i32 PyTuple_SetItem(ptr, i64, ptr)")
PyTuple_Type = external_data("PyTuple_Type")
PyLong_Type = external_data("PyLong_Type")
PyList_Type = external_data("PyList_Type")

MOST_INPUTS = 64
FIRST_FLOATING_CODE = dtypes.float16.code


def _versions(arguments: ptr, n: i64) -> ptr:
    """A new reference to the arguments' versions, None where no argument has a Storage; null on failure."""
    none = load_ptr(context, NONE)
    offset = load_i64(context, STORAGE)
    versions = none
    Py_IncRef(none)
    for i in range(n):
        argument = load_ptr(arguments, 8 * i)
        if not is_tensor(argument) or load_ptr(argument, offset) == none:
            continue
        if versions == none:
            versions = _zeros(n)
            Py_DecRef(none)
            if versions == 0:
                return 0
        version = load_ptr(load_ptr(argument, offset), load_i64(context, STORAGE_VERSION))
        Py_IncRef(version)
        PyTuple_SetItem(versions, i, version)
    return versions


def _zeros(n: i64) -> ptr:
    """A tuple of n zeros; null on failure."""
    result = PyTuple_New(n)
    if result == 0:
        return 0
    for i in range(n):
        PyTuple_SetItem(result, i, PyLong_FromLongLong(0))
    return result


def needs_gradient(arguments: ptr, n: i64) -> bool:
    offset = load_i64(context, REQUIRES_GRAD)
    true = load_ptr(context, TRUE)
    for i in range(n):
        argument = load_ptr(arguments, 8 * i)
        if is_tensor(argument):
            if load_ptr(argument, offset) == true:
                return 1
        elif is_tuple(argument):
            for k in range(PyTuple_Size(argument)):
                item = PyTuple_GetItem(argument, k)
                if is_tensor(item) and load_ptr(item, offset) == true:
                    return 1
    return 0


def put(node: ptr, offset: i64, value: ptr) -> i64:
    """Stores `value` (taken over) in the context's slot of a node; -1 where there is none to store."""
    if value == 0:
        return -1
    slot = load_i64(context, offset)
    before = load_ptr(node, slot)
    store_ptr(node, slot, value)
    Py_DecRef(before)
    return 0


def reserve_sequences(count: i64) -> None:
    """What `mode.reserve_sequences` does."""
    words = load_ptr(context, MODE_WORDS)
    store_i64(words, 8 * SEQUENCE_WORD, load_i64(words, 8 * SEQUENCE_WORD) + count)


def _next_sequence() -> ptr:
    words = load_ptr(context, MODE_WORDS)
    number = load_i64(words, 8 * SEQUENCE_WORD) + 1
    store_i64(words, 8 * SEQUENCE_WORD, number)
    return PyLong_FromLongLong(number)


def _record_in_python(op: ptr, arguments: ptr, n: i64, result: ptr) -> i64:
    """Results that are not all Tensors over memory."""
    inputs = tuple_of(arguments, n)
    if inputs == 0:
        return -1
    answer = PyObject_CallFunctionObjArgs(load_ptr(context, RECORD_NODE), op, inputs, result, ptr(0))
    Py_DecRef(inputs)
    if answer == 0:
        return -1
    Py_DecRef(answer)
    return 0


def _part(result: ptr, count: i64, index: i64) -> ptr:
    """A result of several (borrowed), or the only one where `count` is 0."""
    return PyTuple_GetItem(result, index) if count else result


def is_floating(tensor: ptr) -> i64:
    """1 for a Tensor that can have a gradient, 0 for one that can't, -1 for what is none of a known dtype."""
    array = any_array_of(tensor)
    if array == 0:
        return -1
    code = held_code_of(load_ptr(array, ARRAY_DESCRIPTOR))
    return -1 if code < 0 else i64(code >= FIRST_FLOATING_CODE)


def _arrays_of(result: ptr, count: i64) -> ptr:
    """A new reference to what a node keeps of its results; null on failure."""
    if count == 0:
        array = any_array_of(result)
        Py_IncRef(array)
        return array
    arrays = PyTuple_New(count)
    if arrays == 0:
        return 0
    for i in range(count):
        array = any_array_of(PyTuple_GetItem(result, i))
        Py_IncRef(array)
        PyTuple_SetItem(arrays, i, array)
    return arrays


def record(op: ptr, arguments: ptr, n: i64, result: ptr) -> i64:
    """Makes `result` the output of a new node if an argument needs a gradient and it can have one; -1 on failure."""
    if not needs_gradient(arguments, n):
        return 0
    status = _recorded(op, arguments, n, result, load_ptr(context, NONE))
    return _record_in_python(op, arguments, n, result) if status > 0 else status


def record_inputs(op: ptr, inputs: ptr, result: ptr, replaced: ptr) -> i64:
    """The same for a tuple of arguments; 1 where Python has to do it.

    `replaced` is what the result, a tensor, was before it was written in place, or None.
    """
    n = PyTuple_Size(inputs)
    if n > MOST_INPUTS:
        return 1
    arguments = buffer(8 * MOST_INPUTS)
    for i in range(n):
        argument = PyTuple_GetItem(inputs, i)
        if load_ptr(argument, OBJECT_TYPE) == PyList_Type:
            return 1
        store_ptr(arguments, 8 * i, argument)
    return _recorded(op, arguments, n, result, replaced) if needs_gradient(arguments, n) else 0


def _recorded(op: ptr, arguments: ptr, n: i64, result: ptr, replaced: ptr) -> i64:
    """Makes `result` the output of a new node if it can have a gradient; 1 where it is not all Tensors over memory."""
    count = 0
    if load_ptr(result, OBJECT_TYPE) == PyTuple_Type:
        count = PyTuple_Size(result)
    floating = 0
    for i in range(count if count else 1):
        kind = is_floating(_part(result, count, i))
        if kind < 0:
            return 1
        floating += kind
    if floating == 0:
        return 0
    node = new_node(op, arguments, n, _arrays_of(result, count))
    if node == 0:
        return -1
    if replaced != load_ptr(context, NONE):
        Py_IncRef(replaced)
        put(node, NODE_REPLACED, replaced)
        _set_index(result, 0)
    for i in range(count if count else 1):
        connect(_part(result, count, i), node, i)
    Py_DecRef(node)
    return 0


def _place_of(tensor: ptr) -> i64:
    """The place of a tensor's node in the order of execution: -1 without one, -2 where it is no integer."""
    node = load_ptr(tensor, load_i64(context, NODE))
    if node == 0 or node == load_ptr(context, NONE):
        return -1
    sequence = load_ptr(node, load_i64(context, NODE_SEQUENCE))
    return PyLong_AsLongLong(sequence) if load_ptr(sequence, OBJECT_TYPE) == PyLong_Type else -2


def base_of(tensor: ptr) -> ptr:
    """What a tensor is a view of that takes part in the gradients of writes; null where it is none."""
    view = load_ptr(tensor, load_i64(context, VIEW))
    if view == 0 or load_ptr(view, OBJECT_TYPE) != load_ptr(context, VIEW_TYPE):
        return 0
    if load_ptr(view, load_i64(context, VIEW_TRACKED)) != load_ptr(context, TRUE):
        return 0
    return load_ptr(view, load_i64(context, VIEW_BASE))


def refresh(tensor: ptr) -> i64:
    """Brings the history of a view up to date if its base has been written since; -1 on failure."""
    root = tensor
    base = base_of(tensor)
    while base:
        root = base
        base = base_of(root)
    written = _place_of(root)
    if root == tensor or written == -1 or (written >= 0 and _place_of(tensor) >= written):
        return 0
    done = PyObject_CallFunctionObjArgs(load_ptr(context, REFRESH_VIEW), tensor, ptr(0))
    if done == 0:
        return -1
    Py_DecRef(done)
    return 0


def _refresh_all(arguments: ptr, n: i64) -> i64:
    """The same for tensors among arguments, and in tuples among them."""
    for i in range(n):
        argument = load_ptr(arguments, 8 * i)
        if is_tensor(argument):
            if refresh(argument) < 0:
                return -1
        elif is_tuple(argument):
            for k in range(PyTuple_Size(argument)):
                item = PyTuple_GetItem(argument, k)
                if is_tensor(item) and refresh(item) < 0:
                    return -1
    return 0


def new_node(op: ptr, arguments: ptr, n: i64, output: ptr) -> ptr:
    """A new node of a call that gave `output`, to which the reference is taken over; null on failure."""
    if _refresh_all(arguments, n) < 0:
        Py_DecRef(output)
        return 0
    node = new_instance(
        load_ptr(context, NODE_TYPE), load_ptr(context, NODE_DEFAULTS), load_i64(context, N_NODE_DEFAULTS)
    )
    if node == 0:
        Py_DecRef(output)
        return 0
    Py_IncRef(op)
    status = put(node, NODE_OP, op)
    status |= put(node, NODE_OUTPUT, output)
    status |= put(node, NODE_INPUTS, tuple_of(arguments, n))
    status |= put(node, NODE_SEQUENCE, _next_sequence())
    status |= put(node, NODE_VERSIONS, _versions(arguments, n))
    offset = buffer(8)
    code = user_code(offset)
    if code:
        status |= put(node, NODE_CODE, code)
        status |= put(node, NODE_OFFSET, PyLong_FromLongLong(load_i64(offset, 0)))
    if status != 0:
        Py_DecRef(node)
        return 0
    return node


def connect(tensor: ptr, node: ptr, index: i64) -> None:
    """Makes a result that can have a gradient the node's, at this position."""
    if is_floating(tensor) == 0:
        return
    replace_slot(tensor, load_i64(context, NODE), node)
    replace_slot(tensor, load_i64(context, REQUIRES_GRAD), load_ptr(context, TRUE))
    if index > 0:
        _set_index(tensor, index)


def _set_index(tensor: ptr, index: i64) -> None:
    number = PyLong_FromLongLong(index)
    if number:
        replace_slot(tensor, load_i64(context, INDEX), number)
        Py_DecRef(number)


def adopt(tensor: ptr, node: ptr) -> None:
    """Makes a tensor that was written the only result of a node."""
    connect(tensor, node, 0)
    _set_index(tensor, 0)
