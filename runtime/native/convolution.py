"""Convolutions and their gradients: columns of a tile of positions, multiplied on one thread each, on the pool.

X is the input (image, channel, point), W the weight (row, channel of the group, tap), Y the output (image, row, point).

    OUTPUT_OF     Y = W @ columns(X)
    INPUT_OF      X = columns transposed (W transposed @ Y), or OUTPUT_OF with W turned around (`turned`)
    WEIGHT_OF     W = Y @ columns(X) transposed, summed over images and positions in order

Tiles are chosen by sizes and the machine's processors, never by the number of threads in use. The columns of a tile
stay in a core's cache, so that only X, W and Y pass through memory. `panels` multiply, `pairs` where the numbers are
those of bfloat16, which lie in memory as float32, and BLAS what is left.
"""

from __future__ import annotations

from eagerjit.runtime.native.agreed import OUT_OF_MEMORY
from eagerjit.runtime.native.column_products import multiply_columns, plan_products
from eagerjit.runtime.native.convolution_plan import (
    CALLER_WORDS,
    CHANNEL_BLOCK,
    CHANNEL_BLOCKS,
    CHANNELS,
    COLUMN_BYTES,
    GROUPS,
    IMAGE_TILES,
    IMAGES,
    IN_PAIRS,
    INPUT_OF,
    ITEM,
    JOB_BYTES,
    LEAST_POSITIONS,
    MANY_POSITIONS,
    OUTPUT_OF,
    PLAIN,
    POINTS,
    POSITION_TILES,
    POSITIONS,
    ROW_BLOCK,
    ROW_BLOCKS,
    ROWS,
    TAPS,
    TILE_IMAGES,
    TILE_POSITIONS,
    W_GROUP,
    WEIGHT_OF,
    W,
    X,
    Y,
    choose_tiles,
    minimum,
    note_plain,
    product,
    set_sizes,
    work_of,
)
from eagerjit.runtime.native.copying import copy_run
from eagerjit.runtime.native.covering import covers, is_product, multiply_covering, multiply_plain
from eagerjit.runtime.native.direct import direct
from eagerjit.runtime.native.direct_plan import plan_direct, plan_direct_pairs
from eagerjit.runtime.native.direct_weight import direct_weight, plan_direct_weight
from eagerjit.runtime.native.language import (
    address_of,
    buffer,
    copy_bytes,
    external,
    fill_bytes,
    i64,
    load_i64,
    load_ptr,
    ptr,
    store_i64,
)
from eagerjit.runtime.native.pairs import RUN, suits_pairs
from eagerjit.runtime.native.products import (
    BFLOAT16,
    FLOAT64,
    INT32_MAX,
    NO_TRANSPOSE,
    PER_OPERATION,
    TOO_LARGE,
    TRANSPOSE,
)
from eagerjit.runtime.native.threads import is_worth_threads, parallel_for, serial_for
from eagerjit.runtime.native.turned import is_turned, lay_out_weight, take_phase
from eagerjit.runtime.native.windows import STRIDE, gather_columns, scatter_columns

posix_memalign = external("i32 posix_memalign(ptr, i64, i64)")
free = external("void free(ptr)")

LEAST_PAIR_ROWS = 8  # half of what is multiplied at a time


def convolution(kind: i64, dtype: i64, table: ptr) -> i64:
    """One of the three, on CALLER_WORDS words laid out as above; returns 0 or a negative status.

    bfloat16 says that the factors, which are float32, are numbers of that dtype.
    """
    job: ptr = buffer(JOB_BYTES)
    copy_bytes(job, table, CALLER_WORDS * 8)
    store_i64(job, ITEM, 8 if dtype == FLOAT64 else 4)
    set_sizes(job)
    store_i64(job, IN_PAIRS, dtype == BFLOAT16 and _suits_pairs(job))
    note_plain(job)
    if kind == INPUT_OF and is_turned(job) and not covers(job) and not is_product(kind, job):
        return _turned(job)
    return _run(kind, job)


