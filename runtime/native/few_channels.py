"""The weight's gradient of float32 convolutions of few channels: what each tap sees times rows of Y, these innermost.

A task copies the input lines that some outputs read, zeros around them, so that what a tap sees of the outputs is the
same run of places from another start. For TILE_ROWS taps at a time what they see is multiplied in registers with
vectors over rows of Y.
"""

from __future__ import annotations

from eagerjit.runtime.native.agreed import OUT_OF_MEMORY
from eagerjit.runtime.native.chunks import (
    COLUMNS,
    HIGH,
    LINES,
    PARTS,
    PLACES,
    SEGMENT,
    SUMS,
    WAY,
    Chunk,
    chunk_count,
    copied_floats,
    line_read,
    locate,
    sum_chunks,
)
from eagerjit.runtime.native.convolution_plan import CHANNELS, GROUPS, POINTS, POSITIONS, ROWS, TAPS, W
from eagerjit.runtime.native.copying import copy_within, interleave
from eagerjit.runtime.native.language import (
    address_of,
    buffer,
    external,
    fill_bytes,
    i64,
    load_f32,
    load_i64,
    load_ptr,
    multiply_seen,
    ptr,
    store_f32,
    store_i32,
    store_ptr,
)
from eagerjit.runtime.native.tiles import LANES, TILE_ROWS
from eagerjit.runtime.native.windows import DEPTH, DILATION, HEIGHT, INPUT, KERNEL, WIDTH

SEEN = WAY  # per channel and tap the bytes from a place to what it sees

posix_memalign = external("i32 posix_memalign(ptr, i64, i64)")
free = external("void free(ptr)")


def few_channels_work(job: ptr) -> i64:
    """Vectors multiplied per output."""
    return _taps_padded(job) * (_rows_padded(job) // LANES)


def _taps_padded(job: ptr) -> i64:
    return (load_i64(job, CHANNELS) * load_i64(job, TAPS) + TILE_ROWS - 1) // TILE_ROWS * TILE_ROWS


def _rows_padded(job: ptr) -> i64:
    return (load_i64(job, ROWS) + LANES - 1) // LANES * LANES


def few_channels(job: ptr) -> i64:
    """The gradient, whose chunks are planned: 0 or a negative status."""
    outputs = load_i64(job, LINES) * load_i64(job, SEGMENT)
    parts = load_i64(job, GROUPS) * load_i64(job, PARTS)
    sums = parts * _taps_padded(job) * _rows_padded(job) * 4
    scratch = (copied_floats(job) + LANES + outputs * _rows_padded(job)) * 4
    memory: ptr = buffer(8)
    if posix_memalign(memory, 64, _taps_padded(job) * 4) != 0:
        return OUT_OF_MEMORY
    store_ptr(job, SEEN, load_ptr(memory))
    _note_seen(job)
    status = sum_chunks(job, 1, sums, address_of(_sums_kernel), parts, scratch, address_of(_add_kernel))
    free(load_ptr(memory))
    return status


def _note_seen(job: ptr) -> None:
    """Where channels and taps see what a place stands for; what fills the last tile sees anything."""
    seen: ptr = load_ptr(job, SEEN)
    fill_bytes(seen, 0, _taps_padded(job) * 4)
    for channel in range(load_i64(job, CHANNELS)):
        for depth in range(load_i64(job, DEPTH + KERNEL)):
            plane = (channel * load_i64(job, DEPTH + KERNEL) + depth) * load_i64(job, HIGH)
            for height in range(load_i64(job, HEIGHT + KERNEL)):
                line = (plane + height * load_i64(job, HEIGHT + DILATION)) * load_i64(job, COLUMNS)
                for width in range(load_i64(job, WIDTH + KERNEL)):
                    store_i32(seen, 0, (line + width * load_i64(job, WIDTH + DILATION)) * 4)
                    seen = seen + 4


def _sums_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Sums of parts of the outputs, numbered by groups and parts."""
    parts = load_i64(job, PARTS)
    rows = load_i64(job, ROWS)
    padded = _rows_padded(job)
    chunks = chunk_count(job)
    chunk: ptr = buffer(Chunk.BYTES)
    turned: ptr = scratch + (copied_floats(job) + LANES) // LANES * LANES * 4
    fill_bytes(turned, 0, load_i64(job, LINES) * load_i64(job, SEGMENT) * padded * 4)
    for task in range(begin, end):
        part = task % parts
        sums: ptr = load_ptr(job, SUMS) + task * _taps_padded(job) * padded * 4
        fill_bytes(sums, 0, _taps_padded(job) * padded * 4)
        for number in range(part * chunks // parts, (part + 1) * chunks // parts):
            locate(job, number, task // parts, chunk)
            _copy_lines_read(job, scratch, chunk)
            count = load_i64(chunk, Chunk.COUNT)
            interleave(turned, padded, load_ptr(chunk, Chunk.Y), load_i64(job, POSITIONS), rows, count)
            _multiply(job, count, scratch, turned, sums)
    return 0


def _multiply(job: ptr, count: i64, copied: ptr, turned: ptr, sums: ptr) -> None:
    """Adds what a chunk gives: all taps, as many vectors of rows at a time as leave no single one to the end."""
    padded = _rows_padded(job)
    places: ptr = load_ptr(job, PLACES)
    for tap in range(0, _taps_padded(job), TILE_ROWS):
        seen: ptr = load_ptr(job, SEEN) + tap * 4
        y: ptr = turned
        vectors = padded // LANES
        while vectors > 0:
            some = 2
            if vectors == 3 or vectors > 4:
                some = 3
                multiply_seen(3, count, copied, seen, places, y, padded, sums, padded)
            elif vectors > 1:
                multiply_seen(2, count, copied, seen, places, y, padded, sums, padded)
            else:
                some = 1
                multiply_seen(1, count, copied, seen, places, y, padded, sums, padded)
            y = y + some * LANES * 4
            sums = sums + some * LANES * 4
            vectors -= some
        sums = sums + (TILE_ROWS - 1) * padded * 4


def _copy_lines_read(job: ptr, to: ptr, chunk: ptr) -> None:
    """Per channel and depth of the kernel the lines of the input that a chunk reads, zeros where that is padding."""
    columns = load_i64(job, COLUMNS)
    width = load_i64(job, WIDTH + INPUT)
    source: ptr = load_ptr(chunk, Chunk.X)
    fill_bytes(to, 0, copied_floats(job) * 4)
    for _ in range(load_i64(job, CHANNELS)):
        for depth in range(load_i64(job, DEPTH + KERNEL)):
            for i in range(load_i64(job, HIGH)):
                line = line_read(job, chunk, depth, i)
                if line >= 0:
                    copy_within(to, source + line * width * 4, load_i64(chunk, Chunk.LEFT), 1, columns, width)
                to = to + columns * 4
        source = source + load_i64(job, POINTS) * 4


def _add_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Rows of the gradient, counted through all groups: the parts added in order."""
    rows = load_i64(job, ROWS)
    parts = load_i64(job, PARTS)
    length = load_i64(job, CHANNELS) * load_i64(job, TAPS)
    padded = _rows_padded(job)
    step = _taps_padded(job) * padded * 4  # from a part to the next
    for task in range(begin, end):
        found: ptr = load_ptr(job, SUMS) + task // rows * parts * step + task % rows * 4
        to: ptr = load_ptr(job, W) + task * length * 4
        for tap in range(length):
            total = load_f32(found, 0)
            for part in range(1, parts):
                total += load_f32(found, part * step)
            store_f32(to, tap * 4, total)
            found = found + padded * 4
    return 0
