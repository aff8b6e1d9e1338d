"""The input's gradient as convolutions of Y, one per phase of the stride, with its taps of the weight turned around.

Places of X whose distances are multiples of the stride are seen by the same taps. They are what a convolution of Y of
stride 1 gives, written as far apart as the stride says.
"""

from __future__ import annotations

from eagerjit.runtime.native.convolution_plan import (
    CHANNELS,
    GROUPS,
    IMAGES,
    ITEM,
    JOB_BYTES,
    MANY_POSITIONS,
    PLAIN,
    POINTS,
    ROWS,
    TAPS,
    W_TURNED,
    Y_DEPTH,
    Y_LINE,
    Y_ROW,
    Y_STEP,
    W,
    X,
    Y,
    product,
    set_sizes,
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
from eagerjit.runtime.native.products import SERIAL_WORK
from eagerjit.runtime.native.threads import parallel_for
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
    """Whether this pays, and the sizes allow it."""
    if load_i64(job, IMAGES) * product(job, OUTPUT) < MANY_POSITIONS:
        return 0
    if load_i64(job, ROWS) == 0 or load_i64(job, CHANNELS) == 0:
        return 0
    phases = product(job, STRIDE)
    if phases > 1 and product(job, KERNEL) <= phases:
        return 0  # nothing to add up: each place is seen by one tap, if any
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
    """Make of a job that of a phase, but for its weight; 0 where it has no places."""
    copy_bytes(phase, job, JOB_BYTES)
    first_place = 0
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
        apart *= size
    store_i64(phase, CHANNELS, load_i64(job, ROWS))
    store_i64(phase, ROWS, load_i64(job, CHANNELS))
    store_ptr(phase, X, load_ptr(job, Y))
    store_ptr(phase, Y, load_ptr(job, X) + first_place * load_i64(job, ITEM))
    store_ptr(phase, W, load_ptr(job, W_TURNED))
    set_sizes(phase)
    line = load_i64(job, WIDTH + INPUT)
    plane = load_i64(job, HEIGHT + INPUT) * line
    store_i64(phase, Y_STEP, load_i64(job, WIDTH + STRIDE))
    store_i64(phase, Y_LINE, load_i64(job, HEIGHT + STRIDE) * line)
    store_i64(phase, Y_DEPTH, load_i64(job, DEPTH + STRIDE) * plane)
    store_i64(phase, Y_ROW, load_i64(job, POINTS))
    store_i64(phase, PLAIN, 0)
    return 1


def turn_weight(job: ptr, phase: ptr, number: i64) -> None:
    """The taps of a phase in reverse, rows and channels exchanged."""
    both: ptr = buffer(24)
    store_ptr(both, 0, job)
    store_ptr(both, 8, phase)
    store_i64(both, 16, number)
    tasks = load_i64(job, GROUPS) * load_i64(job, CHANNELS)
    if tasks * load_i64(job, ROWS) * load_i64(phase, TAPS) < SERIAL_WORK:
        _turn_kernel(both, 0, tasks, ptr(0))
    else:
        parallel_for(address_of(_turn_kernel), both, tasks, 0)


def _turn_kernel(both: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """The weights of channels begin..end, counted through all groups."""
    job: ptr = load_ptr(both, 0)
    phase: ptr = load_ptr(both, 8)
    number = load_i64(both, 16)
    channels = load_i64(job, CHANNELS)
    rows = load_i64(job, ROWS)
    item = load_i64(job, ITEM)
    taps = load_i64(job, TAPS)
    step = load_i64(job, WIDTH + STRIDE)
    high_step = load_i64(job, HEIGHT + STRIDE)
    line = load_i64(job, WIDTH + KERNEL)
    plane = load_i64(job, HEIGHT + KERNEL) * line
    right = number % step + (load_i64(phase, WIDTH + KERNEL) - 1) * step
    low = number // step % high_step + (load_i64(phase, HEIGHT + KERNEL) - 1) * high_step
    back = number // step // high_step + (load_i64(phase, DEPTH + KERNEL) - 1) * load_i64(job, DEPTH + STRIDE)
    last = back * plane + low * line + right
    for task in range(begin, end):
        to: ptr = load_ptr(phase, W) + task * rows * load_i64(phase, TAPS) * item
        channel = task // channels * rows * channels + task % channels
        source: ptr = load_ptr(job, W) + (channel * taps + last) * item
        for _ in range(rows):
            for z in range(load_i64(phase, DEPTH + KERNEL)):
                for y in range(load_i64(phase, HEIGHT + KERNEL)):
                    seen: ptr = source - (z * load_i64(job, DEPTH + STRIDE) * plane + y * high_step * line) * item
                    for x in range(load_i64(phase, WIDTH + KERNEL)):
                        if item == 4:
                            store_i32(to, x * 4, load_i32(seen, -x * step * 4))
                        else:
                            store_i64(to, x * 8, load_i64(seen, -x * step * 8))
                    to = to + load_i64(phase, WIDTH + KERNEL) * item
            source = source + channels * taps * item
    return 0
