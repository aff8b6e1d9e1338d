"""How the outputs of a convolution are cut for its weight's gradient: chunks whose input stays in a core's cache.

Chunks are gathered into parts by sizes and the machine's processors; each part adds in order, then the parts are added
in order.
"""

from __future__ import annotations

from enum import IntEnum

from eagerjit.runtime.native.agreed import OUT_OF_MEMORY
from eagerjit.runtime.native.convolution_plan import (
    CHANNELS,
    GROUPS,
    IMAGES,
    OWN,
    POINTS,
    POSITIONS,
    ROWS,
    X,
    Y,
    minimum,
)
from eagerjit.runtime.native.language import (
    buffer,
    external,
    i64,
    load_i64,
    load_ptr,
    ptr,
    store_i32,
    store_i64,
    store_ptr,
)
from eagerjit.runtime.native.products import ENOUGH_TILES
from eagerjit.runtime.native.threads import parallel_for
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
SUMS = OWN  # per group and part
PLACES = OWN + 8  # per output of a chunk the bytes to what it sees
LINES = OWN + 16  # of outputs in a chunk
SEGMENT = OWN + 24  # outputs of a line in a chunk
COLUMNS = OWN + 32  # of the input that a chunk reads
HIGH = OWN + 40  # lines of the input that a chunk reads
LINE_CHUNKS = OWN + 48
SEGMENT_CHUNKS = OWN + 56
PARTS = OWN + 64
WAY = OWN + 72  # where the ways to compute the gradient keep what only they need

posix_memalign = external("i32 posix_memalign(ptr, i64, i64)")
free = external("void free(ptr)")


class Chunk(IntEnum):
    """What `locate` says of a chunk."""

    Y = 0  # address of its first output
    X = 8  # address of its image and group
    COUNT = 16  # outputs, all of each line where there are several
    LEFT = 24  # column of the input that its first output reads first
    TOP = 32
    FRONT = 40
    BYTES = 48


MOST_OUTPUTS = 512
MOST_COPIED = 128 * 1024  # floats


def plan_chunks(job: ptr) -> None:
    """Chunks of few enough outputs, and how many parts they make."""
    rows = load_i64(job, ROWS)
    high = load_i64(job, HEIGHT + OUTPUT)
    wide = load_i64(job, WIDTH + OUTPUT)
    segments = (wide + MOST_OUTPUTS - 1) // MOST_OUTPUTS
    segment = (wide + segments - 1) // segments
    lines = high if segments == 1 else 1
    columns = (segment - 1) * load_i64(job, WIDTH + STRIDE) + 1
    columns += (load_i64(job, WIDTH + KERNEL) - 1) * load_i64(job, WIDTH + DILATION)
    reach = (load_i64(job, HEIGHT + KERNEL) - 1) * load_i64(job, HEIGHT + DILATION)
    plane = load_i64(job, DEPTH + KERNEL) * columns * load_i64(job, CHANNELS)
    while lines > 1 and (
        lines * segment > MOST_OUTPUTS
        or ((lines - 1) * load_i64(job, HEIGHT + STRIDE) + 1 + reach) * plane > MOST_COPIED
        or lines * segment * rows > MOST_COPIED
    ):
        lines = (lines + 1) // 2
    line_chunks = (high + lines - 1) // lines
    lines = (high + line_chunks - 1) // line_chunks
    line_chunks = (high + lines - 1) // lines
    store_i64(job, LINES, lines)
    store_i64(job, SEGMENT, segment)
    store_i64(job, COLUMNS, columns)
    store_i64(job, HIGH, (lines - 1) * load_i64(job, HEIGHT + STRIDE) + 1 + reach)
    store_i64(job, LINE_CHUNKS, line_chunks)
    store_i64(job, SEGMENT_CHUNKS, segments)
    store_i64(job, PARTS, minimum(ENOUGH_TILES, chunk_count(job)))


