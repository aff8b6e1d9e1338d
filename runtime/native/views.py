"""The six views that all others are made of, as `eagerjit/ops/aliasing.py` has them, without NumPy's calls.

Every function gives a new reference. Null without an exception means that only Python can serve, or refuse, the view.
`views` is the tuple of the ops that go on the tape, in the order of the numbers below.
"""

from __future__ import annotations

from eagerjit.runtime.native.context import (
    ARRAY_DATA,
    ARRAY_DESCRIPTOR,
    ARRAY_DIMS,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_STRIDES,
    ITEM_SIZES,
    MAX_NDIM,
    N_VIEW_DEFAULTS,
    REGISTER_VIEW,
    STORAGE,
    STORAGE_REGISTERED,
    STORAGE_VIEWS,
    TRUE,
    VIEW,
    VIEW_ARGUMENTS,
    VIEW_BASE,
    VIEW_DEFAULTS,
    VIEW_NUMBER,
    VIEW_OP,
    VIEW_TRACKED,
    VIEW_TYPE,
    WRITEABLE_FLAG,
    context,
)
from eagerjit.runtime.native.language import (
    buffer,
    external,
    i64,
    load_i32,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.nodes import record
from eagerjit.runtime.native.objects import (
    Py_DecRef,
    PyLong_FromLongLong,
    array_of,
    new_instance,
    replace_slot,
    storage_of,
    tensor_viewing,
)
from eagerjit.runtime.native.operators import code_of

ALIAS, RESHAPE, PERMUTE, EXPAND, SLICE, SELECT = 0, 1, 2, 3, 4, 5

_REGISTERED = 16
"""Views of one memory from which on those that are gone are forgotten now and then."""

PyLong_AsLongLong = external("i64 PyLong_AsLongLong(ptr)")
PyTuple_New = external("ptr PyTuple_New(i64)")
PyTuple_Size = external("i64 PyTuple_Size(ptr)")
PyTuple_GetItem = external("ptr PyTuple_GetItem(ptr, i64)")
PyTuple_SetItem = external("i32 PyTuple_SetItem(ptr, i64, ptr)")
PyList_Size = external("i64 PyList_Size(ptr)")
PyList_Append = external("i32 PyList_Append(ptr, ptr)")
PyWeakref_NewRef = external("ptr PyWeakref_NewRef(ptr, ptr)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")


def viewable(tensor: ptr) -> ptr:
    """The ndarray of a Tensor whose views native code makes (borrowed), else null: no empty and no complex ones."""
    array = array_of(tensor)
    if array == 0 or load_ptr(context, VIEW_TYPE) == 0 or code_of(load_ptr(array, ARRAY_DESCRIPTOR)) < 0:
        return 0
    ndim = load_i32(array, ARRAY_NDIM)
    if ndim >= MAX_NDIM // 2:
        return 0
    dims = load_ptr(array, ARRAY_DIMS)
    for axis in range(ndim):
        if load_i64(dims, 8 * axis) == 0:
            return 0
    return array


def _tuple_of_integers(numbers: ptr, n: i64) -> ptr:
    result = PyTuple_New(n)
    if result == 0:
        return 0
    for i in range(n):
        number = PyLong_FromLongLong(load_i64(numbers, 8 * i))
        if number == 0:
            Py_DecRef(result)
            return 0
        PyTuple_SetItem(result, i, number)
    return result


def _register(storage: ptr, view: ptr) -> i64:
    """What `Storage.register` does; -1 with an exception set."""
    known = load_ptr(storage, load_i64(context, STORAGE_VIEWS))
    n = PyList_Size(known)
    if n >= _REGISTERED and (n & (n - 1)) == 0:
        done = PyObject_CallFunctionObjArgs(load_ptr(context, REGISTER_VIEW), storage, view, ptr(0))
        if done == 0:
            return -1
        Py_DecRef(done)
        return 0
    reference = PyWeakref_NewRef(view, 0)
    if reference == 0:
        return -1
    status = PyList_Append(known, reference)
    Py_DecRef(reference)
    number = load_ptr(storage, load_i64(context, STORAGE_REGISTERED))
    next_number = PyLong_FromLongLong(PyLong_AsLongLong(number) + 1)
    if next_number == 0:
        return -1
    replace_slot(load_ptr(view, load_i64(context, VIEW)), load_i64(context, VIEW_NUMBER), number)
    replace_slot(storage, load_i64(context, STORAGE_REGISTERED), next_number)
    Py_DecRef(next_number)
    return status


def _describe(view: ptr, base: ptr, op: ptr, arguments: ptr, tracked: bool) -> i64:
    """Says on a new tensor how it was made from its base; -1 with an exception set."""
    made = new_instance(
        load_ptr(context, VIEW_TYPE), load_ptr(context, VIEW_DEFAULTS), load_i64(context, N_VIEW_DEFAULTS)
    )
    if made == 0:
        return -1
    replace_slot(made, load_i64(context, VIEW_BASE), base)
    replace_slot(made, load_i64(context, VIEW_OP), op)
    replace_slot(made, load_i64(context, VIEW_ARGUMENTS), arguments)
    if tracked:
        replace_slot(made, load_i64(context, VIEW_TRACKED), load_ptr(context, TRUE))
    replace_slot(view, load_i64(context, VIEW), made)
    Py_DecRef(made)
    return 0


def _made(base: ptr, op: ptr, arguments: ptr, ndim: i64, dims: ptr, strides: ptr, data: ptr, tracked: bool) -> ptr:
    """The tensor at `data` with these dims and strides, in its base's storage and on the tape; takes `arguments`."""
    if arguments == 0:
        return 0
    array = array_of(base)
    code = code_of(load_ptr(array, ARRAY_DESCRIPTOR))
    storage = storage_of(base)
    made: ptr = 0
    if storage:
        made = tensor_viewing(array, code, ndim, dims, strides, data, load_i32(array, ARRAY_FLAGS) & WRITEABLE_FLAG)
    if made == 0:
        Py_DecRef(arguments)
        return 0
    replace_slot(made, load_i64(context, STORAGE), storage)
    status = _describe(made, base, op, arguments, tracked)
    if status == 0 and tracked:
        status = _register(storage, made)
        if status == 0:
            status = _recorded(op, base, arguments, made)
    Py_DecRef(arguments)
    if status != 0:
        Py_DecRef(made)
        return 0
    return made


def _recorded(op: ptr, base: ptr, arguments: ptr, made: ptr) -> i64:
    """A node on the tape where the base needs a gradient: its inputs are the base and the view's arguments."""
    inputs = buffer(40)
    store_ptr(inputs, 0, base)
    n = PyTuple_Size(arguments)
    for i in range(n):
        store_ptr(inputs, 8 + 8 * i, PyTuple_GetItem(arguments, i))
    return record(op, inputs, 1 + n, made)


def _item_size(array: ptr) -> i64:
    return load_i64(context, ITEM_SIZES + 8 * code_of(load_ptr(array, ARRAY_DESCRIPTOR)))


def _one_tuple(value: ptr) -> ptr:
    """(value,), taking the reference over; null where there is none."""
    if value == 0:
        return 0
    result = PyTuple_New(1)
    if result == 0:
        Py_DecRef(value)
        return 0
    PyTuple_SetItem(result, 0, value)
    return result


def alias_of(base: ptr, views: ptr, tracked: bool) -> ptr:
    """A view of everything."""
    array = viewable(base)
    if array == 0:
        return 0
    dims = load_ptr(array, ARRAY_DIMS)
    strides = load_ptr(array, ARRAY_STRIDES)
    ndim = load_i32(array, ARRAY_NDIM)
    op = PyTuple_GetItem(views, ALIAS)
    return _made(base, op, PyTuple_New(0), ndim, dims, strides, load_ptr(array, ARRAY_DATA), tracked)


def _next_long(dims: ptr, n: i64, at: i64) -> i64:
    """The first dimension from `at` on that is not 1; n where there is none."""
    while at < n and load_i64(dims, 8 * at) == 1:
        at += 1
    return at


def _refined(dims: ptr, strides: ptr, ndim: i64, shape: ptr, n: i64, out: ptr) -> bool:
    """Strides that show the same elements in another shape of as many, none of them 0; 0 where a copy has to be made.

    Both shapes are cut into the shortest runs of dimensions with equal products; the old ones of a run must lie as if
    they were one.
    """
    old = _next_long(dims, ndim, 0)
    new = _next_long(shape, n, 0)
    while old < ndim and new < n:
        have = load_i64(dims, 8 * old)
        want = load_i64(shape, 8 * new)
        last = new
        while have != want:
            if have < want:
                before = old
                old = _next_long(dims, ndim, old + 1)
                if load_i64(strides, 8 * before) != load_i64(dims, 8 * old) * load_i64(strides, 8 * old):
                    return 0
                have *= load_i64(dims, 8 * old)
            else:
                last = _next_long(shape, n, last + 1)
                want *= load_i64(shape, 8 * last)
        step = load_i64(strides, 8 * old)
        at = last
        while at >= new:
            store_i64(out, 8 * at, step)
            step *= load_i64(shape, 8 * at)
            at -= 1
        old = _next_long(dims, ndim, old + 1)
        new = _next_long(shape, n, last + 1)
    return 1


def _row_major(shape: ptr, n: i64, item: i64, out: ptr) -> None:
    at = n - 1
    while at >= 0:
        store_i64(out, 8 * at, item)
        item *= load_i64(shape, 8 * at)
        at -= 1


def reshaped(base: ptr, views: ptr, shape: ptr, n: i64, tracked: bool) -> ptr:
    """A view in another shape of as many elements; -1 for one of its sizes stands for what the others leave."""
    array = viewable(base)
    if array == 0 or n >= MAX_NDIM:
        return 0
    dims = load_ptr(array, ARRAY_DIMS)
    strides = load_ptr(array, ARRAY_STRIDES)
    ndim = load_i32(array, ARRAY_NDIM)
    total = 1
    for axis in range(ndim):
        total *= load_i64(dims, 8 * axis)
    rest = 1
    free = -1
    for axis in range(n):
        size = load_i64(shape, 8 * axis)
        if size == -1 and free < 0:
            free = axis
        elif size <= 0 or size > total:
            return 0
        else:
            rest *= size
            if rest > total:
                return 0
    if free >= 0:
        store_i64(shape, 8 * free, total // rest)
        rest *= total // rest
    if rest != total:
        return 0
    made = buffer(8 * MAX_NDIM)
    item = _item_size(array)
    _row_major(shape, n, item, made)
    if (load_i32(array, ARRAY_FLAGS) & 1) == 0 and not _refined(dims, strides, ndim, shape, n, made):
        return 0
    arguments = _one_tuple(_tuple_of_integers(shape, n))
    op = PyTuple_GetItem(views, RESHAPE)
    return _made(base, op, arguments, n, shape, made, load_ptr(array, ARRAY_DATA), tracked)


def permuted(base: ptr, views: ptr, order: ptr, n: i64, tracked: bool) -> ptr:
    """Dimensions in another order, counted from either end."""
    array = viewable(base)
    if array == 0 or n != load_i32(array, ARRAY_NDIM):
        return 0
    dims = load_ptr(array, ARRAY_DIMS)
    strides = load_ptr(array, ARRAY_STRIDES)
    shape = buffer(8 * MAX_NDIM)
    steps = buffer(8 * MAX_NDIM)
    seen = 0
    for axis in range(n):
        source = load_i64(order, 8 * axis)
        source = source + n if source < 0 else source
        if source < 0 or source >= n or (seen >> source) & 1:
            return 0
        seen |= 1 << source
        store_i64(order, 8 * axis, source)
        store_i64(shape, 8 * axis, load_i64(dims, 8 * source))
        store_i64(steps, 8 * axis, load_i64(strides, 8 * source))
    arguments = _one_tuple(_tuple_of_integers(order, n))
    op = PyTuple_GetItem(views, PERMUTE)
    return _made(base, op, arguments, n, shape, steps, load_ptr(array, ARRAY_DATA), tracked)


def expanded(base: ptr, views: ptr, shape: ptr, n: i64, tracked: bool) -> ptr:
    """Dimensions of size 1 repeated, new ones in front; -1 keeps a size."""
    array = viewable(base)
    if array == 0 or n >= MAX_NDIM:
        return 0
    dims = load_ptr(array, ARRAY_DIMS)
    strides = load_ptr(array, ARRAY_STRIDES)
    added = n - load_i32(array, ARRAY_NDIM)
    if added < 0:
        return 0
    steps = buffer(8 * MAX_NDIM)
    for axis in range(n):
        size = load_i64(shape, 8 * axis)
        have = 1 if axis < added else load_i64(dims, 8 * (axis - added))
        if size == -1 and axis >= added:
            store_i64(shape, 8 * axis, have)
        elif size <= 0 or (have != size and have != 1):
            return 0
        kept = axis >= added and have == load_i64(shape, 8 * axis)
        store_i64(steps, 8 * axis, load_i64(strides, 8 * (axis - added)) if kept else 0)
    for i in range(added if added < n else 0):
        axis = added - 1 - i
        if load_i64(shape, 8 * axis) == 1:
            store_i64(steps, 8 * axis, load_i64(shape, 8 * (axis + 1)) * load_i64(steps, 8 * (axis + 1)))
    arguments = _one_tuple(_tuple_of_integers(shape, n))
    op = PyTuple_GetItem(views, EXPAND)
    return _made(base, op, arguments, n, shape, steps, load_ptr(array, ARRAY_DATA), tracked)


def sliced(base: ptr, views: ptr, dim: i64, start: i64, stop: i64, step: i64, tracked: bool) -> ptr:
    """Indices start, start + step, ... before stop along a dimension; bounds lie within it, and it is not empty."""
    array = viewable(base)
    if array == 0 or stop <= start:
        return 0
    ndim = load_i32(array, ARRAY_NDIM)
    shape = buffer(8 * MAX_NDIM)
    steps = buffer(8 * MAX_NDIM)
    for axis in range(ndim):
        store_i64(shape, 8 * axis, load_i64(load_ptr(array, ARRAY_DIMS), 8 * axis))
        store_i64(steps, 8 * axis, load_i64(load_ptr(array, ARRAY_STRIDES), 8 * axis))
    stride = load_i64(steps, 8 * dim)
    store_i64(shape, 8 * dim, (stop - start + step - 1) // step)
    store_i64(steps, 8 * dim, stride * step)
    numbers = buffer(32)
    store_i64(numbers, 0, dim)
    store_i64(numbers, 8, start)
    store_i64(numbers, 16, stop)
    store_i64(numbers, 24, step)
    op = PyTuple_GetItem(views, SLICE)
    arguments = _tuple_of_integers(numbers, 4)
    return _made(base, op, arguments, ndim, shape, steps, load_ptr(array, ARRAY_DATA) + start * stride, tracked)


def selected(base: ptr, views: ptr, dim: i64, index: i64, tracked: bool) -> ptr:
    """One index along a dimension, which goes away; counted from either end."""
    array = viewable(base)
    if array == 0:
        return 0
    ndim = load_i32(array, ARRAY_NDIM)
    if dim >= ndim:
        return 0
    size = load_i64(load_ptr(array, ARRAY_DIMS), 8 * dim)
    index = index + size if index < 0 else index
    if index < 0 or index >= size:
        return 0
    shape = buffer(8 * MAX_NDIM)
    steps = buffer(8 * MAX_NDIM)
    for axis in range(ndim - 1):
        source = axis if axis < dim else axis + 1
        store_i64(shape, 8 * axis, load_i64(load_ptr(array, ARRAY_DIMS), 8 * source))
        store_i64(steps, 8 * axis, load_i64(load_ptr(array, ARRAY_STRIDES), 8 * source))
    numbers = buffer(16)
    store_i64(numbers, 0, dim)
    store_i64(numbers, 8, index)
    at = load_ptr(array, ARRAY_DATA) + index * load_i64(load_ptr(array, ARRAY_STRIDES), 8 * dim)
    op = PyTuple_GetItem(views, SELECT)
    return _made(base, op, _tuple_of_integers(numbers, 2), ndim - 1, shape, steps, at, tracked)
