"""The thread pool: `parallel_for` splits a kernel's tasks over threads that wait in native code.

Workers are plain POSIX threads that never touch Python; the first large enough job starts them. Between jobs they spin
for some microseconds, then sleep on a futex. A job is published in one word, its gate: an open bit and the number of
workers inside. Workers enter only while it is open; the caller works too, closes the gate when no task is left, and
waits for those inside, so that workers slow to wake up delay nobody. One job runs at a time: a second caller, on
another thread or inside a kernel, does its tasks itself.

Every thread begins with a share of its own, the same for every job of as many tasks, so that kernel after kernel it
meets memory that its core's cache holds; then it helps with what is left of other shares.

Waking a worker that sleeps takes longer than a small job. So a job of medium size is split only if the workers are
awake, or would be, had the one before it been split.

Elsewhere than on Linux everything runs on the calling thread.
"""

from __future__ import annotations

import platform
import sys

from eagerjit.runtime.native.agreed import MAX_THREADS, OUT_OF_MEMORY, SPIN_NANOSECONDS, THREADS
from eagerjit.runtime.native.language import (
    address_of,
    atomic_add,
    atomic_add_i32,
    atomic_compare_exchange,
    atomic_exchange,
    atomic_load,
    atomic_load_i32,
    atomic_store,
    buffer,
    call_i64,
    external,
    global_bytes,
    i32,
    i64,
    load_i64,
    load_ptr,
    pause,
    ptr,
    store_i64,
    store_ptr,
    unlikely,
)
from eagerjit.runtime.native.memory import HUGE_PAGE, LINUX, MADV_HUGEPAGE, madvise

pthread_create = external("i32 pthread_create(ptr, ptr, ptr, ptr)")
pthread_detach = external("i32 pthread_detach(ptr)")
pthread_sigmask = external("i32 pthread_sigmask(i32, ptr, ptr)")
sigfillset = external("i32 sigfillset(ptr)")
syscall = external("i64 syscall(i64, ...)")
clock_gettime = external("i32 clock_gettime(i32, ptr)")
posix_memalign = external("i32 posix_memalign(ptr, i64, i64)")
free = external("void free(ptr)")

SYS_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine(), 0)
HAS_FUTEX = int(sys.platform == "linux" and SYS_FUTEX != 0)
FUTEX_WAIT_PRIVATE = 128
FUTEX_WAKE_PRIVATE = 129
CLOCK_MONOTONIC = 1
SIG_SETMASK = 2

RANGES_PER_THREAD = 16
STACK_SCRATCH = 16384
KEPT_SCRATCH = 1 << 28  # more scratch memory than that is given back
WORK_PER_THREAD = 30_000  # scalar operations for which handing them over is worth it: 2 to 5 microseconds
ENOUGH_WORK = 200_000  # worth handing over to any number of threads
WAKING_WORK = 400_000  # worth waking them for: 30 to 70 microseconds

# Further offsets in `thread_pool`; what different threads write lies on cache lines of its own.
STARTED = 8  # workers there are
BUSY = 64  # 1 while a job runs
GENERATION = 128  # counts jobs; workers sleep on its lower half
SLEEPERS = 192
GATE = 256  # OPEN while workers may enter, plus the number inside
CALLER_SLEEPS = 320
FAILURE = 384  # first task of the earliest failed range * FAILURE_STEP + its status + 1; NO_FAILURE
KERNEL = 448
ARGUMENTS = 456
SHARES = 464  # threads among which the tasks are shared out
RANGE = 472
SCRATCH_BYTES = 480
LAST = 512  # when a job of medium size last found the workers asleep

# Offsets in a thread's entry of `_shares`.
NEXT = 0  # first task not yet taken
END = 8
SHARE_BYTES = 64

OPEN = 1 << 20
INSIDE = OPEN - 1
FAILURE_STEP = 1 << 16
NO_FAILURE = (1 << 63) - 1

thread_pool = global_bytes(576)
_shares = global_bytes(SHARE_BYTES * MAX_THREADS)
_scratch = global_bytes(16 * MAX_THREADS)  # per thread: address, bytes; entry 0 is the caller's that holds BUSY

_alone = global_bytes(64)
"""Scratch memory of a call that takes no other thread: whether it is in use; its address, its bytes."""
ALONE_TAKEN = 0
ALONE_MEMORY = 16


