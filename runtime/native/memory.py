"""The caching allocator: blocks of a few sizes, handed out again last in, first out. All calls hold the GIL.

Fresh memory is slow (the kernel zeroes each page on first touch), so released blocks are kept on one list per size
class: 64 bytes times powers of two in four steps, at most 25 % above what was asked. A free block's first word links
to the next. Cached bytes stay under a limit, and all bytes under twice the most that were in use at once: beyond these
the blocks of sizes that have not been asked for the longest go back to the C library.

Python looks for garbage by the number of its objects, not by the memory that these keep: it is told to when half as
much again is in use, and `UNSEEN` bytes, as it found to be needed.

`malloc` and its kin, named after the fields of NumPy's PyDataMem_Handler, let an ndarray own such a block.
"""

from __future__ import annotations

import sys

from eagerjit.runtime.native.agreed import ALLOCATED, CACHED, FRESH, LIMIT, PEAK, REUSED
from eagerjit.runtime.native.language import (
    address_of,
    buffer,
    copy_bytes,
    external,
    fill_bytes,
    global_bytes,
    i32,
    i64,
    leading_zeros,
    load_i64,
    load_ptr,
    multiply_overflows,
    ptr,
    store_i64,
    store_ptr,
    unlikely,
)

posix_memalign = external("i32 posix_memalign(ptr, i64, i64)")
free = external("void free(ptr)")
Py_AddPendingCall = external("i32 Py_AddPendingCall(ptr, ptr)")
PyGC_Collect = external("i64 PyGC_Collect()")
madvise = external("i32 madvise(ptr, i64, i32)")
usable_size = external(f"i64 {'malloc_size' if sys.platform == 'darwin' else 'malloc_usable_size'}(ptr)")

ALIGNMENT = 64
HUGE_PAGE = 2 << 20
MADV_HUGEPAGE = 14
LINUX = int(sys.platform == "linux")
MAXIMUM = 1 << 46
N_CLASSES = 4 * 42
SPARE = 64 << 20  # bytes that may be cached whatever is in use
UNSEEN = 256 << 20  # bytes that garbage may take whatever is in use

memory_counters = global_bytes(48)
_free_lists = global_bytes(8 * N_CLASSES)
_asked = global_bytes(8 * N_CLASSES)  # when a class was last asked for, by the count of blocks handed out
_most = global_bytes(8)  # bytes in use at once since the process began
_needed = global_bytes(8)  # most bytes that were in use after garbage was collected
_collecting = global_bytes(8)  # whether Python was told to collect garbage and has not done so yet


def _size_class(size: i64) -> i64:
    """Class number of a request of `size` bytes, 0 < size <= MAXIMUM."""
    rounded = (size + ALIGNMENT - 1) & -ALIGNMENT
    step_bits = 61 - leading_zeros(rounded)
    rounded = (rounded + (1 << step_bits) - 1) & -(1 << step_bits)
    exponent = 63 - leading_zeros(rounded)
    return (exponent - 6) * 4 + ((rounded >> (exponent - 2)) & 3)


def _class_bytes(number: i64) -> i64:
    return (4 + (number & 3)) << ((number >> 2) + 4)


def block_bytes_within(size: i64) -> i64:
    """Bytes of the largest block that fits into `size` bytes, at least 64."""
    number = _size_class(size)
    while _class_bytes(number) > size or _class_bytes(number) % ALIGNMENT != 0:
        number -= 1
    return _class_bytes(number)


def allocate(size: i64) -> ptr:
    """A 64-byte aligned block of at least `size` bytes, or 0 where there is no memory."""
    if unlikely(size <= 0):
        size = 1
    if unlikely(size > MAXIMUM):
        return 0
    number = _size_class(size)
    block_bytes = _class_bytes(number)
    block: ptr = load_ptr(_free_lists, number * 8)
    if unlikely(block == 0):
        block = _fresh(block_bytes)
        if block == 0:
            return 0
    else:
        store_ptr(_free_lists, number * 8, load_ptr(block))
        store_i64(memory_counters, CACHED, load_i64(memory_counters, CACHED) - block_bytes)
        store_i64(memory_counters, REUSED, load_i64(memory_counters, REUSED) + 1)
    store_i64(_asked, number * 8, load_i64(memory_counters, REUSED) + load_i64(memory_counters, FRESH))
    allocated = load_i64(memory_counters, ALLOCATED) + block_bytes
    store_i64(memory_counters, ALLOCATED, allocated)
    if allocated > load_i64(memory_counters, PEAK):
        store_i64(memory_counters, PEAK, allocated)
    return block


