"""Programs on a device: guards on tensors that lie there, results in its memory, launches.

All calls hold the GIL: a launch only queues work.
"""

from __future__ import annotations

from eagerjit.runtime.mode import DEVICE, STREAM, WATCHED_WORD
from eagerjit.runtime.native.agreed import BESIDE
from eagerjit.runtime.native.context import (
    ALIGNED_FLAG,
    ARRAY_DATA,
    ARRAY_DESCRIPTOR,
    ARRAY_DIMS,
    ARRAY_FLAGS,
    ARRAY_NDIM,
    CONTIGUOUS_FLAG,
    DATA,
    DESCRIPTORS,
    DEVICE_ARRAY_ADDRESS,
    DEVICE_ARRAY_MEMORY,
    DEVICE_ARRAY_TYPE,
    EXECUTABLE_DEVICE,
    EXECUTABLE_FUNCTIONS,
    FLAGS_KEY,
    ITEM_SIZES,
    MEMORY_DEVICE,
    MEMORY_TYPE,
    MODE_WORDS,
    NEW_FROM_DESCRIPTOR,
    OBJECT_TYPE,
    REQUIRES_GRAD,
    STORAGE,
    TRUE,
    WRITEABLE_FLAG,
    context,
)
from eagerjit.runtime.native.descriptors import give_maps
from eagerjit.runtime.native.device_memory import (
    BLOCK_ADDRESS,
    COMPLAIN,
    COPY_FUNCTION,
    DEVICE_OBJECT,
    FILL_FUNCTION,
    FREE,
    LAUNCH_FUNCTION,
    PyObject_CallFunctionObjArgs,
    block_for,
    keep_block,
    memory_for,
)
from eagerjit.runtime.native.flags import PyThread_tss_get
from eagerjit.runtime.native.guards import add_held, guard_array
from eagerjit.runtime.native.language import (
    buffer,
    call_i32,
    call_ptr,
    external,
    i32,
    i64,
    load_i32,
    load_i64,
    load_ptr,
    multiply_overflows,
    ptr,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.loads import PyLong_AsSsize_t
from eagerjit.runtime.native.objects import (
    Py_DecRef,
    Py_IncRef,
    PyErr_NoMemory,
    PyLong_FromLongLong,
    hold,
    is_tensor,
    not_a_tensor,
    replace_slot,
    storage_of,
    tensor_over,
)
from eagerjit.runtime.native.ready import (
    READY_COUNT,
    READY_COUNTERS,
    READY_FUNCTION,
    READY_GRID,
    READY_MAPS,
    READY_PARTIALS,
    READY_PICKS,
    READY_SHARED,
    READY_TABLES,
    READY_THREADS,
    ready_launch,
)

PyErr_Fetch = external("void PyErr_Fetch(ptr, ptr, ptr)")
PyErr_Restore = external("void PyErr_Restore(ptr, ptr, ptr)")

NOWHERE = 64  # where the elements of an array without any lie: NumPy takes memory for it at null

# Words beside a kernel's own


def device_is_ready(keeper: ptr) -> bool:
    """Whether the device's context is this thread's, in no capture, and nobody watches what it is given."""
    words = PyThread_tss_get(load_ptr(context, FLAGS_KEY))
    if words == 0 or load_ptr(words, DEVICE) != keeper:
        return 0
    return load_i64(load_ptr(context, MODE_WORDS), 8 * WATCHED_WORD) == 0


def this_stream() -> i64:
    """This thread's stream on the device that is ready."""
    return load_i64(PyThread_tss_get(load_ptr(context, FLAGS_KEY)), STREAM)


def array_on(thing: ptr, keeper: ptr) -> ptr:
    """The array under a tensor that lies on a device; null for anything else."""
    if not is_tensor(thing):
        return 0
    array = load_ptr(thing, load_i64(context, DATA))
    if array == 0 or load_ptr(array, OBJECT_TYPE) != load_ptr(context, DEVICE_ARRAY_TYPE):
        return 0
    memory = load_ptr(array, load_i64(context, DEVICE_ARRAY_MEMORY))
    if memory == 0 or load_ptr(memory, OBJECT_TYPE) != load_ptr(context, MEMORY_TYPE):
        return 0
    if load_ptr(memory, load_i64(context, MEMORY_DEVICE)) != load_ptr(keeper, DEVICE_OBJECT):
        return 0
    return array


def address_on(array: ptr) -> i64:
    """Where the elements of an array on a device lie; null for one without any."""
    dims = load_ptr(array, ARRAY_DIMS)
    for i in range(load_i32(array, ARRAY_NDIM)):
        if load_i64(dims, 8 * i) == 0:
            return 0
    return load_i64(array, ARRAY_DATA)


def guard_there(keeper: ptr, operands: ptr, leaves: ptr, held: ptr, slots: ptr) -> i64:
    """TENSOR, of one that lies on the device."""
    tensor = load_ptr(leaves, 8 * load_i64(operands, 0))
    array = array_on(tensor, keeper)
    holds = 0
    if array:
        holds = guard_array(tensor, array, operands, held, slots)
        store_i64(slots, 8 * load_i64(operands, 40), address_on(array))
    return holds


def guard_captured_there(keeper: ptr, operands: ptr, objects: ptr, leaves: ptr, held: ptr, slots: ptr) -> i64:
    """CAPTURED, of one that lies on the device: borrowed from the executable, its array held."""
    tensor = load_ptr(objects, 8 * load_i64(operands, 8))
    array = array_on(tensor, keeper)
    if array == 0 or load_ptr(array, ARRAY_DESCRIPTOR) != load_ptr(context, DESCRIPTORS + 8 * load_i64(operands, 16)):
        return 0
    wanted = ALIGNED_FLAG | CONTIGUOUS_FLAG
    rank = load_i64(operands, -8) - 5
    if load_i32(array, ARRAY_NDIM) != rank or (load_i32(array, ARRAY_FLAGS) & wanted) != wanted:
        return 0
    grad = load_i64(operands, 24)
    if grad != 2 and (load_ptr(tensor, load_i64(context, REQUIRES_GRAD)) == load_ptr(context, TRUE)) != grad:
        return 0
    dims = load_ptr(array, ARRAY_DIMS)
    for i in range(rank):
        if load_i64(dims, 8 * i) != load_i64(operands, 40 + 8 * i):
            return 0
    store_i64(slots, 8 * load_i64(operands, 32), address_on(array))
    store_ptr(leaves, 8 * load_i64(operands, 0), tensor)
    hold(array)
    add_held(held, array)
    return 1


# -- results ----------------------------------------------------------------------------------------------------------


def _array_over(memory: ptr, code: i64, ndim: i64, dims: ptr, strides: ptr, address: i64, flags: i64) -> ptr:
    """A tensor over memory of a device, of which it takes over the reference; null with an exception set."""
    size = 1
    for i in range(ndim):
        size *= load_i64(dims, 8 * i)
    descriptor = load_ptr(context, DESCRIPTORS + 8 * code)
    number = PyLong_FromLongLong(address if size else 0)
    array: ptr = 0
    if number:
        Py_IncRef(descriptor)
        array = call_ptr(
            load_ptr(context, NEW_FROM_DESCRIPTOR),
            load_ptr(context, DEVICE_ARRAY_TYPE),
            descriptor,
            i32(ndim),
            dims,
            strides,
            ptr(address if size else NOWHERE),
            i32(flags),
            ptr(0),
        )
    if array:
        replace_slot(array, load_i64(context, DEVICE_ARRAY_MEMORY), memory)
        replace_slot(array, load_i64(context, DEVICE_ARRAY_ADDRESS), number)
    Py_DecRef(memory)
    Py_DecRef(number)
    return tensor_over(array) if array else ptr(0)


def fresh_there(keeper: ptr, code: i64, ndim: i64, slots: ptr, dim_slots: ptr, pointer_slot: i64) -> ptr:
    """OUTPUT: a Tensor over fresh memory of the device; its address goes to `slots[pointer_slot]`."""
    dims = buffer(256)
    size = load_i64(context, ITEM_SIZES + 8 * code)
    for i in range(ndim):
        extent = load_i64(slots, 8 * load_i64(dim_slots, 8 * i))
        store_i64(dims, 8 * i, extent)
        if extent < 0 or multiply_overflows(size, extent):
            return PyErr_NoMemory()
        size *= extent
    memory = memory_for(keeper, size, this_stream())
    if memory == 0:
        return 0
    address = load_i64(memory, 16)
    store_i64(slots, 8 * pointer_slot, address)
    flags = CONTIGUOUS_FLAG | ALIGNED_FLAG | WRITEABLE_FLAG
    return _array_over(memory, code, ndim, dims, ptr(0), address, flags)


def view_there(keeper: ptr, base: ptr, code: i64, ndim: i64, slots: ptr, sizes: ptr, data: i64) -> ptr:
    """OUTPUT_VIEW: a Tensor that views the memory of `base`, dims and strides named by slot in `sizes`."""
    dims = buffer(256)
    strides = buffer(256)
    item = load_i64(context, ITEM_SIZES + 8 * code)
    for i in range(ndim):
        store_i64(dims, 8 * i, load_i64(slots, 8 * load_i64(sizes, 8 * i)))
        store_i64(strides, 8 * i, item * load_i64(slots, 8 * load_i64(sizes, 8 * (ndim + i))))
    owner = array_on(base, keeper)
    if owner == 0:
        not_a_tensor()
        return 0
    storage = storage_of(base)
    if storage == 0:
        return 0
    memory = load_ptr(owner, load_i64(context, DEVICE_ARRAY_MEMORY))
    Py_IncRef(memory)
    flags = load_i32(owner, ARRAY_FLAGS) & WRITEABLE_FLAG
    tensor = _array_over(memory, code, ndim, dims, strides, data, flags)
    if tensor:
        replace_slot(tensor, load_i64(context, STORAGE), storage)
    return tensor


# -- work -------------------------------------------------------------------------------------------------------------


def temporary(keeper: ptr, size: i64, arenas: ptr) -> i64:
    """The address of memory until the run ends, noted in `arenas`; 0 with an exception set."""
    block = block_for(keeper, size, this_stream())
    if block == 0:
        return 0
    store_ptr(arenas, 0, block)
    return load_i64(block, BLOCK_ADDRESS)


def end_temporaries(keeper: ptr, arenas: ptr, n: i64) -> None:
    """Gives back temporary memory; an exception that is set stays."""
    for i in range(n):
        block = load_ptr(arenas, 16 * i)
        store_ptr(arenas, 16 * i, 0)
        if block != 0 and not keep_block(block):
            raised = buffer(24)
            PyErr_Fetch(raised, raised + 8, raised + 16)
            Py_DecRef(PyObject_CallFunctionObjArgs(load_ptr(keeper, FREE), block, ptr(0)))
            PyErr_Restore(load_ptr(raised, 0), load_ptr(raised, 8), load_ptr(raised, 16))
            Py_DecRef(block)


def _complain(keeper: ptr, status: i64) -> i64:
    """Sets the exception of a status of the driver; -1."""
    number = PyLong_FromLongLong(status)
    if number:
        Py_DecRef(PyObject_CallFunctionObjArgs(load_ptr(keeper, COMPLAIN), number, ptr(0)))
        Py_DecRef(number)
    return -1


def words_of_checks(function: ptr, slots: ptr) -> i64:
    """Where the kernels of a run report what they find wrong; 0 with an exception set."""
    address = PyLong_FromLongLong(i64(slots))
    if address == 0:
        return 0
    found = PyObject_CallFunctionObjArgs(function, address, ptr(0))
    Py_DecRef(address)
    if found == 0:
        return 0
    words = PyLong_AsSsize_t(found)
    Py_DecRef(found)
    return words


def launch_there(executable: ptr, operands: ptr, slots: ptr, arguments: ptr, arenas: ptr, reports: i64) -> i64:
    """KERNEL: 1, or -1 with an exception set. It may note two temporaries in `arenas`.

    The operand for scratch memory, which no kernel of a device has, is the kernel's place among those that report.
    """
    keeper = load_ptr(executable, EXECUTABLE_DEVICE)
    tasks = load_i64(slots, 8 * load_i64(operands, 8))
    if tasks <= 0:
        return 1
    n = load_i64(operands, 32)
    for i in range(n):
        store_i64(arguments, 8 * i, load_i64(slots, 8 * load_i64(operands, 40 + 8 * i)))
    table = load_ptr(load_ptr(executable, EXECUTABLE_FUNCTIONS), 8 * load_i64(operands, 0))
    launch = ready_launch(table, tasks, arguments)
    if launch == 0:
        return -1
    beside = arguments + 8 * n
    stream = this_stream()
    store_i64(beside, 0, tasks)
    store_i64(beside, 8, reports + 4 * load_i64(operands, 24))
    store_i64(beside, 16, load_i64(launch, READY_TABLES))
    store_i64(beside, 24, 0)
    store_i64(beside, 32, 0)
    store_i64(beside, 40, 0)
    counters = load_i64(launch, READY_COUNTERS)
    if counters:
        partials = temporary(keeper, load_i64(launch, READY_PARTIALS), arenas)
        if partials == 0:
            return -1
        counting = temporary(keeper, 4 * counters, arenas + 16)
        if counting == 0:
            return -1
        store_i64(beside, 24, partials)
        store_i64(beside, 32, counting)
        status = call_i32(load_ptr(keeper, FILL_FUNCTION), counting, i32(0), counters, ptr(stream))
        if status:
            return _complain(keeper, status)
    given = beside + 8 * BESIDE
    count = load_i64(launch, READY_COUNT)
    pointers = given + 8 * count
    picks = load_ptr(launch, READY_PICKS)
    for i in range(count):
        store_i64(given, 8 * i, load_i64(arguments, 8 * load_i64(picks, 8 * i)))
        store_ptr(pointers, 8 * i, given + 8 * i)
    maps = load_ptr(launch, READY_MAPS)
    status = give_maps(maps, given, pointers) if maps else 0
    if status:
        return _complain(keeper, status)
    status = call_i32(
        load_ptr(keeper, LAUNCH_FUNCTION),
        load_ptr(launch, READY_FUNCTION),
        i32(load_i64(launch, READY_GRID)),
        i32(load_i64(launch, READY_GRID + 8)),
        i32(load_i64(launch, READY_GRID + 16)),
        i32(load_i64(launch, READY_THREADS)),
        i32(1),
        i32(1),
        i32(load_i64(launch, READY_SHARED)),
        ptr(stream),
        pointers,
        ptr(0),
    )
    return _complain(keeper, status) if status else 1


def copy_there(keeper: ptr, target: i64, source: i64, size: i64) -> i64:
    """COPY: 1, or -1 with an exception set."""
    status = 0
    if size > 0:
        status = call_i32(load_ptr(keeper, COPY_FUNCTION), target, source, size, ptr(this_stream()))
    return _complain(keeper, status) if status else 1