def sum_chunks(job: ptr, step: i64, sums: i64, sums_kernel: ptr, tasks: i64, scratch: i64, add_kernel: ptr) -> i64:
    """Run `sums_kernel`, which leaves so many bytes of sums of parts, then `add_kernel` on all rows of the gradient.

    Columns of the input are `step` floats apart where it is copied. 0 or a negative status.
    """
    memory: ptr = buffer(8)
    places = load_i64(job, LINES) * load_i64(job, SEGMENT) * 4
    if posix_memalign(memory, 64, sums + places + 64) != 0:
        return OUT_OF_MEMORY
    store_ptr(job, SUMS, load_ptr(memory))
    store_ptr(job, PLACES, load_ptr(memory) + sums)
    _note_places(job, step)
    status = parallel_for(sums_kernel, job, tasks, scratch, 1)
    if status == 0:
        status = parallel_for(add_kernel, job, load_i64(job, GROUPS) * load_i64(job, ROWS), 0, 1)
    free(load_ptr(memory))
    return status


def chunk_count(job: ptr) -> i64:
    return load_i64(job, IMAGES) * _per_image(job)


def _per_image(job: ptr) -> i64:
    return load_i64(job, DEPTH + OUTPUT) * load_i64(job, LINE_CHUNKS) * load_i64(job, SEGMENT_CHUNKS)


def copied_floats(job: ptr) -> i64:
    """Floats that a chunk copies of the input."""
    lines = load_i64(job, DEPTH + KERNEL) * load_i64(job, HIGH)
    return lines * load_i64(job, COLUMNS) * load_i64(job, CHANNELS)


def _note_places(job: ptr, step: i64) -> None:
    """Where each output of a chunk sees what it sees, if columns of the input are so many floats apart."""
    for i in range(load_i64(job, LINES) * load_i64(job, SEGMENT)):
        down = i // load_i64(job, SEGMENT) * load_i64(job, HEIGHT + STRIDE)
        right = i % load_i64(job, SEGMENT) * load_i64(job, WIDTH + STRIDE)
        store_i32(load_ptr(job, PLACES), i * 4, (down * load_i64(job, COLUMNS) + right) * step * 4)


def locate(job: ptr, number: i64, group: i64, found: ptr) -> None:
    """Where a chunk lies in Y, and where what it reads begins in X."""
    rows = load_i64(job, ROWS)
    high = load_i64(job, HEIGHT + OUTPUT)
    wide = load_i64(job, WIDTH + OUTPUT)
    plane = number // _per_image(job) * load_i64(job, GROUPS) + group
    chunk = number % _per_image(job)
    x = chunk % load_i64(job, SEGMENT_CHUNKS) * load_i64(job, SEGMENT)
    rest = chunk // load_i64(job, SEGMENT_CHUNKS)
    y = rest % load_i64(job, LINE_CHUNKS) * load_i64(job, LINES)
    z = rest // load_i64(job, LINE_CHUNKS)
    outputs = minimum(load_i64(job, LINES), high - y) * minimum(load_i64(job, SEGMENT), wide - x)
    first = plane * rows * load_i64(job, POSITIONS) + (z * high + y) * wide + x
    store_ptr(found, Chunk.Y, load_ptr(job, Y) + first * 4)
    store_ptr(found, Chunk.X, load_ptr(job, X) + plane * load_i64(job, CHANNELS) * load_i64(job, POINTS) * 4)
    store_i64(found, Chunk.COUNT, outputs)
    store_i64(found, Chunk.LEFT, x * load_i64(job, WIDTH + STRIDE) - load_i64(job, WIDTH + PADDING))
    store_i64(found, Chunk.TOP, y * load_i64(job, HEIGHT + STRIDE) - load_i64(job, HEIGHT + PADDING))
    store_i64(found, Chunk.FRONT, z * load_i64(job, DEPTH + STRIDE) - load_i64(job, DEPTH + PADDING))


def line_read(job: ptr, found: ptr, depth: i64, i: i64) -> i64:
    """The number in a channel of the i-th line that a chunk reads at a depth of the kernel; negative in the padding."""
    in_z = load_i64(found, Chunk.FRONT) + depth * load_i64(job, DEPTH + DILATION)
    in_y = load_i64(found, Chunk.TOP) + i
    height = load_i64(job, HEIGHT + INPUT)
    if in_z < 0 or in_z >= load_i64(job, DEPTH + INPUT) or in_y < 0 or in_y >= height:
        return -1
    return in_z * height + in_y