def _fresh(block_bytes: i64) -> ptr:
    """A block from the C library, after giving back the cached ones if that is what it takes."""
    result: ptr = buffer(8)
    wanted = load_i64(memory_counters, ALLOCATED) + block_bytes
    most = load_i64(memory_counters, PEAK)
    most = wanted if wanted > most else most
    if most > load_i64(_most, 0):
        store_i64(_most, 0, most)
    needed = load_i64(_needed, 0)
    if unlikely(wanted > needed + needed // 2 + UNSEEN) and load_i64(_collecting, 0) == 0:
        # Between two instructions of the program's, as what garbage leaves behind may call anything.
        store_i64(_collecting, 0, Py_AddPendingCall(address_of(_collect_garbage), 0) == 0)
    _give_back(wanted + load_i64(memory_counters, CACHED) - 2 * load_i64(_most, 0) - SPARE)
    huge = block_bytes >= HUGE_PAGE
    alignment = HUGE_PAGE if huge else ALIGNMENT
    if posix_memalign(result, alignment, block_bytes) != 0:
        empty_cache()
        if posix_memalign(result, alignment, block_bytes) != 0:
            return 0
    if huge and LINUX:
        madvise(load_ptr(result), block_bytes, i32(MADV_HUGEPAGE))
    store_i64(memory_counters, FRESH, load_i64(memory_counters, FRESH) + 1)
    return load_ptr(result)


def _collect_garbage(argument: ptr) -> i32:
    PyGC_Collect()
    needed = load_i64(memory_counters, ALLOCATED)
    if needed > load_i64(_needed, 0):
        store_i64(_needed, 0, needed)
    store_i64(_collecting, 0, 0)
    return 0


def release(block: ptr, size: i64) -> None:
    """Takes back a block of `allocate(size)`, or of any size of the same class."""
    if unlikely(block == 0):
        return
    if unlikely(size <= 0):
        size = 1
    number = _size_class(size)
    block_bytes = _class_bytes(number)
    store_i64(memory_counters, ALLOCATED, load_i64(memory_counters, ALLOCATED) - block_bytes)
    cached = load_i64(memory_counters, CACHED) + block_bytes
    if unlikely(block_bytes > load_i64(memory_counters, LIMIT)):
        free(block)
        return
    store_ptr(block, 0, load_ptr(_free_lists, number * 8))
    store_ptr(_free_lists, number * 8, block)
    store_i64(memory_counters, CACHED, cached)
    if unlikely(cached > load_i64(memory_counters, LIMIT)):
        _give_back(cached - load_i64(memory_counters, LIMIT))


def _give_back(excess: i64) -> None:
    """Gives so many bytes of cached blocks back to the C library, if there are as many; those not asked for first."""
    while excess > 0:
        oldest = -1
        for number in range(N_CLASSES):
            asked = load_i64(_asked, number * 8)
            if load_ptr(_free_lists, number * 8) != 0 and (oldest < 0 or asked < load_i64(_asked, oldest * 8)):
                oldest = number
        if oldest < 0:
            return
        block: ptr = load_ptr(_free_lists, oldest * 8)
        while block != 0 and excess > 0:
            following = load_ptr(block)
            free(block)
            store_i64(memory_counters, CACHED, load_i64(memory_counters, CACHED) - _class_bytes(oldest))
            excess -= _class_bytes(oldest)
            block = following
        store_ptr(_free_lists, oldest * 8, block)


def empty_cache() -> i64:
    """Gives all cached blocks back to the C library; returns their bytes."""
    for number in range(N_CLASSES):
        block: ptr = load_ptr(_free_lists, number * 8)
        store_ptr(_free_lists, number * 8, 0)
        while block != 0:
            following = load_ptr(block)
            free(block)
            block = following
    given_back = load_i64(memory_counters, CACHED)
    store_i64(memory_counters, CACHED, 0)
    return given_back


# -- NumPy's PyDataMem_Handler ----------------------------------------------------------------------------------------
def handler_malloc(context: ptr, size: i64) -> ptr:
    return allocate(size)


def handler_calloc(context: ptr, count: i64, size: i64) -> ptr:
    if multiply_overflows(count, size):
        return 0
    block = allocate(count * size)
    if block != 0:
        fill_bytes(block, 0, count * size)
    return block


def handler_realloc(context: ptr, block: ptr, size: i64) -> ptr:
    """Moves a block whose size NumPy does not tell.

    The C library knows it, exactly enough to tell its class; only for huge pages the bytes in use may come out too low.
    """
    if block == 0:
        return allocate(size)
    moved = allocate(size)
    if moved == 0:
        return 0
    old_size = usable_size(block)
    copy_bytes(moved, block, size if size < old_size else old_size)
    store_i64(memory_counters, ALLOCATED, load_i64(memory_counters, ALLOCATED) - block_bytes_within(old_size))
    free(block)
    return moved


def handler_free(context: ptr, block: ptr, size: i64) -> None:
    release(block, size)
