"""How an output of float32 is cut into stretches that `direct` computes: by sizes and the machine's processors."""

from __future__ import annotations

from eagerjit.runtime.native.convolution_plan import (
    CHANNELS,
    GROUPS,
    IMAGES,
    OWN,
    PLAIN,
    POINTS,
    ROWS,
    TAPS,
    W_DEPTH,
    W_LINE,
    W_STEP,
    minimum,
    product,
    work_of,
)
from eagerjit.runtime.native.language import i64, load_i64, ptr, store_i64
from eagerjit.runtime.native.pairs import PAIR_ROWS, RUN
from eagerjit.runtime.native.products import ENOUGH_TILES, SERIAL_WORK
from eagerjit.runtime.native.tiles import LANES, TILE_ROWS
from eagerjit.runtime.native.windows import DEPTH, DILATION, HEIGHT, INPUT, KERNEL, OUTPUT, STRIDE, WIDTH

# What this plan adds to a job.
PACKED = OWN  # weights: per block of TILE_ROWS rows and per k that many numbers
PLACES = OWN + 8  # per k the bytes from a run to what that tap sees of it
LINES = OWN + 16  # of outputs in a task
SEGMENT = OWN + 24  # outputs of a line in a task
PITCH = OWN + 32  # numbers of a copied line, of all images
CHANNEL_FLOATS = OWN + 40  # copied of a channel
LINE_TASKS = OWN + 48
SEGMENT_TASKS = OWN + 56
ROW_TASKS = OWN + 64
RUN_OF_SUMS = OWN + 72  # outputs computed of a task, whole vectors
ABREAST = OWN + 80  # images side by side
APART = OWN + 88  # whether a task's lines are computed one by one
LINE_RUN = OWN + 96  # from a line's outputs to the next one's
CHANNELS_COPIED = OWN + 104  # at a time
PLANE = OWN + 112  # where pairs are multiplied: bytes from two channels' numbers to the next ones'

LEAST_PAIR_CHANNELS = 16
MOST_SEGMENT = 768
MOST_RUN = 1024
MOST_ROWS = 512
MOST_DEPTH = 512  # channels times taps multiplied at a time, about
MOST_COPIED = 96 * 1024  # floats: they stay in the second-level cache
APART_COPY = 4  # times what a copy takes of numbers that lie side by side
MOST_ABREAST = LANES  # images
INTERLEAVING = 12  # multiplications in the time that it takes to put a number of one of several images in its place

def reach(job: ptr, dimension: i64) -> i64:
    """How many outputs further the last tap of a dimension reads, in its phase."""
    step = load_i64(job, dimension + STRIDE)
    return (load_i64(job, dimension + KERNEL) - 1) * load_i64(job, dimension + DILATION) // step


def phases(job: ptr, dimension: i64) -> i64:
    """Into how many phases the places along a dimension are sorted."""
    return load_i64(job, dimension + STRIDE) if load_i64(job, dimension + KERNEL) > 1 else 1


def taps_order(job: ptr) -> i64:
    """1 where a channel's taps lie side by side in the weight, -1 where they do so in reverse, otherwise 0."""
    step = load_i64(job, W_STEP)
    last = (load_i64(job, DEPTH + KERNEL) - 1) * load_i64(job, W_DEPTH)
    last += (load_i64(job, HEIGHT + KERNEL) - 1) * load_i64(job, W_LINE) + (load_i64(job, WIDTH + KERNEL) - 1) * step
    return step if (step == 1 or step == -1) and last == step * (load_i64(job, TAPS) - 1) else 0


def _flatten(job: ptr) -> None:
    """Every output reads its own place: all of an image is one line."""
    store_i64(job, WIDTH + INPUT, load_i64(job, POINTS))
    store_i64(job, WIDTH + OUTPUT, load_i64(job, POINTS))
    store_i64(job, HEIGHT + INPUT, 1)
    store_i64(job, HEIGHT + OUTPUT, 1)
    store_i64(job, DEPTH + INPUT, 1)
    store_i64(job, DEPTH + OUTPUT, 1)


