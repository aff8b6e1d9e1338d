"""Columns of a convolution: what every tap of the kernel sees at a range of output positions, and the way back.

A job describes up to three spatial dimensions, outermost first; fewer are led by dimensions of size 1. Positions count
the output's points in row-major order, taps the kernel's.
"""

from __future__ import annotations

from eagerjit.runtime.native.copying import copy_apart, copy_run
from eagerjit.runtime.native.language import (
    copy_bytes,
    fill_bytes,
    i64,
    load_f32,
    load_f64,
    load_i64,
    ptr,
    store_f32,
    store_f64,
)

# Offsets in a job, per spatial dimension: DIMENSIONS + number * DIMENSION_BYTES.
DIMENSIONS = 0
DIMENSION_BYTES = 48
INPUT = 0
KERNEL = 8
OUTPUT = 16
STRIDE = 24
PADDING = 32
DILATION = 40
DEPTH = DIMENSIONS
HEIGHT = DIMENSIONS + DIMENSION_BYTES
WIDTH = DIMENSIONS + 2 * DIMENSION_BYTES


def gather_columns(
    job: ptr, item: i64, to: ptr, to_row: i64, source: ptr, channels: i64, first: i64, last: i64
) -> None:
    """Rows (channel, tap) of what positions first..last see; zeros where that is padding.

    `source` is the first channel of one image, `to` has `to_row` elements per row.
    """
    plane = load_i64(job, DEPTH + INPUT) * load_i64(job, HEIGHT + INPUT) * load_i64(job, WIDTH + INPUT)
    depths = load_i64(job, DEPTH + KERNEL)
    heights = load_i64(job, HEIGHT + KERNEL)
    widths = load_i64(job, WIDTH + KERNEL)
    line = load_i64(job, WIDTH + OUTPUT)
    whole = first % line == 0 and last % line == 0
    for _ in range(channels):
        for depth in range(depths):
            for height in range(heights):
                for width in range(widths):
                    if whole:
                        _gather_lines(job, item, to, source, depth, height, width, first // line, last // line)
                    else:
                        _gather_row(job, item, to, source, depth, height, width, first, last)
                    to = to + to_row * item
        source = source + plane * item


def _origin(job: ptr, dimension: i64, tap: i64) -> i64:
    """Where a tap reads at the first position of a dimension."""
    return tap * load_i64(job, dimension + DILATION) - load_i64(job, dimension + PADDING)


def _gather_row(
    job: ptr, item: i64, to: ptr, source: ptr, depth: i64, height: i64, width: i64, first: i64, last: i64
) -> None:
    input_depth = load_i64(job, DEPTH + INPUT)
    input_height = load_i64(job, HEIGHT + INPUT)
    input_width = load_i64(job, WIDTH + INPUT)
    output_height = load_i64(job, HEIGHT + OUTPUT)
    output_width = load_i64(job, WIDTH + OUTPUT)
    step = load_i64(job, WIDTH + STRIDE)
    origin = _origin(job, WIDTH, width)
    begin = _least(origin, step)  # outputs from begin to end read within the row
    end = _most(origin, step, input_width, output_width)
    x = first % output_width
    row = first // output_width
    y = row % output_height
    z = row // output_height
    at = first
    while at < last:
        count = output_width - x
        count = count if count < last - at else last - at
        in_z = _origin(job, DEPTH, depth) + z * load_i64(job, DEPTH + STRIDE)
        in_y = _origin(job, HEIGHT, height) + y * load_i64(job, HEIGHT + STRIDE)
        left = begin - x
        right = end - x
        left = 0 if left < 0 else left
        right = count if right > count else right
        if in_z < 0 or in_z >= input_depth or in_y < 0 or in_y >= input_height or left >= right:
            fill_bytes(to, 0, count * item)
        else:
            line: ptr = source + ((in_z * input_height + in_y) * input_width + origin + x * step) * item
            if left > 0:
                fill_bytes(to, 0, left * item)
            if step == 1:
                copy_run(to + left * item, line + left * item, (right - left) * item)
            else:
                copy_apart(to + left * item, line + left * step * item, right - left, step, item)
            if right < count:
                fill_bytes(to + right * item, 0, (count - right) * item)
        to = to + count * item
        at += count
        x = 0
        y += 1
        if y == output_height:
            y = 0
            z += 1


def _gather_lines(
    job: ptr, item: i64, to: ptr, source: ptr, depth: i64, height: i64, width: i64, first: i64, last: i64
) -> None:
    """What one tap sees from whole lines first..last of the output."""
    input_height = load_i64(job, HEIGHT + INPUT)
    input_width = load_i64(job, WIDTH + INPUT)
    output_height = load_i64(job, HEIGHT + OUTPUT)
    output_width = load_i64(job, WIDTH + OUTPUT)
    step = load_i64(job, HEIGHT + STRIDE)
    origin = _origin(job, WIDTH, width)
    jump = load_i64(job, WIDTH + STRIDE)
    left = _least(origin, jump)
    right = _most(origin, jump, input_width, output_width)
    top = _origin(job, HEIGHT, height)
    begin = _least(top, step)  # lines from begin to end of a plane read within it
    end = _most(top, step, input_height, output_height)
    fill_bytes(to, 0, (last - first) * output_width * item)
    if left >= right:
        return
    at = first
    while at < last:
        z = at // output_height
        y = at % output_height
        count = output_height - y
        count = count if count < last - at else last - at
        in_z = _origin(job, DEPTH, depth) + z * load_i64(job, DEPTH + STRIDE)
        low = begin if begin > y else y
        high = end if end < y + count else y + count
        if 0 <= in_z < load_i64(job, DEPTH + INPUT) and low < high:
            start = (in_z * input_height + top + low * step) * input_width + origin + left * jump
            place: ptr = to + ((at - first + low - y) * output_width + left) * item
            seen: ptr = source + start * item
            if jump == 1:
                line = (right - left) * item
                _copy_lines(place, output_width * item, seen, step * input_width * item, line, high - low)
            else:
                for _ in range(high - low):
                    copy_apart(place, seen, right - left, jump, item)
                    place = place + output_width * item
                    seen = seen + step * input_width * item
        at += count


def _least(origin: i64, step: i64) -> i64:
    """The first output along a dimension that reads at 0 or later."""
    return (step - 1 - origin) // step if origin < 0 else 0


def _most(origin: i64, step: i64, inputs: i64, outputs: i64) -> i64:
    """One past the last output along a dimension that reads before the end."""
    found = (inputs - origin + step - 1) // step if origin < inputs else 0
    return found if found < outputs else outputs


def _copy_lines(to: ptr, to_step: i64, source: ptr, source_step: i64, n: i64, count: i64) -> None:
    """Copies `count` lines of n bytes: short ones in two moves that overlap."""
    if n > 64 or n < 8:
        for _ in range(count):
            copy_run(to, source, n)
            to = to + to_step
            source = source + source_step
    elif n >= 32:
        for _ in range(count):
            copy_bytes(to, source, 32)
            copy_bytes(to + n - 32, source + n - 32, 32)
            to = to + to_step
            source = source + source_step
    elif n >= 16:
        for _ in range(count):
            copy_bytes(to, source, 16)
            copy_bytes(to + n - 16, source + n - 16, 16)
            to = to + to_step
            source = source + source_step
    else:
        for _ in range(count):
            copy_bytes(to, source, 8)
            copy_bytes(to + n - 8, source + n - 8, 8)
            to = to + to_step
            source = source + source_step


def scatter_columns(job: ptr, item: i64, source: ptr, row: i64, to: ptr, channels: i64, first: i64, last: i64) -> None:
    """Adds rows (channel, tap) of positions first..last to the places that they see: `gather_columns` transposed."""
    plane = load_i64(job, DEPTH + INPUT) * load_i64(job, HEIGHT + INPUT) * load_i64(job, WIDTH + INPUT)
    depths = load_i64(job, DEPTH + KERNEL)
    heights = load_i64(job, HEIGHT + KERNEL)
    widths = load_i64(job, WIDTH + KERNEL)
    for _ in range(channels):
        for depth in range(depths):
            for height in range(heights):
                for width in range(widths):
                    _scatter_row(job, item, source, to, depth, height, width, first, last)
                    source = source + row * item
        to = to + plane * item


def _scatter_row(
    job: ptr, item: i64, source: ptr, to: ptr, depth: i64, height: i64, width: i64, first: i64, last: i64
) -> None:
    input_depth = load_i64(job, DEPTH + INPUT)
    input_height = load_i64(job, HEIGHT + INPUT)
    input_width = load_i64(job, WIDTH + INPUT)
    output_height = load_i64(job, HEIGHT + OUTPUT)
    output_width = load_i64(job, WIDTH + OUTPUT)
    step = load_i64(job, WIDTH + STRIDE)
    origin = _origin(job, WIDTH, width)
    begin = _least(origin, step)
    end = _most(origin, step, input_width, output_width)
    x = first % output_width
    row = first // output_width
    y = row % output_height
    z = row // output_height
    at = first
    while at < last:
        count = output_width - x
        count = count if count < last - at else last - at
        in_z = _origin(job, DEPTH, depth) + z * load_i64(job, DEPTH + STRIDE)
        in_y = _origin(job, HEIGHT, height) + y * load_i64(job, HEIGHT + STRIDE)
        left = begin - x
        right = end - x
        left = 0 if left < 0 else left
        right = count if right > count else right
        if 0 <= in_z < input_depth and 0 <= in_y < input_height:
            line: ptr = to + ((in_z * input_height + in_y) * input_width + origin + x * step) * item
            if item == 4:
                for i in range(left, right):
                    place = i * step * 4
                    store_f32(line, place, load_f32(line, place) + load_f32(source, i * 4))
            else:
                for i in range(left, right):
                    place = i * step * 8
                    store_f64(line, place, load_f64(line, place) + load_f64(source, i * 8))
        source = source + count * item
        at += count
        x = 0
        y += 1
        if y == output_height:
            y = 0
            z += 1
