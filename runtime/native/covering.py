"""Convolutions that are products of matrices as they lie: of kernels that cover all of the input, or have one tap."""

from __future__ import annotations

from eagerjit.runtime.native.convolution_plan import (
    CHANNELS,
    GROUPS,
    IMAGES,
    IN_PAIRS,
    INPUT_OF,
    ITEM,
    OUTPUT_OF,
    PLAIN,
    POINTS,
    ROWS,
    TAPS,
    W_CHANNEL,
    W_GROUP,
    W_ROW,
    WEIGHT_OF,
    Y_ROW,
    W,
    X,
    Y,
    product,
    reads_outside,
)
from eagerjit.runtime.native.language import buffer, i64, load_i64, load_ptr, ptr, store_i64
from eagerjit.runtime.native.matmul import matmul
from eagerjit.runtime.native.products import FLOAT32, FLOAT64
from eagerjit.runtime.native.windows import DILATION, DIMENSION_BYTES, INPUT, KERNEL, OUTPUT

LEAST_WIDTH = 64  # of an image: several narrower ones are computed side by side


def covers(job: ptr) -> i64:
    """Whether every tap sees a point of its own, and no point is left."""
    if product(job, OUTPUT) != 1 or load_i64(job, Y_ROW) != 1 or reads_outside(job):
        return 0
    for d in range(3):
        at = d * DIMENSION_BYTES
        kernel = load_i64(job, at + KERNEL)
        if kernel != load_i64(job, at + INPUT) or (kernel > 1 and load_i64(job, at + DILATION) > 1):
            return 0
    return 1


def multiply_covering(kind: i64, job: ptr) -> i64:
    """X, W or Y from the other two, a row of X per image; 0 or a negative status."""
    dtype = FLOAT64 if load_i64(job, ITEM) == 8 else FLOAT32
    images = load_i64(job, IMAGES)
    rows = load_i64(job, ROWS)
    groups = load_i64(job, GROUPS)
    length = load_i64(job, CHANNELS) * load_i64(job, TAPS)
    x: ptr = load_ptr(job, X)
    w: ptr = load_ptr(job, W)
    y: ptr = load_ptr(job, Y)
    x_row = groups * length
    y_row = groups * rows
    batch: ptr = buffer(32)
    store_i64(batch, 0, groups)
    if kind == OUTPUT_OF:
        _store_steps(batch, length, rows * length, rows)
        return matmul(dtype, x, w, y, images, rows, length, x_row, 1, 1, length, y_row, 1, batch)
    if kind == INPUT_OF:
        _store_steps(batch, rows, rows * length, length)
        return matmul(dtype, y, w, x, images, length, rows, y_row, 1, length, 1, x_row, 1, batch)
    _store_steps(batch, rows, length, rows * length)
    return matmul(dtype, y, x, w, rows, length, images, 1, y_row, x_row, 1, length, 1, batch)


def is_product(kind: i64, job: ptr) -> i64:
    """Whether X or Y is the weight times the other, an image at a time, each wide enough for it."""
    if kind == WEIGHT_OF or load_i64(job, PLAIN) == 0 or load_i64(job, IN_PAIRS):
        return 0
    if load_i64(job, ROWS if kind == OUTPUT_OF else CHANNELS) == 1:
        return 0
    return load_i64(job, POINTS) >= LEAST_WIDTH or load_i64(job, IMAGES) == 1


def multiply_plain(kind: i64, job: ptr) -> i64:
    """X or Y from the other; 0 or a negative status."""
    dtype = FLOAT64 if load_i64(job, ITEM) == 8 else FLOAT32
    rows = load_i64(job, ROWS)
    channels = load_i64(job, CHANNELS)
    groups = load_i64(job, GROUPS)
    points = load_i64(job, POINTS)
    x: ptr = load_ptr(job, X)
    w: ptr = load_ptr(job, W)
    y: ptr = load_ptr(job, Y)
    w_row = load_i64(job, W_ROW)
    w_channel = load_i64(job, W_CHANNEL)
    x_group = channels * points
    y_group = rows * points
    batch: ptr = buffer(64)
    store_i64(batch, 0, load_i64(job, IMAGES))
    store_i64(batch, 32, groups)
    if kind == OUTPUT_OF:
        _store_steps(batch, 0, groups * x_group, groups * y_group)
        _store_steps(batch + 32, load_i64(job, W_GROUP), x_group, y_group)
        return matmul(dtype, w, x, y, rows, points, channels, w_row, w_channel, points, 1, points, 2, batch)
    _store_steps(batch, 0, groups * y_group, groups * x_group)
    _store_steps(batch + 32, load_i64(job, W_GROUP), y_group, x_group)
    return matmul(dtype, w, y, x, channels, points, rows, w_channel, w_row, points, 1, points, 2, batch)


def _store_steps(batch: ptr, a: i64, b: i64, c: i64) -> None:
    """From a group of the operands and of the result to the next."""
    store_i64(batch, 8, a)
    store_i64(batch, 16, b)
    store_i64(batch, 24, c)