def parallel_for(kernel: ptr, arguments: ptr, tasks: i64, scratch_bytes: i64, block: i64) -> i64:
    """Runs kernel(arguments, begin, end, scratch) over [0, tasks) on all threads; the first failed range's status.

    Ranges begin at multiples of `block`.
    """
    if not HAS_FUTEX:
        return serial_for(kernel, arguments, tasks, scratch_bytes)
    threads = thread_count()
    if threads == 1 or tasks <= 1 or atomic_exchange(thread_pool, BUSY, 1) != 0:
        return serial_for(kernel, arguments, tasks, scratch_bytes)
    if unlikely(load_i64(thread_pool, STARTED) < threads - 1):
        threads = _start_workers(threads)
    store_ptr(thread_pool, KERNEL, kernel)
    store_ptr(thread_pool, ARGUMENTS, arguments)
    _share_out(tasks, threads, block)
    store_i64(thread_pool, SCRATCH_BYTES, scratch_bytes)
    store_i64(thread_pool, FAILURE, NO_FAILURE)
    atomic_add(thread_pool, GATE, OPEN)
    atomic_add_i32(thread_pool, GENERATION, 1)
    if atomic_add(thread_pool, SLEEPERS, 0) > 0:
        syscall(SYS_FUTEX, thread_pool + GENERATION, FUTEX_WAKE_PRIVATE, threads - 1)
    _take_ranges(0)
    atomic_add(thread_pool, GATE, -OPEN)
    _wait_until_empty()
    failure = load_i64(thread_pool, FAILURE)
    atomic_store(thread_pool, BUSY, 0)
    if failure == NO_FAILURE:
        return 0
    return (failure & (FAILURE_STEP - 1)) - 1


def is_worth_threads(work: i64) -> i64:
    """Whether a job of so many scalar operations ends sooner if it is split."""
    if work < WORK_PER_THREAD * 2:
        return 0
    if work >= WAKING_WORK:
        return 1
    if work < ENOUGH_WORK and work < WORK_PER_THREAD * thread_count():
        return 0
    if atomic_load(thread_pool, SLEEPERS) == 0:
        return 1
    now = _nanoseconds()
    last = load_i64(thread_pool, LAST)
    store_i64(thread_pool, LAST, now)
    return now - last < 2 * load_i64(thread_pool, SPIN_NANOSECONDS)


def thread_count() -> i64:
    """The threads that jobs are split over, the caller included."""
    return load_i64(thread_pool, THREADS)


def serial_for(kernel: ptr, arguments: ptr, tasks: i64, scratch_bytes: i64) -> i64:
    """Runs all tasks on the calling thread."""
    if scratch_bytes <= STACK_SCRATCH:
        return call_i64(kernel, arguments, 0, tasks, buffer(STACK_SCRATCH))
    memory: ptr = _alone + ALONE_MEMORY
    kept = scratch_bytes <= KEPT_SCRATCH and atomic_exchange(_alone, ALONE_TAKEN, 1) == 0
    if not kept:
        memory = buffer(16)
        store_ptr(memory, 0, 0)
        store_i64(memory, 8, 0)
    status = OUT_OF_MEMORY
    if load_i64(memory, 8) >= scratch_bytes or _grow_scratch(memory, scratch_bytes):
        status = call_i64(kernel, arguments, 0, tasks, load_ptr(memory))
    if kept:
        atomic_store(_alone, ALONE_TAKEN, 0)
    else:
        free(load_ptr(memory))
    return status


def _share_out(tasks: i64, threads: i64, block: i64) -> None:
    """Gives every thread an equal share, to be taken in a few ranges."""
    blocks = (tasks + block - 1) // block
    step = blocks // (threads * RANGES_PER_THREAD)
    store_i64(thread_pool, RANGE, step * block if step > 0 else block)
    store_i64(thread_pool, SHARES, threads)
    begin = 0
    for index in range(threads):
        end = begin + (blocks - begin) // (threads - index)
        store_i64(_shares, index * SHARE_BYTES + NEXT, begin * block)
        store_i64(_shares, index * SHARE_BYTES + END, end * block if end < blocks else tasks)
        begin = end


def _take_ranges(index: i64) -> None:
    """Takes and runs ranges of tasks, first of the thread's own share, then of the others', until none is left."""
    shares = load_i64(thread_pool, SHARES)
    step = load_i64(thread_pool, RANGE)
    for turn in range(shares):
        share: ptr = _shares + (index + turn) % shares * SHARE_BYTES
        share_end = load_i64(share, END)
        begin = atomic_add(share, NEXT, step)
        # ranges after a failed one no longer matter, those before it do
        while begin < share_end and begin * FAILURE_STEP < atomic_load(thread_pool, FAILURE):
            end = begin + step if begin + step < share_end else share_end
            status = _run_range(index, begin, end)
            if unlikely(status != 0):
                _fail(begin * FAILURE_STEP + status + 1)
            begin = atomic_add(share, NEXT, step)


def _run_range(index: i64, begin: i64, end: i64) -> i64:
    scratch_bytes = load_i64(thread_pool, SCRATCH_BYTES)
    if load_i64(_scratch, index * 16 + 8) < scratch_bytes and not _grow_scratch(_scratch + index * 16, scratch_bytes):
        return OUT_OF_MEMORY
    scratch: ptr = load_ptr(_scratch, index * 16)
    return call_i64(load_ptr(thread_pool, KERNEL), load_ptr(thread_pool, ARGUMENTS), begin, end, scratch)


