"""Convolutions of float32 without columns: what a tap sees of a stretch of outputs is one run of the padded input.

A task copies the lines that it reads, zeros around them, into memory that stays in a core's cache, the columns and
lines that a stride skips sorted by phase. For every tap consecutive outputs then read consecutive numbers, through the
ends of lines too: what is computed there is dropped. Short lines are taken one by one instead, several images side by
side. Weights, packed once, are multiplied with such runs in registers. Each output is one sum over channels and taps in
order, however the work is cut.
"""

from __future__ import annotations

from eagerjit.runtime.native.convolution_plan import (
    CHANNELS,
    GROUPS,
    IMAGES,
    PLAIN,
    POINTS,
    POSITIONS,
    ROWS,
    TAPS,
    W,
    X,
    Y,
    has_padding,
    minimum,
)
from eagerjit.runtime.native.copying import copy_run, copy_within, interleave
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
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.products import ENOUGH_TILES, SERIAL_WORK
from eagerjit.runtime.native.threads import OUT_OF_MEMORY, parallel_for, serial_for
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

# What this plan adds to a job.
PACKED = X + 176  # weights: per block of TILE_ROWS rows and per k that many numbers
PLACES = X + 184  # per k the bytes from a run to what that tap sees of it
LINES = X + 192  # of outputs in a task
SEGMENT = X + 200  # outputs of a line in a task
PITCH = X + 208  # numbers of a copied line, of all images
CHANNEL_FLOATS = X + 216  # copied of a channel
LINE_TASKS = X + 224
SEGMENT_TASKS = X + 232
ROW_TASKS = X + 240
RUN = X + 248  # outputs computed of a task, whole vectors
ABREAST = X + 256  # images side by side
APART = X + 264  # whether a task's lines are computed one by one
LINE_RUN = X + 272  # from a line's outputs to the next one's
CHANNELS_COPIED = X + 280  # at a time

MOST_SEGMENT = 768
MOST_RUN = 1024
MOST_ROWS = 512
MOST_DEPTH = 512  # channels times taps multiplied at a time, about
MOST_COPIED = 96 * 1024  # floats: they stay in the second-level cache
MOST_ABREAST = LANES  # images

posix_memalign = external("i32 posix_memalign(ptr, i64, i64)")
free = external("void free(ptr)")


def _reach(job: ptr, dimension: i64) -> i64:
    """How many outputs further the last tap of a dimension reads, in its phase."""
    step = load_i64(job, dimension + STRIDE)
    return (load_i64(job, dimension + KERNEL) - 1) * load_i64(job, dimension + DILATION) // step


def _phases(job: ptr, dimension: i64) -> i64:
    """Into how many phases the places along a dimension are sorted."""
    return load_i64(job, dimension + STRIDE) if load_i64(job, dimension + KERNEL) > 1 else 1


def _flatten(job: ptr) -> None:
    """Every output reads its own place: all of an image is one line."""
    store_i64(job, WIDTH + INPUT, load_i64(job, POINTS))
    store_i64(job, WIDTH + OUTPUT, load_i64(job, POINTS))
    store_i64(job, HEIGHT + INPUT, 1)
    store_i64(job, HEIGHT + OUTPUT, 1)
    store_i64(job, DEPTH + INPUT, 1)
    store_i64(job, DEPTH + OUTPUT, 1)


