"""Convolutions without columns: what a tap sees of a stretch of outputs is one run of the padded input.

A task copies the lines that it reads, zeros around them, into memory that stays in a core's cache, the columns and
lines that a stride skips sorted by phase. For every tap consecutive outputs then read consecutive numbers, through the
ends of lines too: what is computed there is dropped. Short lines are taken one by one instead, several images side by
side. Weights, packed once, are multiplied with such runs in registers. Each output is one sum over channels and taps in
order, however the work is cut.
"""

from __future__ import annotations

from eagerjit.runtime.native.agreed import OUT_OF_MEMORY
from eagerjit.runtime.native.convolution_plan import (
    CHANNELS,
    GROUPS,
    IMAGES,
    IN_PAIRS,
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
    minimum,
)
from eagerjit.runtime.native.copying import copy_run, interleave
from eagerjit.runtime.native.direct_lines import copy_lines_read
from eagerjit.runtime.native.direct_pairs import (
    bytes_copied,
    copy_planes,
    multiply_planes,
    pack_pairs_kernel,
    packed_block,
)
from eagerjit.runtime.native.direct_plan import (
    ABREAST,
    APART,
    CHANNEL_FLOATS,
    CHANNELS_COPIED,
    LINE_RUN,
    LINE_TASKS,
    LINES,
    PACKED,
    PITCH,
    PLACES,
    ROW_TASKS,
    RUN_OF_SUMS,
    SEGMENT,
    SEGMENT_TASKS,
    phases,
    reach,
    taps_order,
)
from eagerjit.runtime.native.language import (
    address_of,
    buffer,
    external,
    fill_bytes,
    i64,
    load_f32,
    load_i64,
    load_ptr,
    multiply_tile,
    ptr,
    store_f32,
    store_i32,
    store_ptr,
    tiles_end,
)
from eagerjit.runtime.native.pairs import PAIR_ROWS, RUN, begin_products
from eagerjit.runtime.native.products import PER_OPERATION
from eagerjit.runtime.native.threads import is_worth_threads, parallel_for, serial_for
from eagerjit.runtime.native.tiles import LANES, TILE_ROWS, TILE_VECTORS
from eagerjit.runtime.native.windows import (
    DEPTH,
    DILATION,
    HEIGHT,
    KERNEL,
    OUTPUT,
    STRIDE,
    WIDTH,
)

posix_memalign = external("i32 posix_memalign(ptr, i64, i64)")
free = external("void free(ptr)")