def _fail(failure: i64) -> None:
    """Keeps the failure of the earliest range, whoever reports first."""
    known = atomic_load(thread_pool, FAILURE)
    while failure < known and not atomic_compare_exchange(thread_pool, FAILURE, known, failure):
        known = atomic_load(thread_pool, FAILURE)


def _grow_scratch(memory: ptr, size: i64) -> i64:
    """Makes scratch memory, an address and its bytes, at least `size` bytes; 0 where there is none."""
    free(load_ptr(memory))
    store_ptr(memory, 0, 0)
    store_i64(memory, 8, 0)
    huge = LINUX and size >= HUGE_PAGE
    if posix_memalign(memory, HUGE_PAGE if huge else 64, size) != 0:
        store_ptr(memory, 0, 0)
        return 0
    if huge:
        madvise(load_ptr(memory), size, i32(MADV_HUGEPAGE))
    store_i64(memory, 8, size)
    return 1


# -- waiting ----------------------------------------------------------------------------------------------------------
def _nanoseconds() -> i64:
    time: ptr = buffer(16)
    clock_gettime(CLOCK_MONOTONIC, time)
    return load_i64(time) * 1000000000 + load_i64(time, 8)


def _wait_until_empty() -> None:
    """The caller waits for the workers inside the gate: it spins, then sleeps."""
    deadline = 0
    while atomic_load(thread_pool, GATE) != 0:
        for _ in range(16):
            pause()
        now = _nanoseconds()
        if deadline == 0:
            deadline = now + load_i64(thread_pool, SPIN_NANOSECONDS)
        if now > deadline:
            atomic_exchange(thread_pool, CALLER_SLEEPS, 1)
            inside = atomic_load_i32(thread_pool, GATE)
            if inside != 0:
                syscall(SYS_FUTEX, thread_pool + GATE, FUTEX_WAIT_PRIVATE, inside, 0)
            atomic_exchange(thread_pool, CALLER_SLEEPS, 0)


def _wait_for_job(seen: i64) -> None:
    """A worker waits until the generation differs from `seen`: it spins, then sleeps."""
    deadline = _nanoseconds() + load_i64(thread_pool, SPIN_NANOSECONDS)
    while atomic_load_i32(thread_pool, GENERATION) == seen:
        for _ in range(16):
            pause()
        if _nanoseconds() > deadline:
            atomic_add(thread_pool, SLEEPERS, 1)
            syscall(SYS_FUTEX, thread_pool + GENERATION, FUTEX_WAIT_PRIVATE, seen, 0)
            atomic_add(thread_pool, SLEEPERS, -1)


def _enter() -> i64:
    """Passes the gate if it is open and fewer threads are inside than are wanted now."""
    while True:
        gate = atomic_load(thread_pool, GATE)
        if gate < OPEN or (gate & INSIDE) >= load_i64(thread_pool, THREADS) - 1:
            return 0
        if atomic_compare_exchange(thread_pool, GATE, gate, gate + 1):
            return 1


def _worker(index: ptr) -> ptr:
    """The life of one worker: it never returns."""
    seen = 0
    while True:
        _wait_for_job(seen)
        seen = atomic_load_i32(thread_pool, GENERATION)
        if _enter():
            _take_ranges(index)
            atomic_add(thread_pool, GATE, -1)
            if atomic_add(thread_pool, CALLER_SLEEPS, 0) != 0:  # a read that stays behind the one before
                syscall(SYS_FUTEX, thread_pool + GATE, FUTEX_WAKE_PRIVATE, 1)


# -- starting ---------------------------------------------------------------------------------------------------------
def _start_workers(threads: i64) -> i64:
    """Starts the missing workers, with all signals blocked; returns the threads there are, the caller included."""
    every_signal: ptr = buffer(128)
    old_signals: ptr = buffer(128)
    handle: ptr = buffer(8)
    sigfillset(every_signal)
    pthread_sigmask(SIG_SETMASK, every_signal, old_signals)
    started = load_i64(thread_pool, STARTED)
    while started < threads - 1:
        if pthread_create(handle, 0, address_of(_worker), started + 1) != 0:
            store_i64(thread_pool, THREADS, started + 1)
            threads = started + 1
            break
        pthread_detach(load_ptr(handle))
        started += 1
    store_i64(thread_pool, STARTED, started)
    pthread_sigmask(SIG_SETMASK, old_signals, 0)
    return threads


def forget_threads() -> None:
    """In the child of a fork, which has none of the workers: the next job starts new ones."""
    store_i64(thread_pool, STARTED, 0)
    store_i64(thread_pool, GENERATION, 0)
    store_i64(thread_pool, SLEEPERS, 0)
    store_i64(thread_pool, GATE, 0)
    store_i64(thread_pool, CALLER_SLEEPS, 0)
    atomic_store(thread_pool, BUSY, 0)
    atomic_store(_alone, ALONE_TAKEN, 0)


def noop_kernel(arguments: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """A kernel without work, for measuring what dispatch costs."""
    return 0