def plan_direct(job: ptr) -> i64:
    """Whether a convolution of float32 is done this way; if so the job says how."""
    if load_i64(job, ROWS) * 2 < TILE_ROWS:
        return 0
    if load_i64(job, PLAIN):
        _flatten(job)
    lines = load_i64(job, HEIGHT + OUTPUT)
    line = load_i64(job, WIDTH + OUTPUT)
    segments = (line + MOST_SEGMENT - 1) // MOST_SEGMENT
    segment = (line + segments - 1) // segments
    if segments > 1:
        segment = (segment + LANES - 1) // LANES * LANES
        segments = (line + segment - 1) // segment
        lines = 1
    pitch = segment + _reach(job, WIDTH)
    images = load_i64(job, IMAGES)
    image_tasks = (images + MOST_ABREAST - 1) // MOST_ABREAST
    abreast = (images + image_tasks - 1) // image_tasks
    line_run = (segment * abreast + LANES - 1) // LANES * LANES
    whole = ((lines - 1) * pitch + segment + LANES - 1) // LANES * LANES
    apart = segments == 1 and image_tasks * lines * line_run * 16 < images * whole * 15
    if not apart:
        if pitch * 3 > segment * 4:
            return 0
        image_tasks = images
        abreast = 1
        line_run = pitch
    elif line_run * 3 > segment * abreast * 4:
        return 0
    channels = minimum(load_i64(job, CHANNELS), MOST_DEPTH // load_i64(job, TAPS) + 1)
    tall = _reach(job, HEIGHT)
    planes = load_i64(job, DEPTH + KERNEL) * _phases(job, HEIGHT) * _phases(job, WIDTH) * pitch * abreast
    while lines > 1 and (lines * pitch * abreast > MOST_RUN or channels * planes * (lines + tall) > MOST_COPIED):
        lines = (lines + 1) // 2
    line_tasks = (load_i64(job, HEIGHT + OUTPUT) + lines - 1) // lines
    lines = (load_i64(job, HEIGHT + OUTPUT) + line_tasks - 1) // line_tasks
    line_tasks = (load_i64(job, HEIGHT + OUTPUT) + lines - 1) // lines
    tasks = image_tasks * load_i64(job, GROUPS) * load_i64(job, DEPTH + OUTPUT) * line_tasks * segments
    blocks = (load_i64(job, ROWS) + TILE_ROWS - 1) // TILE_ROWS
    row_tasks = (blocks * TILE_ROWS + MOST_ROWS - 1) // MOST_ROWS
    if tasks * row_tasks < 2 * ENOUGH_TILES:
        row_tasks = minimum(blocks, (2 * ENOUGH_TILES + tasks - 1) // tasks)
    store_i64(job, LINES, lines)
    store_i64(job, SEGMENT, segment)
    store_i64(job, PITCH, pitch * abreast)
    store_i64(job, CHANNEL_FLOATS, planes * (lines + tall))
    store_i64(job, LINE_TASKS, line_tasks)
    store_i64(job, SEGMENT_TASKS, segments)
    store_i64(job, ROW_TASKS, row_tasks)
    store_i64(job, RUN, ((lines - 1) * line_run + segment * abreast + LANES - 1) // LANES * LANES)
    store_i64(job, ABREAST, abreast)
    store_i64(job, APART, apart)
    store_i64(job, LINE_RUN, line_run)
    store_i64(job, CHANNELS_COPIED, channels)
    return 1


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
    if work < SERIAL_WORK:
        _pack_kernel(job, 0, groups * blocks, ptr(0))
        status = serial_for(address_of(_direct_kernel), job, tasks, scratch)
    else:
        status = parallel_for(address_of(_pack_kernel), job, groups * blocks, 0)
        if status == 0:
            status = parallel_for(address_of(_direct_kernel), job, tasks, scratch)
    free(load_ptr(memory))
    return status


def _copied(job: ptr) -> i64:
    """Floats that are copied at a time, and what is read behind them for outputs that there are not."""
    behind = _reach(job, WIDTH) * load_i64(job, ABREAST) + LANES
    return load_i64(job, CHANNELS_COPIED) * load_i64(job, CHANNEL_FLOATS) + behind


def _note_places(job: ptr) -> None:
    """Where each channel copied and each tap finds what it sees of a run."""
    places: ptr = load_ptr(job, PLACES)
    pitch = load_i64(job, PITCH)
    high = load_i64(job, LINES) + _reach(job, HEIGHT)
    for channel in range(load_i64(job, CHANNELS_COPIED)):
        for z in range(load_i64(job, DEPTH + KERNEL)):
            for y in range(load_i64(job, HEIGHT + KERNEL)):
                down = y * load_i64(job, HEIGHT + DILATION)
                plane = z * _phases(job, HEIGHT) + down % load_i64(job, HEIGHT + STRIDE)
                for x in range(load_i64(job, WIDTH + KERNEL)):
                    right = x * load_i64(job, WIDTH + DILATION)
                    phase = plane * _phases(job, WIDTH) + right % load_i64(job, WIDTH + STRIDE)
                    line = phase * high + down // load_i64(job, HEIGHT + STRIDE)
                    at = line * pitch + right // load_i64(job, WIDTH + STRIDE) * load_i64(job, ABREAST)
                    store_i32(places, 0, (channel * load_i64(job, CHANNEL_FLOATS) + at) * 4)
                    places = places + 4


def _pack_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Blocks of rows of the weight: per k the rows' numbers side by side, zeros for rows that there are not."""
    rows = load_i64(job, ROWS)
    depth = load_i64(job, CHANNELS) * load_i64(job, TAPS)
    blocks = (rows + TILE_ROWS - 1) // TILE_ROWS
    for task in range(begin, end):
        row = task % blocks * TILE_ROWS
        source: ptr = load_ptr(job, W) + (task // blocks * rows + row) * depth * 4
        to: ptr = load_ptr(job, PACKED) + task * depth * TILE_ROWS * 4
        count = minimum(TILE_ROWS, rows - row)
        if count < TILE_ROWS:
            fill_bytes(to, 0, depth * TILE_ROWS * 4)
        interleave(to, TILE_ROWS, source, depth, count, depth)
    return 0


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
    blocks = (rows + TILE_ROWS - 1) // TILE_ROWS
    out: ptr = scratch + ((_copied(job) * 4 + 63) & -64)
    for task in range(begin, end):
        first_block = task % row_tasks * blocks // row_tasks
        last_block = (task % row_tasks + 1) * blocks // row_tasks
        rest = task // row_tasks
        x = rest % load_i64(job, SEGMENT_TASKS) * load_i64(job, SEGMENT)
        rest = rest // load_i64(job, SEGMENT_TASKS)
        y = rest % load_i64(job, LINE_TASKS) * load_i64(job, LINES)
        rest = rest // load_i64(job, LINE_TASKS)
        z = rest % load_i64(job, DEPTH + OUTPUT)
        rest = rest // load_i64(job, DEPTH + OUTPUT)
        group = rest % groups
        image = rest // groups * abreast
        images = minimum(abreast, load_i64(job, IMAGES) - image)
        plane = image * groups + group
        lines = minimum(load_i64(job, LINES), high - y)
        segment = minimum(load_i64(job, SEGMENT), wide - x)
        stretches = lines if load_i64(job, APART) else 1
        vectors = ((lines - stretches) * line_run + segment * abreast + LANES - 1) // LANES
        fill_bytes(out, 0, (last_block - first_block) * TILE_ROWS * run * 4)
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
                _multiply(job, some * taps, a, seen, sums, vectors, last_block - first_block)
            channel += some
        for row in range(first_block * TILE_ROWS, minimum(last_block * TILE_ROWS, rows)):
            to: ptr = load_ptr(job, Y) + (plane * rows + row) * load_i64(job, POSITIONS) * 4
            to = to + ((z * high + y) * wide + x) * 4
            found: ptr = out + (row - first_block * TILE_ROWS) * run * 4
            for _ in range(lines):
                if abreast == 1:
                    copy_run(to, found, segment * 4)
                else:
                    interleave(to, groups * rows * load_i64(job, POSITIONS), found, abreast, segment, images)
                to = to + wide * 4
                found = found + line_run * 4
    return 0


def _multiply(job: ptr, k: i64, a: ptr, b: ptr, out: ptr, vectors: i64, blocks: i64) -> None:
    """Blocks of rows times so many vectors: the few runs that a tile reads stay in the first-level cache."""
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
                multiply_tile(3, k, weights, b, places, row, run)
            elif some == 2:
                multiply_tile(2, k, weights, b, places, row, run)
            else:
                multiply_tile(1, k, weights, b, places, row, run)
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
    lines = load_i64(job, LINES) + _reach(job, HEIGHT)
    step = load_i64(job, WIDTH + STRIDE)
    left = x * step - load_i64(job, WIDTH + PADDING)
    top = y * load_i64(job, HEIGHT + STRIDE) - load_i64(job, HEIGHT + PADDING)
    front = z * load_i64(job, DEPTH + STRIDE) - load_i64(job, DEPTH + PADDING)
    if has_padding(job):
        fill_bytes(to, 0, channels * load_i64(job, CHANNEL_FLOATS) * 4)
    for _ in range(channels):
        for depth in range(load_i64(job, DEPTH + KERNEL)):
            in_z = front + depth * load_i64(job, DEPTH + DILATION)
            for tall in range(_phases(job, HEIGHT)):
                for wide in range(_phases(job, WIDTH)):
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
