"""How a convolution is cut into tasks: by sizes and the machine's processors, never by the number of threads in use."""

from __future__ import annotations

from eagerjit.runtime.native.language import i64, load_i64, ptr, store_i64
from eagerjit.runtime.native.products import ENOUGH_TILES
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

OUTPUT_OF = 0
INPUT_OF = 1
WEIGHT_OF = 2

# What a caller fills in: the three dimensions of `windows`, then these.
X = 3 * DIMENSION_BYTES
W = X + 8
Y = X + 16
IMAGES = X + 24
CHANNELS = X + 32  # of X, per group
ROWS = X + 40  # channels of Y, per group
GROUPS = X + 48
CALLER_WORDS = (X + 56) // 8
# What the plan adds.
ITEM = X + 56  # bytes of an element
POINTS = X + 64  # of an image of X
TAPS = X + 72
POSITIONS = X + 80  # points of an image of Y
PLAIN = X + 88  # 1 where columns are X itself: one tap, all strides 1, no padding
TILE_IMAGES = X + 96
TILE_POSITIONS = X + 104
IMAGE_TILES = X + 112
POSITION_TILES = X + 120
CHANNEL_BLOCK = X + 128
CHANNEL_BLOCKS = X + 136
ROW_BLOCK = X + 144
ROW_BLOCKS = X + 152
COLUMN_BYTES = X + 160  # of scratch that columns take; operands gathered from several images follow
Y_ROW = X + 168  # from a channel of Y to the next; likewise depths, lines and columns
Y_DEPTH = X + 176
Y_LINE = X + 184
Y_STEP = X + 192
W_GROUP = X + 200  # from a group of W to the next; likewise rows, channels and taps by depth, line and column
W_ROW = X + 208
W_CHANNEL = X + 216
W_DEPTH = X + 224
W_LINE = X + 232
W_STEP = X + 240
IN_PAIRS = X + 248  # whether tiles are multiplied as `pairs` does
PRODUCT_SCRATCH = X + 256  # where in scratch memory those of a tile begin
OWN = X + 264  # what `direct` and `direct_weight` add
JOB_BYTES = X + 392

TILE = 1024  # positions of a tile, at most: measured best among powers of two
COLUMNS = 512  # rows (channel, tap) of such a tile
PAIR_TILE = 512  # the same where pairs are multiplied, whose sums take room too
LEAST_ROWS = 64
LEAST_POSITIONS = 64  # of a tile; fewer are not worth packing the weight either
MANY_POSITIONS = 512  # from here on it pays to copy the weight turned around


def product(job: ptr, field: i64) -> i64:
    """The product of a field of the three dimensions."""
    return load_i64(job, DEPTH + field) * load_i64(job, HEIGHT + field) * load_i64(job, WIDTH + field)


def work_of(job: ptr) -> i64:
    """Multiplications that a job takes."""
    each = load_i64(job, ROWS) * load_i64(job, CHANNELS) * load_i64(job, TAPS) * load_i64(job, POSITIONS)
    return load_i64(job, IMAGES) * load_i64(job, GROUPS) * each


def set_sizes(job: ptr) -> None:
    """What follows from the sizes that a caller has filled in, X, W and Y being row-major."""
    line = load_i64(job, WIDTH + OUTPUT)
    plane = load_i64(job, HEIGHT + OUTPUT) * line
    store_i64(job, POINTS, product(job, INPUT))
    store_i64(job, TAPS, product(job, KERNEL))
    store_i64(job, POSITIONS, load_i64(job, DEPTH + OUTPUT) * plane)
    store_i64(job, Y_ROW, load_i64(job, POSITIONS))
    store_i64(job, Y_DEPTH, plane)
    store_i64(job, Y_LINE, line)
    store_i64(job, Y_STEP, 1)
    row = load_i64(job, CHANNELS) * load_i64(job, TAPS)
    store_i64(job, W_GROUP, load_i64(job, ROWS) * row)
    store_i64(job, W_ROW, row)
    store_i64(job, W_CHANNEL, load_i64(job, TAPS))
    store_i64(job, W_DEPTH, load_i64(job, HEIGHT + KERNEL) * load_i64(job, WIDTH + KERNEL))
    store_i64(job, W_LINE, load_i64(job, WIDTH + KERNEL))
    store_i64(job, W_STEP, 1)


