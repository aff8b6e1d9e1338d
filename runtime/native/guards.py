"""Guards that need more than a comparison: 1 where they hold, 0 for a miss, -1 with an exception set."""

from __future__ import annotations

from eagerjit.runtime.native.context import (
    ALIGNED_FLAG,
    ARRAY_DATA,
    ARRAY_DESCRIPTOR,
    ARRAY_DIMS,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    ARRAY_STRIDES,
    CONTIGUOUS_FLAG,
    DESCRIPTORS,
    ITEM_SIZES,
    N_HELD,
    NONE,
    OBJECT_TYPE,
    REQUIRES_GRAD,
    SAME_VALUE,
    TRUE,
    VERSION,
    VIEW,
    VIEW_BASE,
    VIEW_OP,
    VIEW_TYPE,
    WRITEABLE_FLAG,
    context,
)
from eagerjit.runtime.native.language import (
    buffer,
    c_string,
    copy_bytes,
    external,
    external_data,
    i64,
    load_i32,
    load_i64,
    load_ptr,
    load_u8,
    load_u16,
    load_u32,
    ptr,
    store_i32,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.objects import Py_DecRef, PyErr_NoMemory, any_array_of, array_of, hold, is_tensor
from eagerjit.runtime.program import CODE, DEFAULTS

Py_EQ = 2


def has_bits(place: ptr, width: i64, bits: i64) -> i64:
    """Whether the number of 1, 2, 4 or 8 bytes at a place has these bits."""
    if width == 8:
        return load_i64(place, 0) == bits
    if width == 4:
        return load_u32(place, 0) == bits & 0xFFFF_FFFF
    if width == 2:
        return load_u16(place, 0) == bits & 0xFFFF
    return load_u8(place, 0) == bits & 0xFF


PyObject_RichCompareBool = external("i32 PyObject_RichCompareBool(ptr, ptr, i32)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")
PyObject_GetAttrString = external("ptr PyObject_GetAttrString(ptr, ptr)")
PyObject_IsTrue = external("i32 PyObject_IsTrue(ptr)")
PyLong_AsLongLongAndOverflow = external("i64 PyLong_AsLongLongAndOverflow(ptr, ptr)")
PyMem_RawMalloc = external("ptr PyMem_RawMalloc(i64)")
PyMem_RawFree = external("void PyMem_RawFree(ptr)")
PyList_Size = external("i64 PyList_Size(ptr)")
PyList_GetItem = external("ptr PyList_GetItem(ptr, i64)")
_PyType_Lookup = external("ptr _PyType_Lookup(ptr, ptr)")
PyFunction_GetCode = external("ptr PyFunction_GetCode(ptr)")
PyFunction_GetDefaults = external("ptr PyFunction_GetDefaults(ptr)")
PyFunction_GetKwDefaults = external("ptr PyFunction_GetKwDefaults(ptr)")
PyList_Type = external_data("PyList_Type")
PyUnicode_Type = external_data("PyUnicode_Type")
PyLong_Type = external_data("PyLong_Type")

# operands of TENSOR, in bytes
_LEAF, _CODE, _NDIM, _CONTIGUOUS, _GRAD, _POINTER, _DIMS, _STRIDES = 0, 8, 16, 24, 32, 40, 48, 56
# one interval of DISTINCT: first address, end address, 1 where it is written
_LOW, _HIGH, _WRITTEN, _INTERVAL = 0, 8, 16, 24
_STACK_INTERVALS = 32


def add_held(held: ptr, thing: ptr) -> None:
    """Adds a reference, which is the run's from here on, to those that end with it: a count and these."""
    count = load_i64(held, 0) + 1
    store_ptr(held, 8 * count, thing)
    store_i64(held, 0, count)


def guard_tensor(operands: ptr, leaves: ptr, held: ptr, slots: ptr) -> i64:
    """TENSOR: also keeps the ndarray alive in `held`, whatever happens to the Tensor meanwhile."""
    tensor = load_ptr(leaves, 8 * load_i64(operands, _LEAF))
    array = array_of(tensor)
    return guard_array(tensor, array, operands, held, slots) if array else 0


def guard_array(tensor: ptr, array: ptr, operands: ptr, held: ptr, slots: ptr) -> i64:
    """TENSOR, of a tensor over this array."""
    code = load_i64(operands, _CODE)
    ndim = load_i64(operands, _NDIM)
    if load_ptr(array, ARRAY_DESCRIPTOR) != load_ptr(context, DESCRIPTORS + 8 * code):
        return 0
    if load_i32(array, ARRAY_NDIM) != ndim:
        return 0
    contiguous = load_i64(operands, _CONTIGUOUS)
    wanted = ALIGNED_FLAG | CONTIGUOUS_FLAG if contiguous else ALIGNED_FLAG
    if (load_i32(array, ARRAY_FLAGS) & wanted) != wanted:
        return 0
    grad = load_i64(operands, _GRAD)
    if grad != 2:
        needs = load_ptr(tensor, load_i64(context, REQUIRES_GRAD)) == load_ptr(context, TRUE)
        if needs != grad:
            return 0
    dims = load_ptr(array, ARRAY_DIMS)
    to = slots + 8 * load_i64(operands, _DIMS)
    for i in range(ndim):
        store_i64(to, 8 * i, load_i64(dims, 8 * i))
    if not contiguous:
        item = load_i64(context, ITEM_SIZES + 8 * code)
        strides = load_ptr(array, ARRAY_STRIDES)
        to = slots + 8 * load_i64(operands, _STRIDES)
        for i in range(ndim):
            stride = load_i64(strides, 8 * i)
            if stride & (item - 1):
                return 0
            store_i64(to, 8 * i, stride // item)
    store_ptr(slots, 8 * load_i64(operands, _POINTER), load_ptr(array, ARRAY_DATA))
    hold(array)
    add_held(held, array)
    return 1


def guard_method(operands: ptr, objects: ptr) -> i64:
    """METHOD: nothing is looked up while the class has the version that it had before the last look.

    A class and those derived from it lose their version when it changes, and get a new one when they are looked at.
    """
    kind = load_ptr(objects, 8 * load_i64(operands, 0))
    version = 0
    if load_i64(context, VERSION):
        version = load_u32(kind, load_i64(context, VERSION))
    if version != 0 and version == load_i64(operands, 24):
        return 1
    name = load_ptr(objects, 8 * load_i64(operands, 8))
    if _PyType_Lookup(kind, name) != load_ptr(objects, 8 * load_i64(operands, 16)):
        return 0
    store_i64(operands, 24, version)
    return 1


def guard_definition(operands: ptr, objects: ptr) -> i64:
    """DEFINITION."""
    function = load_ptr(objects, 8 * load_i64(operands, 0))
    part = load_i64(operands, 8)
    value = load_ptr(objects, 8 * load_i64(operands, 16))
    if part == CODE:
        return PyFunction_GetCode(function) == value
    if part == DEFAULTS:
        return PyFunction_GetDefaults(function) == value
    return PyFunction_GetKwDefaults(function) == value


def _same_items(a: ptr, b: ptr) -> i64:
    """Whether two lists hold the same objects."""
    n = PyList_Size(a)
    if n != PyList_Size(b):
        return 0
    for i in range(n):
        if PyList_GetItem(a, i) != PyList_GetItem(b, i):
            return 0
    return 1


def guard_equal(a: ptr, b: ptr) -> i64:
    """EQUAL: strings, ints and lists of the same objects are compared here, others by `same_value` in Python."""
    if a == b:
        return 1
    kind = load_ptr(a, OBJECT_TYPE)
    if kind != load_ptr(b, OBJECT_TYPE):
        return 0
    if kind == PyUnicode_Type or kind == PyLong_Type:
        return PyObject_RichCompareBool(a, b, Py_EQ)
    if kind == PyList_Type:
        if _same_items(a, b) != 0:
            return 1
    answer = PyObject_CallFunctionObjArgs(load_ptr(context, SAME_VALUE), a, b, ptr(0))
    if answer == 0:
        return -1
    holds = PyObject_IsTrue(answer)
    Py_DecRef(answer)
    return holds


def read_integer(number: ptr, to: ptr) -> i64:
    """READ_INT: exact ints only, and only those of 64 bits."""
    if load_ptr(number, OBJECT_TYPE) != PyLong_Type:
        return 0
    overflow = buffer(8)
    store_i32(overflow, 0, 0)
    value = PyLong_AsLongLongAndOverflow(number, overflow)
    if load_i32(overflow, 0) != 0:
        return 0
    store_i64(to, 0, value)
    return 1


def _write_interval(array: ptr, to: ptr) -> i64:
    """Stores the first and the end address of an array's elements; both are 0 where it has none. Returns bytes."""
    low = load_i64(array, ARRAY_DATA)
    high = low
    ndim = load_i32(array, ARRAY_NDIM)
    dims = load_ptr(array, ARRAY_DIMS)
    strides = load_ptr(array, ARRAY_STRIDES)
    store_i64(to, _LOW, 0)
    store_i64(to, _HIGH, 0)
    for i in range(ndim):
        extent = load_i64(dims, 8 * i)
        if extent == 0:
            return 0
        reach = (extent - 1) * load_i64(strides, 8 * i)
        if reach < 0:
            low += reach
        else:
            high += reach
    descriptor = load_ptr(array, ARRAY_DESCRIPTOR)
    for code in range(N_HELD):
        if descriptor == load_ptr(context, DESCRIPTORS + 8 * code):
            high += load_i64(context, ITEM_SIZES + 8 * code)
            store_i64(to, _LOW, low)
            store_i64(to, _HIGH, high)
            return high - low
    return -1


def _can_be_written(array: ptr) -> bool:
    """Whether the array is writeable and no element of it stands in several places."""
    if not load_i32(array, ARRAY_FLAGS) & WRITEABLE_FLAG:
        return 0
    dims = load_ptr(array, ARRAY_DIMS)
    strides = load_ptr(array, ARRAY_STRIDES)
    shared = 0
    for i in range(load_i32(array, ARRAY_NDIM)):
        if load_i64(dims, 8 * i) == 0:
            return 1
        if load_i64(dims, 8 * i) > 1 and load_i64(strides, 8 * i) == 0:
            shared = 1
    return 1 - shared


def _sort_intervals(intervals: ptr, n: i64) -> None:
    """Shell sort by first address: quick where the order is nearly right already."""
    gap = n // 2
    while gap > 0:
        for i in range(gap, n):
            low = load_i64(intervals + i * _INTERVAL, _LOW)
            high = load_i64(intervals + i * _INTERVAL, _HIGH)
            written = load_i64(intervals + i * _INTERVAL, _WRITTEN)
            j = i
            while j >= gap and load_i64(intervals + (j - gap) * _INTERVAL, _LOW) > low:
                copy_bytes(intervals + j * _INTERVAL, intervals + (j - gap) * _INTERVAL, _INTERVAL)
                j -= gap
            store_i64(intervals + j * _INTERVAL, _LOW, low)
            store_i64(intervals + j * _INTERVAL, _HIGH, high)
            store_i64(intervals + j * _INTERVAL, _WRITTEN, written)
        gap //= 2


def _disjoint(intervals: ptr, n: i64) -> bool:
    """Whether no written interval meets another one; sorted, it is enough to know how far those before reach."""
    if n < 2:
        return 1
    _sort_intervals(intervals, n)
    end_of_written = 0
    end_of_all = 0
    for i in range(n):
        at = intervals + i * _INTERVAL
        low = load_i64(at, _LOW)
        high = load_i64(at, _HIGH)
        if low < (end_of_all if load_i64(at, _WRITTEN) else end_of_written):
            return 0
        if high > end_of_all:
            end_of_all = high
        if load_i64(at, _WRITTEN) and high > end_of_written:
            end_of_written = high
    return 1


def _leaf_of(operands: ptr, n_written: i64, i: i64) -> i64:
    """The i-th leaf of DISTINCT, written ones first."""
    return load_i64(operands, 8 * (1 + i if i < n_written else 2 + i))


def _listed_twice(operands: ptr, leaves: ptr, n_written: i64, n: i64, written: i64) -> bool:
    """Whether the written leaf is the same object as another one: asked for empty Tensors, which meet nothing."""
    tensor = load_ptr(leaves, 8 * _leaf_of(operands, n_written, written))
    for i in range(n):
        if i != written and load_ptr(leaves, 8 * _leaf_of(operands, n_written, i)) == tensor:
            return 1
    return 0


def _gather_intervals(operands: ptr, leaves: ptr, intervals: ptr, n_written: i64, n: i64) -> i64:
    """Fills `intervals`, leaving out empty arrays; returns how many there are, or -1 for a miss."""
    count = 0
    for i in range(n):
        array = any_array_of(load_ptr(leaves, 8 * _leaf_of(operands, n_written, i)))
        if array == 0:
            return -1
        if i < n_written and not _can_be_written(array):
            return -1
        size = _write_interval(array, intervals + count * _INTERVAL)
        if size < 0:
            return -1
        if size > 0:
            store_i64(intervals + count * _INTERVAL, _WRITTEN, i < n_written)
            count += 1
        elif i < n_written and _listed_twice(operands, leaves, n_written, n, i):
            return -1
    return count


def guard_different(operands: ptr, leaves: ptr) -> i64:
    """DIFFERENT: no two of the listed leaves are one object."""
    n = load_i64(operands, 0)
    for i in range(1, n):
        leaf = load_ptr(leaves, 8 * load_i64(operands, 8 + 8 * i))
        for j in range(i):
            if load_ptr(leaves, 8 * load_i64(operands, 8 + 8 * j)) == leaf:
                return 0
    return 1


def guard_writable(tensor: ptr) -> i64:
    """WRITABLE: a tensor is no view, made without gradients, of one that needs a gradient."""
    view = load_ptr(tensor, load_i64(context, VIEW))
    while view != load_ptr(context, NONE):
        if load_ptr(view, OBJECT_TYPE) != load_ptr(context, VIEW_TYPE):
            return 0
        answer = PyObject_GetAttrString(load_ptr(view, load_i64(context, VIEW_OP)), c_string("detaches"))
        if answer == 0:
            return -1
        Py_DecRef(answer)
        if answer == load_ptr(context, TRUE):
            return 1
        base = load_ptr(view, load_i64(context, VIEW_BASE))
        if not is_tensor(base) or load_ptr(base, load_i64(context, REQUIRES_GRAD)) == load_ptr(context, TRUE):
            return 0
        view = load_ptr(base, load_i64(context, VIEW))
    return 1


def guard_distinct(operands: ptr, leaves: ptr) -> i64:
    """DISTINCT: no written leaf is, or overlaps, another listed one."""
    n_written = load_i64(operands, 0)
    n = n_written + load_i64(operands, 8 + 8 * n_written)
    on_stack = buffer(768)  # _STACK_INTERVALS * _INTERVAL
    intervals = on_stack
    if n > _STACK_INTERVALS:
        intervals = PyMem_RawMalloc(n * _INTERVAL)
        if intervals == 0:
            PyErr_NoMemory()
            return -1
    count = _gather_intervals(operands, leaves, intervals, n_written, n)
    holds = 0
    if count >= 0:
        holds = _disjoint(intervals, count)
    if n > _STACK_INTERVALS:
        PyMem_RawFree(intervals)
    return holds
