"""What `direct` does where pairs of bfloat16 numbers are multiplied: two channels lie side by side, number by number.

A plane holds of two channels what a task reads, 16 planes what a block of products takes: a tap sees 16 consecutive
outputs' numbers in 64 bytes of each. Weights are packed in blocks of PAIR_ROWS rows, RUN channels and a tap.
"""

from __future__ import annotations

from eagerjit.runtime.native.convolution_plan import (
    CHANNELS,
    POINTS,
    ROWS,
    TAPS,
    W_CHANNEL,
    W_DEPTH,
    W_GROUP,
    W_LINE,
    W_ROW,
    W_STEP,
    W,
    minimum,
)
from eagerjit.runtime.native.copying import interleave
from eagerjit.runtime.native.direct_lines import copy_lines_read
from eagerjit.runtime.native.direct_plan import (
    ABREAST,
    CHANNEL_FLOATS,
    CHANNELS_COPIED,
    PACKED,
    PLACES,
    PLANE,
    RUN_OF_SUMS,
    reach,
    taps_order,
)
from eagerjit.runtime.native.language import (
    alternate_upper_halves,
    fill_bytes,
    i64,
    load_f32,
    load_i64,
    load_ptr,
    multiply_seen_pairs,
    ptr,
    store_f32,
    upper_halves,
)
from eagerjit.runtime.native.pairs import BLOCK, PAIR_ROWS, RUN, SIDE
from eagerjit.runtime.native.tiles import LANES
from eagerjit.runtime.native.windows import DEPTH, HEIGHT, KERNEL, WIDTH


def blocks_of(channels: i64) -> i64:
    """Blocks of channels that are multiplied at a time."""
    return (channels + RUN - 1) // RUN


def packed_block(job: ptr) -> i64:
    """Bytes of the weights of PAIR_ROWS rows."""
    return blocks_of(load_i64(job, CHANNELS)) * load_i64(job, TAPS) * 2 * BLOCK


def bytes_of_planes(job: ptr) -> i64:
    """Of the channels copied at a time, and what is read behind them for outputs that there are not."""
    behind = (reach(job, WIDTH) * load_i64(job, ABREAST) + PAIR_ROWS + LANES) * 4 & -64
    return blocks_of(load_i64(job, CHANNELS_COPIED)) * SIDE * load_i64(job, PLANE) + behind


def bytes_copied(job: ptr) -> i64:
    """Of planes, and of the lines of two channels behind them."""
    return bytes_of_planes(job) + 2 * load_i64(job, CHANNEL_FLOATS) * 4 + LANES * 4


def pack_pairs_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Blocks of rows of the weight, counted through all groups."""
    rows = load_i64(job, ROWS)
    channels = load_i64(job, CHANNELS)
    taps = load_i64(job, TAPS)
    blocks = (rows + PAIR_ROWS - 1) // PAIR_ROWS
    size = packed_block(job)
    for task in range(begin, end):
        first = task % blocks * PAIR_ROWS
        some_rows = minimum(PAIR_ROWS, rows - first)
        to: ptr = load_ptr(job, PACKED) + task * size
        if some_rows < PAIR_ROWS:
            fill_bytes(to, 0, size)
        row = task // blocks * load_i64(job, W_GROUP) + first * load_i64(job, W_ROW)
        for channel in range(0, channels, RUN):
            some = minimum(RUN, channels - channel)
            if some < RUN:
                fill_bytes(scratch, 0, taps * RUN * 4)
            for r in range(some_rows):
                at = row + r * load_i64(job, W_ROW) + channel * load_i64(job, W_CHANNEL)
                _gather_taps(job, scratch, load_ptr(job, W) + at * 4, some)
                place: ptr = to + r * (RUN * 2)
                for tap in range(taps):
                    upper_halves(place, scratch + tap * (RUN * 4))
                    place = place + 2 * BLOCK
            to = to + taps * 2 * BLOCK
    return 0


def _gather_taps(job: ptr, to: ptr, source: ptr, channels: i64) -> None:
    """Per tap the numbers of a row's channels side by side."""
    taps = load_i64(job, TAPS)
    order = taps_order(job)
    channel = load_i64(job, W_CHANNEL)
    if order == 1:
        interleave(to, RUN, source, channel, channels, taps)
        return
    if order == -1:
        interleave(to + (taps - 1) * RUN * 4, -RUN, source - (taps - 1) * 4, channel, channels, taps)
        return
    for z in range(load_i64(job, DEPTH + KERNEL)):
        for y in range(load_i64(job, HEIGHT + KERNEL)):
            seen: ptr = source + (z * load_i64(job, W_DEPTH) + y * load_i64(job, W_LINE)) * 4
            for _ in range(load_i64(job, WIDTH + KERNEL)):
                for c in range(channels):
                    store_f32(to, c * 4, load_f32(seen, c * channel * 4))
                to = to + RUN * 4
                seen = seen + load_i64(job, W_STEP) * 4


def copy_planes(job: ptr, to: ptr, source: ptr, channels: i64, images: i64, z: i64, y: i64, x: i64) -> None:
    """What a task reads of some channels, two at a time; zeros for channels that there are not."""
    plane = load_i64(job, PLANE)
    size = load_i64(job, CHANNEL_FLOATS) * 4
    first: ptr = to + bytes_of_planes(job)
    second: ptr = first + size
    for channel in range(0, channels, 2):
        some = minimum(2, channels - channel)
        if some == 1:
            fill_bytes(second, 0, size)
        copy_lines_read(job, first, source + channel * load_i64(job, POINTS) * 4, some, images, z, y, x)
        for at in range(0, size, LANES * 4):
            alternate_upper_halves(to + at, first + at, second + at)
        to = to + plane
    fill_bytes(to, 0, (blocks_of(channels) * SIDE - (channels + 1) // 2) * plane)


def multiply_planes(job: ptr, a: ptr, seen: ptr, out: ptr, vectors: i64, blocks: i64, channels: i64, more: i64) -> None:
    """Blocks of rows times so many vectors of outputs, made up to an even number.

    Where there is `more`, it is added to what `out` holds.
    """
    taps = load_i64(job, TAPS)
    plane = load_i64(job, PLANE)
    run = load_i64(job, RUN_OF_SUMS)
    size = packed_block(job)
    places: ptr = load_ptr(job, PLACES)
    for number in range(blocks_of(channels)):
        weights: ptr = a + number * taps * 2 * BLOCK
        row: ptr = out
        for _ in range(blocks):
            for vector in range(0, vectors, 2):
                at = vector * SIDE * 4
                multiply_seen_pairs(taps, weights, seen + at, places, plane, row + at, run, more or number > 0)
            row = row + PAIR_ROWS * run * 4
            weights = weights + size
        seen = seen + SIDE * plane