def reads_outside(job: ptr) -> i64:
    """Whether any output sees padding; a gradient's outputs may do so behind the input alone."""
    for d in range(3):
        at = d * DIMENSION_BYTES
        last = (load_i64(job, at + OUTPUT) - 1) * load_i64(job, at + STRIDE)
        last += (load_i64(job, at + KERNEL) - 1) * load_i64(job, at + DILATION)
        if load_i64(job, at + PADDING) != 0 or last >= load_i64(job, at + INPUT):
            return 1
    return 0


def note_plain(job: ptr) -> None:
    """Settle whether columns are X itself."""
    alike = load_i64(job, Y_ROW) == load_i64(job, POSITIONS) == load_i64(job, POINTS) and load_i64(job, TAPS) == 1
    store_i64(job, PLAIN, alike and product(job, STRIDE) == 1 and reads_outside(job) == 0)


def _blocks(size: i64, block: i64) -> i64:
    return (size + block - 1) // block


def choose_tiles(kind: i64, job: ptr) -> None:
    """Tiles of positions, blocks of channels and blocks of rows: enough of them for every processor."""
    images = load_i64(job, IMAGES)
    channels = load_i64(job, CHANNELS)
    rows = load_i64(job, ROWS)
    groups = load_i64(job, GROUPS)
    taps = load_i64(job, TAPS)
    positions = load_i64(job, POSITIONS)
    line = load_i64(job, WIDTH + OUTPUT)
    tile = PAIR_TILE if load_i64(job, IN_PAIRS) else TILE
    most = COLUMNS * tile
    as_they_lie = load_i64(job, PLAIN) and load_i64(job, IN_PAIRS) == 0 and positions >= LEAST_POSITIONS
    while True:
        pieces = _blocks(positions, tile)
        tile_positions = positions
        if pieces > 1:  # whole lines of the output where these are short
            line = line if line < tile else 16
            tile_positions = _blocks(_blocks(positions, line), pieces) * line
        tile_images = tile // positions if positions < tile and not as_they_lie else 1
        tile_images = tile_images if tile_images < images else images
        image_tiles = _blocks(images, tile_images)
        position_tiles = _blocks(positions, tile_positions)
        tiles = groups * image_tiles * (position_tiles if kind == OUTPUT_OF else 1)
        if kind == WEIGHT_OF or tiles >= ENOUGH_TILES or tile <= LEAST_POSITIONS:
            break
        tile = tile // 2
    block = _blocks(most, taps * tile_images * tile_positions)
    block = block if block < channels else channels
    block = _blocks(channels, _blocks(channels, block))
    row_block = rows
    if kind == WEIGHT_OF:
        tiles = groups
    if kind != OUTPUT_OF:
        while tiles * _blocks(channels, block) < ENOUGH_TILES and block > 1:
            block = (block + 1) // 2
        tiles *= _blocks(channels, block)
    if kind != INPUT_OF:
        while tiles * _blocks(rows, row_block) < ENOUGH_TILES and row_block >= 2 * LEAST_ROWS:
            row_block = (row_block + 1) // 2
    store_i64(job, TILE_IMAGES, tile_images)
    store_i64(job, TILE_POSITIONS, tile_positions)
    store_i64(job, IMAGE_TILES, image_tiles)
    store_i64(job, POSITION_TILES, position_tiles)
    store_i64(job, CHANNEL_BLOCK, block)
    store_i64(job, CHANNEL_BLOCKS, _blocks(channels, block))
    store_i64(job, ROW_BLOCK, row_block)
    store_i64(job, ROW_BLOCKS, _blocks(rows, row_block))


def minimum(a: i64, b: i64) -> i64:
    return a if a < b else b