def _row_tasks(job: ptr, tasks: i64) -> i64:
    """Into how many the rows of so many tasks are cut."""
    blocks = (load_i64(job, ROWS) + TILE_ROWS - 1) // TILE_ROWS
    row_tasks = (blocks * TILE_ROWS + MOST_ROWS - 1) // MOST_ROWS
    if tasks * row_tasks < 2 * ENOUGH_TILES:
        row_tasks = minimum(blocks, (2 * ENOUGH_TILES + tasks - 1) // tasks)
    return row_tasks


def _line_tasks(job: ptr, others: i64, least: i64, line_run: i64) -> i64:
    """Into how many the lines are cut, at least `least`, so that processors finish together.

    A task takes its lines' products, the reading of its weights, and the copying of the lines that it reads.
    """
    high = load_i64(job, HEIGHT + OUTPUT)
    blocks = (load_i64(job, ROWS) + TILE_ROWS - 1) // TILE_ROWS
    copies = load_i64(job, DEPTH + KERNEL) * phases(job, HEIGHT) * phases(job, WIDTH)
    if phases(job, WIDTH) > 1:
        copies *= APART_COPY
    best = least
    shortest = 0
    if work_of(job) < SERIAL_WORK:
        return least
    for count in range(least, minimum(high, least + ENOUGH_TILES) + 1):
        row_tasks = _row_tasks(job, others * count)
        rounds = (others * count * row_tasks + ENOUGH_TILES - 1) // ENOUGH_TILES
        lines = (high + count - 1) // count
        usual = (lines * 16 + high * 16 // count) // 2  # sixteenths of lines: some tasks have one less
        products = (usual * line_run + 16 * LANES) * ((blocks + row_tasks - 1) // row_tasks) * load_i64(job, TAPS)
        time = rounds * (products + (lines + reach(job, HEIGHT)) * 16 * line_run * copies)
        if shortest == 0 or time < shortest:
            shortest = time
            best = count
    return best


def plan_direct(job: ptr) -> i64:
    """Whether a convolution of float32 is done this way; if so the job says how."""
    if load_i64(job, ROWS) * 2 < TILE_ROWS:
        return 0
    if load_i64(job, TAPS) == 1 and product(job, STRIDE) > 1:
        return 0  # columns are a part of the input, and products of them are quicker
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
    pitch = segment + reach(job, WIDTH)
    images = load_i64(job, IMAGES)
    image_tasks = (images + MOST_ABREAST - 1) // MOST_ABREAST
    abreast = (images + image_tasks - 1) // image_tasks
    line_run = (segment * abreast + LANES - 1) // LANES * LANES
    whole = ((lines - 1) * pitch + segment + LANES - 1) // LANES * LANES
    computed = image_tasks * lines * line_run
    if line_run == LANES and TILE_ROWS < 8:
        computed *= 2  # so few sums in a tile wait for each other
    saved = images * whole - computed  # outputs that are computed to be dropped
    saved *= load_i64(job, ROWS) * load_i64(job, CHANNELS) * load_i64(job, TAPS)
    moved = images * lines * segment * (load_i64(job, ROWS) + load_i64(job, CHANNELS))
    apart = segments == 1 and saved > moved * INTERLEAVING
    if not apart:
        if pitch * 3 > segment * 4:
            return 0
        image_tasks = images
        abreast = 1
        line_run = pitch
    elif line_run * 3 > segment * abreast * 4:
        return 0
    channels = minimum(load_i64(job, CHANNELS), MOST_DEPTH // load_i64(job, TAPS) + 1)
    tall = reach(job, HEIGHT)
    planes = load_i64(job, DEPTH + KERNEL) * phases(job, HEIGHT) * phases(job, WIDTH) * pitch * abreast
    while lines > 1 and (lines * pitch * abreast > MOST_RUN or channels * planes * (lines + tall) > MOST_COPIED):
        lines = (lines + 1) // 2
    high = load_i64(job, HEIGHT + OUTPUT)
    others = image_tasks * load_i64(job, GROUPS) * load_i64(job, DEPTH + OUTPUT) * segments
    line_tasks = _line_tasks(job, others, (high + lines - 1) // lines, line_run)
    lines = (high + line_tasks - 1) // line_tasks
    row_tasks = _row_tasks(job, others * line_tasks)
    store_i64(job, LINES, lines)
    store_i64(job, SEGMENT, segment)
    store_i64(job, PITCH, pitch * abreast)
    store_i64(job, CHANNEL_FLOATS, planes * (lines + tall))
    store_i64(job, LINE_TASKS, line_tasks)
    store_i64(job, SEGMENT_TASKS, segments)
    store_i64(job, ROW_TASKS, row_tasks)
    store_i64(job, RUN_OF_SUMS, ((lines - 1) * line_run + segment * abreast + LANES - 1) // LANES * LANES)
    store_i64(job, ABREAST, abreast)
    store_i64(job, APART, apart)
    store_i64(job, LINE_RUN, line_run)
    store_i64(job, CHANNELS_COPIED, channels)
    return 1


def plan_direct_pairs(job: ptr) -> i64:
    """The same of pairs of bfloat16 numbers; it is not worth it for few channels, nor where columns are X itself."""
    if load_i64(job, CHANNELS) < LEAST_PAIR_CHANNELS or load_i64(job, PLAIN) or plan_direct(job) == 0:
        return 0
    size = (load_i64(job, CHANNEL_FLOATS) * 4 + 63) & -64
    store_i64(job, PLANE, size | 64)  # an odd number of lines: sixteen planes share no places in the cache
    copied = minimum(load_i64(job, CHANNELS), 2 * 4 * MOST_COPIED // size)
    store_i64(job, CHANNELS_COPIED, (copied + RUN - 1) // RUN * RUN)
    blocks = (load_i64(job, ROWS) + PAIR_ROWS - 1) // PAIR_ROWS
    store_i64(job, ROW_TASKS, minimum(load_i64(job, ROW_TASKS), blocks))
    line = load_i64(job, SEGMENT) * load_i64(job, ABREAST)
    if load_i64(job, APART):
        store_i64(job, LINE_RUN, (line + PAIR_ROWS - 1) // PAIR_ROWS * PAIR_ROWS)
    run = (load_i64(job, LINES) - 1) * load_i64(job, LINE_RUN) + line
    store_i64(job, RUN_OF_SUMS, (run + PAIR_ROWS - 1) // PAIR_ROWS * PAIR_ROWS)
    return 1