def direct(job: ptr, work: i64) -> i64:
    """The output of a convolution that is planned so: 0 or a negative status."""
    in_pairs = load_i64(job, IN_PAIRS)
    height = _height(job)
    blocks = (load_i64(job, ROWS) + height - 1) // height
    packed_blocks = load_i64(job, GROUPS) * blocks
    taps = load_i64(job, TAPS)
    packed = packed_blocks * load_i64(job, CHANNELS) * taps * height * 4
    seen = 1 if in_pairs else load_i64(job, CHANNELS_COPIED)
    if in_pairs:
        packed = packed_blocks * packed_block(job)
    memory: ptr = buffer(8)
    if posix_memalign(memory, 64, packed + seen * taps * 4 + 64) != 0:
        return OUT_OF_MEMORY
    store_ptr(job, PACKED, load_ptr(memory))
    store_ptr(job, PLACES, load_ptr(memory) + packed)
    _note_places(job, seen)
    image_tasks = (load_i64(job, IMAGES) + load_i64(job, ABREAST) - 1) // load_i64(job, ABREAST)
    tasks = image_tasks * load_i64(job, GROUPS) * load_i64(job, DEPTH + OUTPUT) * load_i64(job, LINE_TASKS)
    tasks *= load_i64(job, SEGMENT_TASKS) * load_i64(job, ROW_TASKS)
    row_tasks = load_i64(job, ROW_TASKS)
    sums = (blocks + row_tasks - 1) // row_tasks * height * load_i64(job, RUN_OF_SUMS) * 4
    pack: ptr = address_of(pack_pairs_kernel) if in_pairs else address_of(_pack_kernel)
    pack_bytes = taps * RUN * 4
    status = 0
    if is_worth_threads(work // PER_OPERATION):
        status = parallel_for(pack, job, packed_blocks, pack_bytes, 1)
        if status == 0:
            status = parallel_for(address_of(_direct_kernel), job, tasks, _copied(job) + sums, 1)
    else:
        status = serial_for(pack, job, packed_blocks, pack_bytes)
        if status == 0:
            status = serial_for(address_of(_direct_kernel), job, tasks, _copied(job) + sums)
    free(load_ptr(memory))
    return status


def _height(job: ptr) -> i64:
    """Rows that are multiplied at a time."""
    return PAIR_ROWS if load_i64(job, IN_PAIRS) else TILE_ROWS


def _copied(job: ptr) -> i64:
    """Bytes that are copied at a time, and what is read behind them for outputs that there are not."""
    if load_i64(job, IN_PAIRS):
        return (bytes_copied(job) + 63) & -64
    behind = reach(job, WIDTH) * load_i64(job, ABREAST) + LANES
    return (load_i64(job, CHANNELS_COPIED) * load_i64(job, CHANNEL_FLOATS) + behind) * 4 + 63 & -64


def _note_places(job: ptr, channels: i64) -> None:
    """Where each of some channels and each tap finds what it sees of a run."""
    places: ptr = load_ptr(job, PLACES)
    pitch = load_i64(job, PITCH)
    high = load_i64(job, LINES) + reach(job, HEIGHT)
    for channel in range(channels):
        for z in range(load_i64(job, DEPTH + KERNEL)):
            for y in range(load_i64(job, HEIGHT + KERNEL)):
                down = y * load_i64(job, HEIGHT + DILATION)
                plane = z * phases(job, HEIGHT) + down % load_i64(job, HEIGHT + STRIDE)
                for x in range(load_i64(job, WIDTH + KERNEL)):
                    right = x * load_i64(job, WIDTH + DILATION)
                    phase = plane * phases(job, WIDTH) + right % load_i64(job, WIDTH + STRIDE)
                    line = phase * high + down // load_i64(job, HEIGHT + STRIDE)
                    at = line * pitch + right // load_i64(job, WIDTH + STRIDE) * load_i64(job, ABREAST)
                    store_i32(places, 0, (channel * load_i64(job, CHANNEL_FLOATS) + at) * 4)
                    places = places + 4


def _pack_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Blocks of rows of the weight: per k the rows' numbers side by side, zeros for rows that there are not."""
    rows = load_i64(job, ROWS)
    block = load_i64(job, CHANNELS) * load_i64(job, TAPS) * TILE_ROWS * 4
    blocks = (rows + TILE_ROWS - 1) // TILE_ROWS
    task = begin
    while task < end:
        first = task % blocks * TILE_ROWS
        some = minimum(end - task, blocks - task % blocks)
        at = task // blocks * load_i64(job, W_GROUP) + first * load_i64(job, W_ROW)
        to: ptr = load_ptr(job, PACKED) + task * block
        some_rows = minimum(some * TILE_ROWS, rows - first)
        if some_rows % TILE_ROWS != 0:
            fill_bytes(to + (some - 1) * block, 0, block)
        _pack_blocks(job, to, load_ptr(job, W) + at * 4, some_rows)
        task += some
    return 0


def _pack_blocks(job: ptr, to: ptr, source: ptr, rows: i64) -> None:
    """Rows whose taps lie in order, in reverse, or apart; what of the rows lies together is read together."""
    row = load_i64(job, W_ROW)
    taps = load_i64(job, TAPS)
    channels = load_i64(job, CHANNELS)
    depth = channels * taps
    order = taps_order(job)
    ahead = order == 1 and load_i64(job, W_CHANNEL) == taps
    for channel in range(1 if ahead else channels):
        seen: ptr = source + channel * load_i64(job, W_CHANNEL) * 4
        place: ptr = to + channel * taps * TILE_ROWS * 4
        for r in range(0, rows, TILE_ROWS):
            some = minimum(TILE_ROWS, rows - r)
            if ahead:
                interleave(place, TILE_ROWS, seen, row, some, depth)
            elif order == -1:
                interleave(place + (taps - 1) * TILE_ROWS * 4, -TILE_ROWS, seen - (taps - 1) * 4, row, some, taps)
            else:
                _pack_taps(job, place, seen, some)
            seen = seen + TILE_ROWS * row * 4
            place = place + depth * TILE_ROWS * 4


def _pack_taps(job: ptr, to: ptr, source: ptr, rows: i64) -> None:
    """A channel's taps of a block's rows, wherever they lie."""
    row = load_i64(job, W_ROW)
    for z in range(load_i64(job, DEPTH + KERNEL)):
        for y in range(load_i64(job, HEIGHT + KERNEL)):
            seen: ptr = source + (z * load_i64(job, W_DEPTH) + y * load_i64(job, W_LINE)) * 4
            for _ in range(load_i64(job, WIDTH + KERNEL)):
                for r in range(rows):
                    store_f32(to, r * 4, load_f32(seen, r * row * 4))
                to = to + TILE_ROWS * 4
                seen = seen + load_i64(job, W_STEP) * 4


def _direct_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Stretches of outputs, numbered by images, groups, depths, lines, segments and rows."""
    rows = load_i64(job, ROWS)
    channels = load_i64(job, CHANNELS)
    groups = load_i64(job, GROUPS)
    taps = load_i64(job, TAPS)
    high = load_i64(job, HEIGHT + OUTPUT)
    wide = load_i64(job, WIDTH + OUTPUT)
    run = load_i64(job, RUN_OF_SUMS)
    line_run = load_i64(job, LINE_RUN)
    abreast = load_i64(job, ABREAST)
    row_tasks = load_i64(job, ROW_TASKS)
    line_tasks = load_i64(job, LINE_TASKS)
    line_step = load_i64(job, Y_LINE) * 4
    alone = abreast == 1 and load_i64(job, Y_STEP) == 1
    in_pairs = load_i64(job, IN_PAIRS)
    height = _height(job)
    blocks = (rows + height - 1) // height
    out: ptr = scratch + _copied(job)
    if in_pairs:
        begin_products()
    for task in range(begin, end):
        first_block = task % row_tasks * blocks // row_tasks
        last_block = (task % row_tasks + 1) * blocks // row_tasks
        rest = task // row_tasks
        x = rest % load_i64(job, SEGMENT_TASKS) * load_i64(job, SEGMENT)
        rest = rest // load_i64(job, SEGMENT_TASKS)
        y = rest % line_tasks * high // line_tasks
        lines = (rest % line_tasks + 1) * high // line_tasks - y
        rest = rest // line_tasks
        z = rest % load_i64(job, DEPTH + OUTPUT)
        rest = rest // load_i64(job, DEPTH + OUTPUT)
        group = rest % groups
        image = rest // groups * abreast
        images = minimum(abreast, load_i64(job, IMAGES) - image)
        plane = image * groups + group
        segment = minimum(load_i64(job, SEGMENT), wide - x)
        stretches = lines if load_i64(job, APART) else 1
        vectors = ((lines - stretches) * line_run + segment * abreast + LANES - 1) // LANES
        channel = 0
        while channel < channels:
            some = minimum(load_i64(job, CHANNELS_COPIED), channels - channel)
            source: ptr = load_ptr(job, X) + (plane * channels + channel) * load_i64(job, POINTS) * 4
            a: ptr = load_ptr(job, PACKED)
            if in_pairs:
                copy_planes(job, scratch, source, some, images, z, y, x)
                a = a + (group * blocks + first_block) * packed_block(job) + channel * taps * PAIR_ROWS * 2
            else:
                copy_lines_read(job, scratch, source, some, images, z, y, x)
                a = a + ((group * blocks + first_block) * channels + channel) * taps * TILE_ROWS * 4
            for i in range(stretches):
                seen: ptr = scratch + i * load_i64(job, PITCH) * 4
                sums: ptr = out + i * line_run * 4
                if in_pairs:
                    multiply_planes(job, a, seen, sums, vectors, last_block - first_block, some, channel > 0)
                else:
                    _multiply(job, some * taps, a, seen, sums, vectors, last_block - first_block, channel > 0)
            channel += some
        place = z * load_i64(job, Y_DEPTH) + y * load_i64(job, Y_LINE) + x * load_i64(job, Y_STEP)
        for row in range(first_block * height, minimum(last_block * height, rows)):
            to: ptr = load_ptr(job, Y) + ((plane * rows + row) * load_i64(job, Y_ROW) + place) * 4
            found: ptr = out + (row - first_block * height) * run * 4
            if alone:
                for _ in range(lines):
                    copy_run(to, found, segment * 4)
                    to = to + line_step
                    found = found + line_run * 4
            else:
                for _ in range(lines):
                    _store_line(job, to, found, segment, images)
                    to = to + line_step
                    found = found + line_run * 4
    if in_pairs:
        tiles_end()
    return 0


def _store_line(job: ptr, to: ptr, found: ptr, count: i64, images: i64) -> None:
    """Outputs of a line that lie apart, or are of images side by side."""
    abreast = load_i64(job, ABREAST)
    step = load_i64(job, Y_STEP)
    row = load_i64(job, GROUPS) * load_i64(job, ROWS) * load_i64(job, Y_ROW)
    if step == 1:
        interleave(to, row, found, abreast, count, images)
        return
    for image in range(images):
        for i in range(count):
            store_f32(to, (image * row + i * step) * 4, load_f32(found, (i * abreast + image) * 4))


def _multiply(job: ptr, k: i64, a: ptr, b: ptr, out: ptr, vectors: i64, blocks: i64, more: i64) -> None:
    """Blocks of rows times so many vectors: the few runs that a tile reads stay in the first-level cache.

    Where there is `more`, it is added to what `out` holds.
    """
    run = load_i64(job, RUN_OF_SUMS)
    a_block = load_i64(job, CHANNELS) * load_i64(job, TAPS) * TILE_ROWS * 4
    places: ptr = load_ptr(job, PLACES)
    while vectors > 0:
        row: ptr = out
        weights: ptr = a
        some = minimum(TILE_VECTORS, vectors)
        if vectors == 4:
            some = 2  # a single vector is not worth what reading the weights takes
        for _ in range(blocks):
            if some == 3:
                multiply_tile(3, k, weights, b, places, row, run, more)
            elif some == 2:
                multiply_tile(2, k, weights, b, places, row, run, more)
            else:
                multiply_tile(1, k, weights, b, places, row, run, more)
            row = row + TILE_ROWS * run * 4
            weights = weights + a_block
        b = b + some * LANES * 4
        out = out + some * LANES * 4
        vectors -= some
