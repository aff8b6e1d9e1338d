"""Convolutions of float32 without columns: what a tap sees of a stretch of outputs is one run of the padded input.

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
    reads_outside,
)
from eagerjit.runtime.native.copying import copy_run, copy_within, interleave
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
    RUN,
    SEGMENT,
    SEGMENT_TASKS,
    phases,
    reach,
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
)
from eagerjit.runtime.native.products import PER_OPERATION
from eagerjit.runtime.native.threads import is_worth_threads, parallel_for, serial_for
from eagerjit.runtime.native.tiles import LANES, TILE_ROWS, TILE_VECTORS
from eagerjit.runtime.native.windows import (
    DEPTH,
    DILATION,
    HEIGHT,
    INPUT,
    KERNEL,
    OUTPUT,
    PADDING,
    STRIDE,
    WIDTH,
)

posix_memalign = external("i32 posix_memalign(ptr, i64, i64)")
free = external("void free(ptr)")


def direct(job: ptr, work: i64) -> i64:
    """The output of a convolution that is planned so: 0 or a negative status."""
    groups = load_i64(job, GROUPS)
    depth = load_i64(job, CHANNELS) * load_i64(job, TAPS)
    blocks = (load_i64(job, ROWS) + TILE_ROWS - 1) // TILE_ROWS
    memory: ptr = buffer(8)
    packed = groups * blocks * depth * TILE_ROWS * 4
    channels = load_i64(job, CHANNELS_COPIED)
    if posix_memalign(memory, 64, packed + channels * load_i64(job, TAPS) * 4 + 64) != 0:
        return OUT_OF_MEMORY
    store_ptr(job, PACKED, load_ptr(memory))
    store_ptr(job, PLACES, load_ptr(memory) + packed)
    _note_places(job)
    image_tasks = (load_i64(job, IMAGES) + load_i64(job, ABREAST) - 1) // load_i64(job, ABREAST)
    tasks = image_tasks * groups * load_i64(job, DEPTH + OUTPUT) * load_i64(job, LINE_TASKS)
    tasks *= load_i64(job, SEGMENT_TASKS) * load_i64(job, ROW_TASKS)
    copied = _copied(job)
    row_tasks = load_i64(job, ROW_TASKS)
    scratch = copied * 4 + 64 + (blocks + row_tasks - 1) // row_tasks * TILE_ROWS * load_i64(job, RUN) * 4
    status = 0
    if is_worth_threads(work // PER_OPERATION):
        status = parallel_for(address_of(_pack_kernel), job, groups * blocks, 0, 1)
        if status == 0:
            status = parallel_for(address_of(_direct_kernel), job, tasks, scratch, 1)
    else:
        _pack_kernel(job, 0, groups * blocks, ptr(0))
        status = serial_for(address_of(_direct_kernel), job, tasks, scratch)
    free(load_ptr(memory))
    return status


def _copied(job: ptr) -> i64:
    """Floats that are copied at a time, and what is read behind them for outputs that there are not."""
    behind = reach(job, WIDTH) * load_i64(job, ABREAST) + LANES
    return load_i64(job, CHANNELS_COPIED) * load_i64(job, CHANNEL_FLOATS) + behind


def _note_places(job: ptr) -> None:
    """Where each channel copied and each tap finds what it sees of a run."""
    places: ptr = load_ptr(job, PLACES)
    pitch = load_i64(job, PITCH)
    high = load_i64(job, LINES) + reach(job, HEIGHT)
    for channel in range(load_i64(job, CHANNELS_COPIED)):
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
    step = load_i64(job, W_STEP)
    taps = load_i64(job, TAPS)
    channels = load_i64(job, CHANNELS)
    depth = channels * taps
    last = (load_i64(job, DEPTH + KERNEL) - 1) * load_i64(job, W_DEPTH)
    last += (load_i64(job, HEIGHT + KERNEL) - 1) * load_i64(job, W_LINE) + (load_i64(job, WIDTH + KERNEL) - 1) * step
    ahead = step == 1 and last == taps - 1
    behind = step == -1 and last == 1 - taps
    for channel in range(1 if ahead else channels):
        seen: ptr = source + channel * load_i64(job, W_CHANNEL) * 4
        place: ptr = to + channel * taps * TILE_ROWS * 4
        for r in range(0, rows, TILE_ROWS):
            some = minimum(TILE_ROWS, rows - r)
            if ahead:
                interleave(place, TILE_ROWS, seen, row, some, depth)
            elif behind:
                interleave(place + (taps - 1) * TILE_ROWS * 4, -TILE_ROWS, seen + last * 4, row, some, taps)
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
    run = load_i64(job, RUN)
    line_run = load_i64(job, LINE_RUN)
    abreast = load_i64(job, ABREAST)
    row_tasks = load_i64(job, ROW_TASKS)
    line_tasks = load_i64(job, LINE_TASKS)
    line_step = load_i64(job, Y_LINE) * 4
    alone = abreast == 1 and load_i64(job, Y_STEP) == 1
    blocks = (rows + TILE_ROWS - 1) // TILE_ROWS
    out: ptr = scratch + ((_copied(job) * 4 + 63) & -64)
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
            _copy_lines_read(job, scratch, source, some, images, z, y, x)
            a: ptr = load_ptr(job, PACKED)
            a = a + ((group * blocks + first_block) * channels + channel) * taps * TILE_ROWS * 4
            for i in range(stretches):
                seen: ptr = scratch + i * load_i64(job, PITCH) * 4
                sums: ptr = out + i * line_run * 4
                _multiply(job, some * taps, a, seen, sums, vectors, last_block - first_block, channel > 0)
            channel += some
        place = z * load_i64(job, Y_DEPTH) + y * load_i64(job, Y_LINE) + x * load_i64(job, Y_STEP)
        for row in range(first_block * TILE_ROWS, minimum(last_block * TILE_ROWS, rows)):
            to: ptr = load_ptr(job, Y) + ((plane * rows + row) * load_i64(job, Y_ROW) + place) * 4
            found: ptr = out + (row - first_block * TILE_ROWS) * run * 4
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
    run = load_i64(job, RUN)
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


def _copy_lines_read(
    job: ptr, to: ptr, source: ptr, channels: i64, images: i64, z: i64, y: i64, x: i64
) -> None:
    """What a task reads of some channels: per channel, depth of the kernel and phases the lines, zeros as padding.

    What lies behind the input without being padding is for outputs that there are not; any numbers do.
    """
    input_depth = load_i64(job, DEPTH + INPUT)
    input_height = load_i64(job, HEIGHT + INPUT)
    input_width = load_i64(job, WIDTH + INPUT)
    pitch = load_i64(job, PITCH)
    lines = load_i64(job, LINES) + reach(job, HEIGHT)
    step = load_i64(job, WIDTH + STRIDE)
    left = x * step - load_i64(job, WIDTH + PADDING)
    top = y * load_i64(job, HEIGHT + STRIDE) - load_i64(job, HEIGHT + PADDING)
    front = z * load_i64(job, DEPTH + STRIDE) - load_i64(job, DEPTH + PADDING)
    if reads_outside(job):
        fill_bytes(to, 0, channels * load_i64(job, CHANNEL_FLOATS) * 4)
    for _ in range(channels):
        for depth in range(load_i64(job, DEPTH + KERNEL)):
            in_z = front + depth * load_i64(job, DEPTH + DILATION)
            for tall in range(phases(job, HEIGHT)):
                for wide in range(phases(job, WIDTH)):
                    for i in range(lines):
                        in_y = top + i * load_i64(job, HEIGHT + STRIDE) + tall
                        if 0 <= in_z < input_depth and 0 <= in_y < input_height:
                            line: ptr = source + (in_z * input_height + in_y) * input_width * 4
                            _copy_line(job, to, line, images, left + wide)
                        to = to + pitch * 4
        source = source + load_i64(job, POINTS) * 4


def _copy_line(job: ptr, to: ptr, line: ptr, images: i64, first: i64) -> None:
    """A line from `first` on, as far as there is any, of all images side by side."""
    abreast = load_i64(job, ABREAST)
    step = load_i64(job, WIDTH + STRIDE)
    width = load_i64(job, WIDTH + INPUT)
    columns = load_i64(job, PITCH) // abreast
    if abreast == 1:
        copy_within(to, line, first, step, columns, width)
        return
    begin = (step - 1 - first) // step if first < 0 else 0
    end = (width - first + step - 1) // step if first < width else 0
    row = load_i64(job, GROUPS) * load_i64(job, CHANNELS) * load_i64(job, POINTS)
    line = line + (first + begin * step) * 4
    count = minimum(end, columns) - begin
    if count <= 0:
        return
    if step == 1:
        interleave(to + begin * abreast * 4, abreast, line, row, images, count)
        return
    to = to + begin * abreast * 4
    for _ in range(count):
        for image in range(images):
            store_f32(to, image * 4, load_f32(line, image * row * 4))
        to = to + abreast * 4
        line = line + step * 4
