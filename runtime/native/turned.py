"""The input's gradient as convolutions of Y, one per phase of the stride, with its taps of the weight turned around.

Places of X whose distances are multiples of the stride are seen by the same taps. They are what a convolution of Y of
stride 1 gives, written as far apart as the stride says.
"""

from __future__ import annotations

from eagerjit.runtime.native.convolution_plan import (
    CHANNELS,
    GROUPS,
    ITEM,
    JOB_BYTES,
    POINTS,
    ROWS,
    TAPS,
    W_CHANNEL,
    W_DEPTH,
    W_GROUP,
    W_LINE,
    W_ROW,
    W_STEP,
    Y_DEPTH,
    Y_LINE,
    Y_ROW,
    Y_STEP,
    W,
    X,
    Y,
    note_plain,
    product,
    set_sizes,
    work_of,
)
from eagerjit.runtime.native.language import (
    address_of,
    buffer,
    copy_bytes,
    i64,
    load_i32,
    load_i64,
    load_ptr,
    ptr,
    store_i32,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.threads import is_worth_threads, parallel_for
from eagerjit.runtime.native.windows import (
    DEPTH,
    DILATION,
    DIMENSION_BYTES,
    HEIGHT,
    INPUT,
    KERNEL,
    OUTPUT,
    PADDING,
    STRIDE,
    WIDTH,
)


def is_turned(job: ptr) -> i64:
    """Whether the sizes allow it, and there is something to add up."""
    if work_of(job) == 0:
        return 0
    phases = product(job, STRIDE)
    if phases > 1 and product(job, KERNEL) <= phases:
        return 0  # each place is seen by one tap, if any
    for d in range(3):
        at = d * DIMENSION_BYTES
        kernel = load_i64(job, at + KERNEL)
        step = load_i64(job, at + STRIDE)
        if step == 1 and (kernel - 1) * load_i64(job, at + DILATION) < load_i64(job, at + PADDING):
            return 0
        if step > kernel or (step > 1 and load_i64(job, at + DILATION) > 1):
            return 0
    return 1


def take_phase(job: ptr, phase: ptr, number: i64) -> i64:
    """Make of a job that of a phase, its taps of the weight in reverse where they lie; 0 where it has no places."""
    copy_bytes(phase, job, JOB_BYTES)
    first_place = 0
    last_tap = 0
    apart = 1
    for d in range(2, -1, -1):
        at = d * DIMENSION_BYTES
        step = load_i64(job, at + STRIDE)
        size = load_i64(job, at + INPUT)
        padding = load_i64(job, at + PADDING)
        tap = number % step
        number = number // step
        first = ((tap - padding) % step + step) % step
        taps = (load_i64(job, at + KERNEL) - tap + step - 1) // step
        count = (size - first + step - 1) // step
        if first >= size:
            return 0
        store_i64(phase, at + INPUT, load_i64(job, at + OUTPUT))
        store_i64(phase, at + KERNEL, taps)
        store_i64(phase, at + OUTPUT, count)
        store_i64(phase, at + STRIDE, 1)
        store_i64(phase, at + PADDING, (taps - 1) * load_i64(job, at + DILATION) - (first + padding - tap) // step)
        first_place += first * apart
        last_tap += (tap + (taps - 1) * step) * load_i64(job, W_DEPTH + d * 8)
        apart *= size
    item = load_i64(job, ITEM)
    store_i64(phase, CHANNELS, load_i64(job, ROWS))
    store_i64(phase, ROWS, load_i64(job, CHANNELS))
    store_ptr(phase, X, load_ptr(job, Y))
    store_ptr(phase, Y, load_ptr(job, X) + first_place * item)
    store_ptr(phase, W, load_ptr(job, W) + last_tap * item)
    set_sizes(phase)
    line = load_i64(job, WIDTH + INPUT)
    plane = load_i64(job, HEIGHT + INPUT) * line
    store_i64(phase, Y_STEP, load_i64(job, WIDTH + STRIDE))
    store_i64(phase, Y_LINE, load_i64(job, HEIGHT + STRIDE) * line)
    store_i64(phase, Y_DEPTH, load_i64(job, DEPTH + STRIDE) * plane)
    store_i64(phase, Y_ROW, load_i64(job, POINTS))
    store_i64(phase, W_GROUP, load_i64(job, W_GROUP))
    store_i64(phase, W_ROW, load_i64(job, W_CHANNEL))
    store_i64(phase, W_CHANNEL, load_i64(job, W_ROW))
    for d in range(3):
        between = load_i64(job, W_DEPTH + d * 8) * load_i64(job, d * DIMENSION_BYTES + STRIDE)
        store_i64(phase, W_DEPTH + d * 8, -between)
    note_plain(phase)
    return 1


def lay_out_weight(job: ptr, to: ptr) -> None:
    """Copy a phase's weight in the order in which a convolution reads it, for which it is from then on."""
    both: ptr = buffer(16)
    store_ptr(both, 0, job)
    store_ptr(both, 8, to)
    rows = load_i64(job, GROUPS) * load_i64(job, ROWS)
    if is_worth_threads(rows * load_i64(job, CHANNELS) * load_i64(job, TAPS)):
        parallel_for(address_of(_lay_out_kernel), both, rows, 0, 1)
    else:
        _lay_out_kernel(both, 0, rows, ptr(0))
    store_ptr(job, W, to)


def _lay_out_kernel(both: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """The weights of rows begin..end, counted through all groups."""
    job: ptr = load_ptr(both, 0)
    rows = load_i64(job, ROWS)
    item = load_i64(job, ITEM)
    step = load_i64(job, W_STEP)
    for task in range(begin, end):
        to: ptr = load_ptr(both, 8) + task * load_i64(job, CHANNELS) * load_i64(job, TAPS) * item
        row = task // rows * load_i64(job, W_GROUP) + task % rows * load_i64(job, W_ROW)
        source: ptr = load_ptr(job, W) + row * item
        for _ in range(load_i64(job, CHANNELS)):
            for z in range(load_i64(job, DEPTH + KERNEL)):
                for y in range(load_i64(job, HEIGHT + KERNEL)):
                    seen: ptr = source + (z * load_i64(job, W_DEPTH) + y * load_i64(job, W_LINE)) * item
                    for x in range(load_i64(job, WIDTH + KERNEL)):
                        if item == 4:
                            store_i32(to, x * 4, load_i32(seen, x * step * 4))
                        else:
                            store_i64(to, x * 8, load_i64(seen, x * step * 8))
                    to = to + load_i64(job, WIDTH + KERNEL) * item
            source = source + load_i64(job, W_CHANNEL) * item
    return 0
