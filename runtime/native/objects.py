"""Native code that makes and inspects ndarrays, Tensors and Storages."""

from __future__ import annotations

from eagerjit.runtime.mode import PLAIN
from eagerjit.runtime.native.context import (
    ALIGNED_FLAG,
    ARRAY_FLAGS,
    ARRAY_HANDLER,
    ARRAY_TYPE,
    CONTIGUOUS_FLAG,
    DATA,
    DESCRIPTORS,
    DEVICE_ARRAY_TYPE,
    ITEM_SIZES,
    MEMORY_HANDLER,
    N_TENSOR_DEFAULTS,
    N_TENSOR_TYPES,
    NEW_FROM_DESCRIPTOR,
    NO_MEMORY,
    NONE,
    OBJECT_REFERENCES,
    OBJECT_TYPE,
    OWNS_DATA_FLAG,
    SET_BASE_OBJECT,
    STORAGE,
    STORAGE_TYPE,
    SUBCLASSES,
    TENSOR_DEFAULTS,
    TENSOR_TYPES,
    WRITEABLE_FLAG,
    context,
)
from eagerjit.runtime.native.flags import thread_flags
from eagerjit.runtime.native.language import (
    buffer,
    c_string,
    call_i32,
    call_ptr,
    external,
    external_data,
    i32,
    i64,
    load_i32,
    load_i64,
    load_ptr,
    multiply_overflows,
    ptr,
    store_i32,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.memory import allocate, release

Py_IncRef = external("void Py_IncRef(ptr)")
Py_DecRef = external("void Py_DecRef(ptr)")
PyType_GenericAlloc = external("ptr PyType_GenericAlloc(ptr, i64)")
PyErr_NoMemory = external("ptr PyErr_NoMemory()")
PyErr_SetObject = external("void PyErr_SetObject(ptr, ptr)")
PyErr_SetString = external("void PyErr_SetString(ptr, ptr)")
PyObject_CallNoArgs = external("ptr PyObject_CallNoArgs(ptr)")
PyLong_FromLongLong = external("ptr PyLong_FromLongLong(i64)")
PyType_IsSubtype = external("i32 PyType_IsSubtype(ptr, ptr)")
PyExc_TypeError = external_data("PyExc_TypeError")


def hold(thing: ptr) -> None:
    """As Py_IncRef, without a call where the count is one that can grow: immortal objects have a negative one."""
    count = load_i32(thing, OBJECT_REFERENCES)
    if count < 0:
        Py_IncRef(thing)
    else:
        store_i32(thing, OBJECT_REFERENCES, count + 1)


def let_go(thing: ptr) -> None:
    """As Py_DecRef, without a call where somebody else holds the object too."""
    count = load_i32(thing, OBJECT_REFERENCES)
    if count > 1:
        store_i32(thing, OBJECT_REFERENCES, count - 1)
    else:
        Py_DecRef(thing)


def replace_slot(owner: ptr, offset: i64, value: ptr) -> None:
    """Stores a new reference in a slot and drops what it held."""
    before = load_ptr(owner, offset)
    hold(value)
    store_ptr(owner, offset, value)
    if before:
        let_go(before)


def is_tensor(thing: ptr) -> bool:
    """Whether the object's class is exactly one of the Tensor classes, or any subclass where these pass for plain."""
    kind = load_ptr(thing, OBJECT_TYPE)
    return kind == load_ptr(context, TENSOR_TYPES) or _is_other_tensor_class(kind)


def _is_other_tensor_class(kind: ptr) -> bool:
    for i in range(1, load_i64(context, N_TENSOR_TYPES)):
        if kind == load_ptr(context, TENSOR_TYPES + 8 * i):
            return 1
    if load_i64(context, SUBCLASSES):
        return thread_flags() & PLAIN != 0 and PyType_IsSubtype(kind, load_ptr(context, TENSOR_TYPES)) != 0
    return 0


def array_of(thing: ptr) -> ptr:
    """The ndarray under a Tensor; null for anything else."""
    if not is_tensor(thing):
        return 0
    array = load_ptr(thing, load_i64(context, DATA))
    if array == 0 or load_ptr(array, OBJECT_TYPE) != load_ptr(context, ARRAY_TYPE):
        return 0
    return array


def any_array_of(thing: ptr) -> ptr:
    """The array under a Tensor, of the host or of a device; null for anything else."""
    if not is_tensor(thing):
        return 0
    array = load_ptr(thing, load_i64(context, DATA))
    if array == 0:
        return 0
    kind = load_ptr(array, OBJECT_TYPE)
    return array if kind == load_ptr(context, ARRAY_TYPE) or kind == load_ptr(context, DEVICE_ARRAY_TYPE) else ptr(0)


def new_instance(kind: ptr, defaults: ptr, n: i64) -> ptr:
    """An instance of a class with `__slots__`, its slots set to their defaults; null with an exception set."""
    instance = PyType_GenericAlloc(kind, 0)
    if instance == 0:
        return 0
    for i in range(n):
        value = load_ptr(defaults, 16 * i + 8)
        hold(value)
        store_ptr(instance, load_i64(defaults, 16 * i), value)
    return instance


def tensor_over(array: ptr) -> ptr:
    """A new Tensor that takes over the reference to `array`; null (and the reference dropped) on failure."""
    tensor = new_instance(
        load_ptr(context, TENSOR_TYPES), load_ptr(context, TENSOR_DEFAULTS), load_i64(context, N_TENSOR_DEFAULTS)
    )
    if tensor == 0:
        Py_DecRef(array)
        return 0
    store_ptr(tensor, load_i64(context, DATA), array)
    return tensor


def _array_at(code: i64, ndim: i64, dims: ptr, strides: ptr, data: ptr, flags: i64) -> ptr:
    """A new ndarray over memory that it does not own yet."""
    descriptor = load_ptr(context, DESCRIPTORS + 8 * code)
    hold(descriptor)
    return call_ptr(
        load_ptr(context, NEW_FROM_DESCRIPTOR),
        load_ptr(context, ARRAY_TYPE),
        descriptor,
        i32(ndim),
        dims,
        strides,
        data,
        i32(flags),
        ptr(0),
    )


_MOST = (1 << 63) - 1


def no_memory(size: i64) -> ptr:
    """Sets the exception for so many bytes that there are not; a null pointer."""
    number = PyLong_FromLongLong(size)
    if number:
        PyErr_SetObject(load_ptr(context, NO_MEMORY), number)
        Py_DecRef(number)
    return ptr(0)


def fresh_tensor(code: i64, ndim: i64, slots: ptr, dim_slots: ptr, pointer_slot: i64) -> ptr:
    """OUTPUT: a Tensor over fresh C-contiguous memory; its address goes to `slots[pointer_slot]`."""
    dims = buffer(256)
    size = load_i64(context, ITEM_SIZES + 8 * code)
    for i in range(ndim):
        extent = load_i64(slots, 8 * load_i64(dim_slots, 8 * i))
        store_i64(dims, 8 * i, extent)
        if extent < 0 or multiply_overflows(size, extent):
            return no_memory(_MOST)
        size *= extent
    data = allocate(size)
    if data == 0:
        return no_memory(size)
    array = _array_at(code, ndim, dims, 0, data, CONTIGUOUS_FLAG | ALIGNED_FLAG | WRITEABLE_FLAG)
    if array == 0:
        release(data, size)
        return 0
    handler = load_ptr(context, MEMORY_HANDLER)
    hold(handler)
    store_ptr(array, ARRAY_HANDLER, handler)
    store_i32(array, ARRAY_FLAGS, load_i32(array, ARRAY_FLAGS) | OWNS_DATA_FLAG)
    store_ptr(slots, 8 * pointer_slot, data)
    return tensor_over(array)


def put_result(slot: ptr, made: ptr) -> i64:
    """Stores a new object as a result and drops the tensor there that it is a view of, if any: 1, or -1 for null."""
    if made == 0:
        return -1
    shown = load_ptr(slot, 0)
    store_ptr(slot, 0, made)
    if shown:
        let_go(shown)
    return 1


def not_a_tensor() -> i64:
    """Sets the exception for an instruction whose leaf is no Tensor over memory; -1."""
    PyErr_SetString(load_ptr(PyExc_TypeError, 0), c_string("a program expected a Tensor that has memory"))
    return -1


def storage_of(tensor: ptr) -> ptr:
    """The Storage a Tensor shares with its views (borrowed), made at the first need; null on failure."""
    offset = load_i64(context, STORAGE)
    storage = load_ptr(tensor, offset)
    if storage != 0 and storage != load_ptr(context, NONE):
        return storage
    storage = PyObject_CallNoArgs(load_ptr(context, STORAGE_TYPE))
    if storage == 0:
        return 0
    replace_slot(tensor, offset, storage)
    let_go(storage)
    return storage


def tensor_viewing(owner: ptr, code: i64, ndim: i64, dims: ptr, strides: ptr, data: ptr, flags: i64) -> ptr:
    """A new Tensor whose ndarray shows memory that `owner` keeps alive; dims and strides as NumPy has them."""
    array = _array_at(code, ndim, dims, strides, data, flags)
    if array == 0:
        return 0
    hold(owner)
    if call_i32(load_ptr(context, SET_BASE_OBJECT), array, owner) != 0:
        Py_DecRef(array)
        return 0
    return tensor_over(array)


def view_of(base: ptr, code: i64, ndim: i64, slots: ptr, sizes: ptr, data: ptr) -> ptr:
    """OUTPUT_VIEW: a Tensor that views the memory of `base`, dims and strides named by slot in `sizes`."""
    dims = buffer(256)
    strides = buffer(256)
    item = load_i64(context, ITEM_SIZES + 8 * code)
    for i in range(ndim):
        store_i64(dims, 8 * i, load_i64(slots, 8 * load_i64(sizes, 8 * i)))
        store_i64(strides, 8 * i, item * load_i64(slots, 8 * load_i64(sizes, 8 * (ndim + i))))
    owner = array_of(base)
    if owner == 0:
        not_a_tensor()
        return 0
    storage = storage_of(base)
    if storage == 0:
        return 0
    tensor = tensor_viewing(owner, code, ndim, dims, strides, data, load_i32(owner, ARRAY_FLAGS) & WRITEABLE_FLAG)
    if tensor:
        replace_slot(tensor, load_i64(context, STORAGE), storage)
    return tensor
