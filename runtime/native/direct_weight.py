"""The weight's gradient of float32 convolutions without columns: per tap a sum over outputs of rows of Y times X.

A task copies the input lines that some outputs read, channels innermost, into memory that stays in a core's cache: what
an output sees of a line of the kernel is then one run. Rows of Y, packed, are multiplied with such runs in registers.
Where channels are few, `few_channels` does it.
"""

from __future__ import annotations

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
    plan_chunks,
    sum_chunks,
)
from eagerjit.runtime.native.convolution_plan import (
    CHANNELS,
    GROUPS,
    PLAIN,
    POINTS,
    POSITIONS,
    ROWS,
    TAPS,
    W,
    minimum,
)
from eagerjit.runtime.native.copying import interleave
from eagerjit.runtime.native.few_channels import few_channels, few_channels_work
from eagerjit.runtime.native.language import (
    address_of,
    buffer,
    fill_bytes,
    i64,
    load_f32,
    load_i64,
    load_ptr,
    multiply_tile,
    ptr,
    store_f32,
    store_i64,
)
from eagerjit.runtime.native.products import ENOUGH_TILES
from eagerjit.runtime.native.tiles import LANES, TILE_ROWS, TILE_VECTORS
from eagerjit.runtime.native.windows import DEPTH, DILATION, HEIGHT, INPUT, KERNEL, WIDTH

# What this plan adds to a job beside its chunks. Sums are a run of whole vectors per line of the kernel.
RUN = WAY  # floats of a run, whole vectors; 0 where channels are few
BLOCK_TASKS = WAY + 8

LEAST_WORK = 1 << 18


def _runs(job: ptr) -> i64:
    """How many runs an output sees: lines of the kernel, or its taps where these lie apart."""
    lines = load_i64(job, DEPTH + KERNEL) * load_i64(job, HEIGHT + KERNEL)
    return lines if load_i64(job, WIDTH + DILATION) == 1 else lines * load_i64(job, WIDTH + KERNEL)


