"""A device's memory as native code hands it out: blocks that were freed, by stream and size, last in, first out.

They lie in front of the allocator (`runtime/gpu/allocator.py`), which takes them back when it has nothing else, so that
they join their neighbours. A block of which other streams or graphs know is the allocator's own from the start. All
calls hold the GIL; what is counted, is counted in the allocator's statistics.
"""

from __future__ import annotations

from eagerjit.runtime.native.context import (
    GIVE_BACK,
    MEMORY_BLOCK,
    MEMORY_DEVICE,
    MEMORY_PLACE,
    MEMORY_TYPE,
    NONE,
    context,
)
from eagerjit.runtime.native.language import (
    external,
    i64,
    load_i64,
    load_ptr,
    ptr,
    shift_right_unsigned,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.objects import Py_DecRef, Py_IncRef, PyLong_FromLongLong, PyType_GenericAlloc

PyObject_CallOneArg = external("ptr PyObject_CallOneArg(ptr, ptr)")
PyObject_CallFunctionObjArgs = external("ptr PyObject_CallFunctionObjArgs(ptr, ...)")
PyList_Append = external("i32 PyList_Append(ptr, ptr)")

# What is known of a device: objects, addresses of the driver's functions, then the table of blocks.
DEVICE_OBJECT, DEVICE_PLACE, ALLOCATE, FREE, COMPLAIN, STATISTICS = range(0, 48, 8)
LAUNCH_FUNCTION, FILL_FUNCTION, COPY_FUNCTION = range(48, 72, 8)
BINS = 72
N_BINS, BIN, BIN_STREAM, BIN_HEAD = 1024, 24, 8, 16  # per bin the size of its blocks (0: none yet), stream, first block
DEVICE_BYTES = BINS + N_BINS * BIN
PROBES = 16

# Words of blocks and of memory (`runtime/gpu/segments.py`, `runtime/gpu/memory.py`)
BLOCK_ADDRESS, BLOCK_SIZE, BLOCK_SEGMENT, BLOCK_REQUESTED, BLOCK_STREAM, BLOCK_SMALL = 16, 24, 32, 40, 48, 56
BLOCK_KEEPER = 64  # the device whose table may keep it; 0: none
BLOCK_NEXT = 72
MEMORY_ADDRESS, MEMORY_BYTES = 16, 24

GRAIN = 512
FACTOR = -7046029254386353131

# Gauges of the statistics: all blocks, then small ones, then large ones; of each what is now, at most, added, taken.
GAUGE, POOL = 32, 32 * 9
ALLOCATION, ACTIVE, SPLIT, ALLOCATED_BYTES, ACTIVE_BYTES, SPLIT_BYTES, REQUESTED_BYTES = 0, 2, 3, 4, 6, 7, 8


def _bin(keeper: ptr, size: i64, stream: i64) -> ptr:
    """The bin of a size and stream, a new one if need be; null where there is no place for it."""
    at = shift_right_unsigned((size ^ stream) * FACTOR, 54)
    for i in range(PROBES):
        entry = keeper + BINS + BIN * ((at + i) & (N_BINS - 1))
        if load_i64(entry, 0) == 0:
            store_i64(entry, 0, size)
            store_i64(entry, BIN_STREAM, stream)
            return entry
        if load_i64(entry, 0) == size and load_i64(entry, BIN_STREAM) == stream:
            return entry
    return 0


def _grow(pool: ptr, gauge: i64, amount: i64) -> None:
    at = pool + GAUGE * gauge
    now = load_i64(at, 0) + amount
    store_i64(at, 0, now)
    if now > load_i64(at, 8):
        store_i64(at, 8, now)
    store_i64(at, 16, load_i64(at, 16) + amount)


def _shrink(pool: ptr, gauge: i64, amount: i64) -> None:
    at = pool + GAUGE * gauge
    store_i64(at, 0, load_i64(at, 0) - amount)
    store_i64(at, 24, load_i64(at, 24) + amount)


def _count_taken(pool: ptr, block: ptr) -> None:
    size = load_i64(block, BLOCK_SIZE)
    _grow(pool, ALLOCATION, 1)
    _grow(pool, ALLOCATED_BYTES, size)
    _grow(pool, ACTIVE, 1)
    _grow(pool, ACTIVE_BYTES, size)
    _grow(pool, REQUESTED_BYTES, load_i64(block, BLOCK_REQUESTED))
    if size < load_i64(block, BLOCK_SEGMENT):
        _shrink(pool, SPLIT, 1)
        _shrink(pool, SPLIT_BYTES, size)


def _count_kept(pool: ptr, block: ptr) -> None:
    size = load_i64(block, BLOCK_SIZE)
    _shrink(pool, ALLOCATION, 1)
    _shrink(pool, ALLOCATED_BYTES, size)
    _shrink(pool, ACTIVE, 1)
    _shrink(pool, ACTIVE_BYTES, size)
    _shrink(pool, REQUESTED_BYTES, load_i64(block, BLOCK_REQUESTED))
    if size < load_i64(block, BLOCK_SEGMENT):
        _grow(pool, SPLIT, 1)
        _grow(pool, SPLIT_BYTES, size)


def _pool_of(keeper: ptr, block: ptr) -> ptr:
    return load_ptr(keeper, STATISTICS) + (POOL if load_i64(block, BLOCK_SMALL) else 2 * POOL)


def _rounded(size: i64) -> i64:
    return (size + GRAIN - 1) & -GRAIN if size > 0 else GRAIN


def kept_block(keeper: ptr, requested: i64, stream: i64) -> ptr:
    """A block (a new reference) that was freed by work of this stream, for a request of this many bytes; null: none."""
    entry = _bin(keeper, _rounded(requested), stream)
    if entry == 0:
        return 0
    block = load_ptr(entry, BIN_HEAD)
    if block:
        store_ptr(entry, BIN_HEAD, load_ptr(block, BLOCK_NEXT))
        store_ptr(block, BLOCK_NEXT, 0)
        store_i64(block, BLOCK_REQUESTED, requested)
        _count_taken(load_ptr(keeper, STATISTICS), block)
        _count_taken(_pool_of(keeper, block), block)
    return block


def keep_block(block: ptr) -> bool:
    """Keeps a block that nobody needs any more, and takes over the reference; 0 where it is the allocator's."""
    keeper = load_ptr(block, BLOCK_KEEPER)
    if keeper == 0:
        return 0
    entry = _bin(keeper, _rounded(load_i64(block, BLOCK_REQUESTED)), load_i64(block, BLOCK_STREAM))
    if entry == 0:
        return 0
    _count_kept(load_ptr(keeper, STATISTICS), block)
    _count_kept(_pool_of(keeper, block), block)
    store_ptr(block, BLOCK_NEXT, load_ptr(entry, BIN_HEAD))
    store_ptr(entry, BIN_HEAD, block)
    return 1


def block_for(keeper: ptr, requested: i64, stream: i64) -> ptr:
    """A block (a new reference) of at least so many bytes; null with an exception set."""
    block = kept_block(keeper, requested, stream)
    if block:
        return block
    size = PyLong_FromLongLong(requested)
    handle = PyLong_FromLongLong(stream)
    if size and handle:
        block = PyObject_CallFunctionObjArgs(load_ptr(keeper, ALLOCATE), size, handle, ptr(0))
    Py_DecRef(size)
    Py_DecRef(handle)
    return block


# -- as Python calls it -----------------------------------------------------------------------------------------------


def take_kept(keeper: ptr, requested: i64, stream: i64) -> ptr:
    """A block that was kept, or None."""
    block = kept_block(keeper, requested, stream)
    if block:
        return block
    Py_IncRef(load_ptr(context, NONE))
    return load_ptr(context, NONE)


def give_up_kept(keeper: ptr, blocks: ptr) -> i64:
    """Appends all blocks that are kept to a list, and keeps them no longer; -1 with an exception set."""
    for i in range(N_BINS):
        entry = keeper + BINS + BIN * i
        while load_ptr(entry, BIN_HEAD):
            block = load_ptr(entry, BIN_HEAD)
            if PyList_Append(blocks, block) != 0:
                return -1
            store_ptr(entry, BIN_HEAD, load_ptr(block, BLOCK_NEXT))
            store_ptr(block, BLOCK_NEXT, 0)
            Py_DecRef(block)
    return 0


def memory_for(keeper: ptr, size: i64, stream: i64) -> ptr:
    """Memory of a device for work in a stream, as an object; null with an exception set."""
    block = load_ptr(context, NONE)
    if size:
        block = block_for(keeper, size, stream)
        if block == 0:
            return 0
    else:
        Py_IncRef(block)
    memory = PyType_GenericAlloc(load_ptr(context, MEMORY_TYPE), 0)
    if memory == 0:
        Py_DecRef(block)
        return 0
    store_i64(memory, MEMORY_ADDRESS, load_i64(block, BLOCK_ADDRESS) if size else 0)
    store_i64(memory, MEMORY_BYTES, size)
    store_i64(memory, MEMORY_PLACE, load_i64(keeper, DEVICE_PLACE))
    store_ptr(memory, load_i64(context, MEMORY_BLOCK), block)
    device = load_ptr(keeper, DEVICE_OBJECT)
    Py_IncRef(device)
    store_ptr(memory, load_i64(context, MEMORY_DEVICE), device)
    return memory


def memory_dropped(memory: ptr, ignored: ptr) -> ptr:
    """DeviceMemory.__del__: METH_NOARGS."""
    none = load_ptr(context, NONE)
    slot = load_i64(context, MEMORY_BLOCK)
    block = load_ptr(memory, slot)
    Py_IncRef(none)
    if block == 0 or block == none:
        return none
    if keep_block(block):
        Py_IncRef(none)
        store_ptr(memory, slot, none)
        return none
    Py_DecRef(none)
    return PyObject_CallOneArg(load_ptr(context, GIVE_BACK), memory)