def _suits_pairs(job: ptr) -> i64:
    """Whether the products of a group's rows and channels fill what is multiplied at a time."""
    rows = load_i64(job, ROWS)
    sums = load_i64(job, CHANNELS) * load_i64(job, TAPS)
    return rows >= LEAST_PAIR_ROWS and sums >= RUN and suits_pairs(rows, load_i64(job, POSITIONS), sums)


def _run(kind: i64, job: ptr) -> i64:
    item = load_i64(job, ITEM)
    images = load_i64(job, IMAGES)
    channels = load_i64(job, CHANNELS)
    rows = load_i64(job, ROWS)
    groups = load_i64(job, GROUPS)
    points = load_i64(job, POINTS)
    taps = load_i64(job, TAPS)
    positions = load_i64(job, POSITIONS)
    work = work_of(job)
    if work == 0:
        if kind == OUTPUT_OF:
            fill_bytes(load_ptr(job, Y), 0, images * groups * rows * positions * item)
        elif kind == INPUT_OF:
            fill_bytes(load_ptr(job, X), 0, images * groups * channels * points * item)
        else:
            fill_bytes(load_ptr(job, W), 0, groups * rows * channels * taps * item)
        return 0
    if channels * taps > INT32_MAX or points > INT32_MAX or positions > INT32_MAX:
        return TOO_LARGE
    if covers(job):
        return multiply_covering(kind, job)
    if is_product(kind, job):
        return multiply_plain(kind, job)
    if kind == OUTPUT_OF and _plan_direct(job):
        return direct(job, work)
    if kind == WEIGHT_OF and item == 4 and load_i64(job, IN_PAIRS) == 0 and plan_direct_weight(job, work):
        return direct_weight(job)
    choose_tiles(kind, job)
    tile = load_i64(job, TILE_IMAGES) * load_i64(job, TILE_POSITIONS)
    columns = (load_i64(job, CHANNEL_BLOCK) * taps * tile * item + 63) & -64
    store_i64(job, COLUMN_BYTES, columns)
    scratch = columns
    if load_i64(job, TILE_IMAGES) > 1:
        scratch += rows * tile * item
    tasks = groups * load_i64(job, CHANNEL_BLOCKS) * load_i64(job, IMAGE_TILES)
    scratch = (scratch + 63) & -64
    scratch += plan_products(kind, job, scratch)
    kernel: ptr = address_of(_scatter_kernel)
    if kind == OUTPUT_OF:
        kernel = address_of(_output_kernel)
        tasks = groups * load_i64(job, ROW_BLOCKS) * load_i64(job, IMAGE_TILES) * load_i64(job, POSITION_TILES)
    elif kind == WEIGHT_OF:
        kernel = address_of(_weight_kernel)
        tasks = groups * load_i64(job, ROW_BLOCKS) * load_i64(job, CHANNEL_BLOCKS)
    if is_worth_threads(work // PER_OPERATION):
        return parallel_for(kernel, job, tasks, scratch, 1)
    return serial_for(kernel, job, tasks, scratch)


def _plan_direct(job: ptr) -> i64:
    """Whether an output is computed without columns; if so the job says how."""
    if load_i64(job, IN_PAIRS):
        return plan_direct_pairs(job)
    return load_i64(job, ITEM) == 4 and plan_direct(job)


# -- the three kernels: each task's result is its own ------------------------------------------------------------------
def _output_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Tiles of Y, numbered by images, positions, groups and rows."""
    item = load_i64(job, ITEM)
    rows = load_i64(job, ROWS)
    channels = load_i64(job, CHANNELS)
    groups = load_i64(job, GROUPS)
    taps = load_i64(job, TAPS)
    positions = load_i64(job, POSITIONS)
    block = load_i64(job, CHANNEL_BLOCK)
    for task in range(begin, end):
        row = task % load_i64(job, ROW_BLOCKS) * load_i64(job, ROW_BLOCK)
        rest = task // load_i64(job, ROW_BLOCKS)
        group = rest % groups
        rest = rest // groups
        first = rest % load_i64(job, POSITION_TILES) * load_i64(job, TILE_POSITIONS)
        image = rest // load_i64(job, POSITION_TILES) * load_i64(job, TILE_IMAGES)
        count = minimum(load_i64(job, TILE_IMAGES), load_i64(job, IMAGES) - image)
        width = minimum(load_i64(job, TILE_POSITIONS), positions - first)
        height = minimum(load_i64(job, ROW_BLOCK), rows - row)
        y: ptr = load_ptr(job, Y) + ((image * groups + group) * rows + row) * positions * item
        out: ptr = y + first * item
        out_row = positions
        if count > 1:
            out = scratch + load_i64(job, COLUMN_BYTES)
            out_row = count * width
        channel = 0
        while channel < channels:
            some = minimum(block, channels - channel)
            columns: ptr = scratch
            columns_row = _columns(job, scratch, image, count, group, channel, some, first, width)
            if columns_row < 0:
                columns = _x(job, image, group, channel) + first * item
                columns_row = -columns_row
            w: ptr = load_ptr(job, W) + ((group * rows + row) * channels + channel) * taps * item
            multiply_columns(
                job, scratch, NO_TRANSPOSE, NO_TRANSPOSE, height, count * width, some * taps, w, channels * taps,
                columns, columns_row, channel > 0, out, out_row,
            )  # fmt: skip
            channel += some
        if count > 1:
            for k in range(count):
                for r in range(height):
                    to: ptr = y + ((k * groups * rows + r) * positions) * item
                    copy_run(to, out + (r * count + k) * width * item, width * item)
    return 0


def _scatter_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Images and channels of X, numbered by images, groups and channel blocks."""
    item = load_i64(job, ITEM)
    rows = load_i64(job, ROWS)
    channels = load_i64(job, CHANNELS)
    groups = load_i64(job, GROUPS)
    taps = load_i64(job, TAPS)
    positions = load_i64(job, POSITIONS)
    block = load_i64(job, CHANNEL_BLOCK)
    points = load_i64(job, POINTS)
    gathered: ptr = scratch + load_i64(job, COLUMN_BYTES)
    for task in range(begin, end):
        channel = task % load_i64(job, CHANNEL_BLOCKS) * block
        rest = task // load_i64(job, CHANNEL_BLOCKS)
        group = rest % groups
        image = rest // groups * load_i64(job, TILE_IMAGES)
        count = minimum(load_i64(job, TILE_IMAGES), load_i64(job, IMAGES) - image)
        some = minimum(block, channels - channel)
        w: ptr = load_ptr(job, W) + (group * rows * channels + channel) * taps * item
        for k in range(count):
            fill_bytes(_x(job, image + k, group, channel), 0, some * points * item)
        first = 0
        while first < positions:
            width = minimum(load_i64(job, TILE_POSITIONS), positions - first)
            y: ptr = _rows_of_y(job, gathered, image, count, group, 0, rows, first, width)
            y_row = positions if count == 1 else count * width
            multiply_columns(
                job, scratch, TRANSPOSE, NO_TRANSPOSE, some * taps, count * width, rows, w, channels * taps, y, y_row,
                0, scratch, count * width,
            )  # fmt: skip
            for k in range(count):
                x: ptr = _x(job, image + k, group, channel)
                scatter_columns(job, item, scratch + k * width * item, count * width, x, some, first, first + width)
            first += width
    return 0


def _weight_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """Blocks of W, numbered by groups, rows and channel blocks; each sums over images and positions in order."""
    item = load_i64(job, ITEM)
    rows = load_i64(job, ROWS)
    channels = load_i64(job, CHANNELS)
    taps = load_i64(job, TAPS)
    positions = load_i64(job, POSITIONS)
    block = load_i64(job, CHANNEL_BLOCK)
    images = load_i64(job, IMAGES)
    gathered: ptr = scratch + load_i64(job, COLUMN_BYTES)
    for task in range(begin, end):
        channel = task % load_i64(job, CHANNEL_BLOCKS) * block
        rest = task // load_i64(job, CHANNEL_BLOCKS)
        row = rest % load_i64(job, ROW_BLOCKS) * load_i64(job, ROW_BLOCK)
        group = rest // load_i64(job, ROW_BLOCKS)
        some = minimum(block, channels - channel)
        height = minimum(load_i64(job, ROW_BLOCK), rows - row)
        w: ptr = load_ptr(job, W) + ((group * rows + row) * channels + channel) * taps * item
        image = 0
        while image < images:
            count = minimum(load_i64(job, TILE_IMAGES), images - image)
            first = 0
            while first < positions:
                width = minimum(load_i64(job, TILE_POSITIONS), positions - first)
                columns: ptr = scratch
                columns_row = _columns(job, scratch, image, count, group, channel, some, first, width)
                if columns_row < 0:
                    columns = _x(job, image, group, channel) + first * item
                    columns_row = -columns_row
                y: ptr = _rows_of_y(job, gathered, image, count, group, row, height, first, width)
                y_row = positions if count == 1 else count * width
                multiply_columns(
                    job, scratch, NO_TRANSPOSE, TRANSPOSE, height, some * taps, count * width, y, y_row,
                    columns, columns_row, image > 0 or first > 0, w, channels * taps,
                )  # fmt: skip
                first += width
            image += count
    return 0


def _x(job: ptr, image: i64, group: i64, channel: i64) -> ptr:
    """The first point of a channel of X."""
    plane = (image * load_i64(job, GROUPS) + group) * load_i64(job, CHANNELS) + channel
    return load_ptr(job, X) + plane * load_i64(job, POINTS) * load_i64(job, ITEM)


def _columns(
    job: ptr, to: ptr, image: i64, count: i64, group: i64, channel: i64, channels: i64, first: i64, width: i64
) -> i64:
    """Gathers the columns of `count` images side by side; elements per row, negative where X itself will do."""
    if count == 1 and load_i64(job, PLAIN):
        return -load_i64(job, POINTS)
    item = load_i64(job, ITEM)
    for k in range(count):
        x: ptr = _x(job, image + k, group, channel)
        gather_columns(job, item, to + k * width * item, count * width, x, channels, first, first + width)
    return count * width


def _rows_of_y(
    job: ptr, to: ptr, image: i64, count: i64, group: i64, row: i64, height: i64, first: i64, width: i64
) -> ptr:
    """Rows of Y at positions of one image, or of several images gathered side by side."""
    item = load_i64(job, ITEM)
    rows = load_i64(job, ROWS)
    groups = load_i64(job, GROUPS)
    positions = load_i64(job, POSITIONS)
    y: ptr = load_ptr(job, Y) + (((image * groups + group) * rows + row) * positions + first) * item
    if count == 1:
        return y
    for k in range(count):
        for r in range(height):
            source: ptr = y + (k * groups * rows + r) * positions * item
            copy_run(to + (r * count + k) * width * item, source, width * item)
    return to


# -- the gradient of the input by convolutions ----------------------------------------------------------------------
def _turned(job: ptr) -> i64:
    """X by phases of the stride, if all are computed directly; if there is one, by columns where positions are many."""
    phase: ptr = buffer(JOB_BYTES)
    phases = product(job, STRIDE)
    seen = load_i64(job, IMAGES) * load_i64(job, POSITIONS)
    directly = load_i64(job, ITEM) == 4 and seen >= LEAST_POSITIONS
    for number in range(phases):
        if directly and take_phase(job, phase, number):
            directly = _plan_direct(phase)
    if directly:
        status = 0
        for number in range(phases):
            if status == 0 and take_phase(job, phase, number):
                _plan_direct(phase)
                status = direct(phase, work_of(phase))
        return status
    if phases > 1 or seen < MANY_POSITIONS:
        return _run(INPUT_OF, job)
    weights = load_i64(job, GROUPS) * load_i64(job, W_GROUP)
    memory: ptr = buffer(8)
    if posix_memalign(memory, 64, weights * load_i64(job, ITEM) + 64) != 0:
        return OUT_OF_MEMORY
    take_phase(job, phase, 0)
    lay_out_weight(phase, load_ptr(memory))
    status = _run(OUTPUT_OF, phase)
    free(load_ptr(memory))
    return status