def plan_direct_weight(job: ptr, work: i64) -> i64:
    """Whether the gradient is computed this way; if so the job says how."""
    rows = load_i64(job, ROWS)
    blocks = (rows + TILE_ROWS - 1) // TILE_ROWS
    length = load_i64(job, CHANNELS) * load_i64(job, TAPS) // _runs(job)
    run = (length + LANES - 1) // LANES * LANES
    if load_i64(job, PLAIN) or rows < TILE_ROWS or work < LEAST_WORK:
        return 0
    if few_channels_work(job) < _runs(job) * (run // LANES) * blocks * TILE_ROWS:
        run = 0
    elif length * 2 < run:
        return 0
    plan_chunks(job)
    store_i64(job, RUN, run)
    tasks = load_i64(job, PARTS) * load_i64(job, GROUPS)
    store_i64(job, BLOCK_TASKS, minimum(blocks, (ENOUGH_TILES + tasks - 1) // tasks))
    return 1


def direct_weight(job: ptr) -> i64:
    """The gradient that is planned so: 0 or a negative status."""
    if load_i64(job, RUN) == 0:
        return few_channels(job)
    rows = load_i64(job, ROWS)
    blocks = (rows + TILE_ROWS - 1) // TILE_ROWS
    parts = load_i64(job, GROUPS) * load_i64(job, PARTS)
    outputs = load_i64(job, LINES) * load_i64(job, SEGMENT)
    sums = parts * blocks * TILE_ROWS * _runs(job) * load_i64(job, RUN) * 4
    scratch = (copied_floats(job) + LANES + blocks * TILE_ROWS * outputs) * 4 + 64
    tasks = parts * load_i64(job, BLOCK_TASKS)
    step = load_i64(job, CHANNELS)
    return sum_chunks(job, step, sums, address_of(_sums_kernel), tasks, scratch, address_of(_add_kernel))


def _sums_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Sums of parts of the outputs for some blocks of rows, numbered by groups, parts and blocks."""
    rows = load_i64(job, ROWS)
    blocks = (rows + TILE_ROWS - 1) // TILE_ROWS
    tasks = load_i64(job, BLOCK_TASKS)
    parts = load_i64(job, PARTS)
    sums_row = _runs(job) * load_i64(job, RUN)
    chunks = chunk_count(job)
    for task in range(begin, end):
        first = task % tasks * blocks // tasks
        last = (task % tasks + 1) * blocks // tasks
        part = task // tasks % parts
        group = task // tasks // parts
        at = ((group * parts + part) * blocks + first) * TILE_ROWS
        sums: ptr = load_ptr(job, SUMS) + at * sums_row * 4
        fill_bytes(sums, 0, (last - first) * TILE_ROWS * sums_row * 4)
        for chunk in range(part * chunks // parts, (part + 1) * chunks // parts):
            _add_chunk(job, chunk, group, first, last, sums, scratch)
    return 0


def _add_chunk(job: ptr, number: i64, group: i64, first: i64, last: i64, sums: ptr, scratch: ptr) -> None:
    """Adds what some outputs of an image give to blocks of rows."""
    rows = load_i64(job, ROWS)
    positions = load_i64(job, POSITIONS)
    chunk: ptr = buffer(Chunk.BYTES)
    locate(job, number, group, chunk)
    count = load_i64(chunk, Chunk.COUNT)
    _copy_lines_read(job, scratch, chunk)
    packed: ptr = scratch + (((copied_floats(job) + LANES) * 4 + 63) & -64)
    source: ptr = load_ptr(chunk, Chunk.Y)
    for block in range(first, last):
        some = minimum(TILE_ROWS, rows - block * TILE_ROWS)
        if some < TILE_ROWS:
            fill_bytes(packed, 0, count * TILE_ROWS * 4)
        interleave(packed, TILE_ROWS, source + block * TILE_ROWS * positions * 4, positions, some, count)
        _multiply_block(job, packed, scratch, sums, count)
        sums = sums + TILE_ROWS * _runs(job) * load_i64(job, RUN) * 4


def _multiply_block(job: ptr, packed: ptr, copied: ptr, sums: ptr, count: i64) -> None:
    """Adds a block of rows times all runs."""
    run = load_i64(job, RUN)
    sums_row = _runs(job) * run
    places: ptr = load_ptr(job, PLACES)
    line = load_i64(job, COLUMNS) * load_i64(job, CHANNELS)
    apart = load_i64(job, WIDTH + KERNEL) if load_i64(job, WIDTH + DILATION) > 1 else 1
    for depth in range(load_i64(job, DEPTH + KERNEL)):
        for height in range(load_i64(job, HEIGHT + KERNEL)):
            top = (depth * load_i64(job, HIGH) + height * load_i64(job, HEIGHT + DILATION)) * line
            for width in range(apart):
                b: ptr = copied + (top + width * load_i64(job, WIDTH + DILATION) * load_i64(job, CHANNELS)) * 4
                vectors = run // LANES
                while vectors > 0:
                    if vectors >= TILE_VECTORS:
                        multiply_tile(3, count, packed, b, places, sums, sums_row)
                    elif vectors == 2:
                        multiply_tile(2, count, packed, b, places, sums, sums_row)
                    else:
                        multiply_tile(1, count, packed, b, places, sums, sums_row)
                    some = minimum(vectors, TILE_VECTORS)
                    b = b + some * LANES * 4
                    sums = sums + some * LANES * 4
                    vectors -= some


def _copy_lines_read(job: ptr, to: ptr, chunk: ptr) -> None:
    """The input lines that a chunk reads, channels innermost, zeros where that is padding."""
    channels = load_i64(job, CHANNELS)
    columns = load_i64(job, COLUMNS)
    width = load_i64(job, WIDTH + INPUT)
    points = load_i64(job, POINTS)
    left = load_i64(chunk, Chunk.LEFT)
    begin = -left if left < 0 else 0
    end = minimum(columns, width - left)
    for depth in range(load_i64(job, DEPTH + KERNEL)):
        for i in range(load_i64(job, HIGH)):
            line = line_read(job, chunk, depth, i)
            if line < 0 or begin >= end:
                fill_bytes(to, 0, columns * channels * 4)
            else:
                fill_bytes(to, 0, begin * channels * 4)
                fill_bytes(to + end * channels * 4, 0, (columns - end) * channels * 4)
                source: ptr = load_ptr(chunk, Chunk.X) + (line * width + left + begin) * 4
                interleave(to + begin * channels * 4, channels, source, points, channels, end - begin)
            to = to + columns * channels * 4


def _add_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Rows of the gradient, counted through all groups: the parts added in order, channels outermost again."""
    rows = load_i64(job, ROWS)
    channels = load_i64(job, CHANNELS)
    padded = (rows + TILE_ROWS - 1) // TILE_ROWS * TILE_ROWS
    parts = load_i64(job, PARTS)
    runs = _runs(job)
    run = load_i64(job, RUN)
    in_run = load_i64(job, TAPS) // runs
    step = padded * runs * run * 4  # from a part to the next
    for task in range(begin, end):
        found: ptr = load_ptr(job, SUMS) + (task // rows * parts * padded + task % rows) * runs * run * 4
        to: ptr = load_ptr(job, W) + task * channels * load_i64(job, TAPS) * 4
        for tap in range(load_i64(job, TAPS)):
            line: ptr = found + (tap // in_run * run + tap % in_run * channels) * 4
            for channel in range(channels):
                total = load_f32(line, channel * 4)
                for part in range(1, parts):
                    total += load_f32(line, part * step + channel * 4)
                store_f32(to, (channel * load_i64(job, TAPS) + tap) * 4, total)
    return 0
