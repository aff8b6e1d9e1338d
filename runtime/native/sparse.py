"""Rows of a matrix, scaled and added up: a sparse matrix times a dense one.

A task is some rows of the result. Each row's columns are taken some vectors at a time, whose sums stay in registers
over all entries of the row, in their order.
"""

from __future__ import annotations

from eagerjit.runtime.native.language import (
    add_scaled_rows,
    f32,
    f64,
    i64,
    load_f32,
    load_f64,
    load_i64,
    load_ptr,
    ptr,
    store_f32,
    store_f64,
)
from eagerjit.runtime.native.tiles import LANES

WEIGHTS, X, STARTS, PLACES, OUT, ROWS, COLUMNS, ITEM = 0, 8, 16, 24, 32, 40, 48, 56  # a job's words, in bytes
TOGETHER = 16
"""Rows of a task."""


def weighted_rows_kernel(job: ptr, begin: i64, end: i64, scratch: ptr) -> i64:
    """The rows of tasks begin to end."""
    row = begin * TOGETHER
    last = end * TOGETHER
    last = last if last < load_i64(job, ROWS) else load_i64(job, ROWS)
    columns = load_i64(job, COLUMNS)
    item = load_i64(job, ITEM)
    starts = load_ptr(job, STARTS)
    while row < last:
        first = load_i64(starts, 8 * row)
        count = load_i64(starts, 8 * row + 8) - first
        weights = load_ptr(job, WEIGHTS) + first * item
        places = load_ptr(job, PLACES) + first * 8
        out = load_ptr(job, OUT) + row * columns * item
        if columns == 1 and item == 4:
            store_f32(out, 0, _one_single(count, weights, places, load_ptr(job, X)))
        elif columns == 1:
            store_f64(out, 0, _one_double(count, weights, places, load_ptr(job, X)))
        elif item == 4:
            _singles(count, weights, places, load_ptr(job, X), columns, out)
        else:
            _doubles(count, weights, places, load_ptr(job, X), columns, out)
        row += 1
    return 0


def _singles(count: i64, weights: ptr, places: ptr, x: ptr, columns: i64, out: ptr) -> None:
    step = columns * 4
    while columns >= 8 * LANES:
        add_scaled_rows(4, 8, count, weights, places, x, step, out, LANES)
        x = x + 32 * LANES
        out = out + 32 * LANES
        columns -= 8 * LANES
    if columns >= 4 * LANES:
        add_scaled_rows(4, 4, count, weights, places, x, step, out, LANES)
        x = x + 16 * LANES
        out = out + 16 * LANES
        columns -= 4 * LANES
    if columns >= 2 * LANES:
        add_scaled_rows(4, 2, count, weights, places, x, step, out, LANES)
        x = x + 8 * LANES
        out = out + 8 * LANES
        columns -= 2 * LANES
    if columns > LANES:
        add_scaled_rows(4, 2, count, weights, places, x, step, out, columns - LANES)
    elif columns == LANES:
        add_scaled_rows(4, 1, count, weights, places, x, step, out, LANES)
    elif columns > 0:
        add_scaled_rows(4, 1, count, weights, places, x, step, out, columns)


def _doubles(count: i64, weights: ptr, places: ptr, x: ptr, columns: i64, out: ptr) -> None:
    step = columns * 8
    while columns >= 4 * LANES:
        add_scaled_rows(8, 8, count, weights, places, x, step, out, LANES // 2)
        x = x + 32 * LANES
        out = out + 32 * LANES
        columns -= 4 * LANES
    if columns >= 2 * LANES:
        add_scaled_rows(8, 4, count, weights, places, x, step, out, LANES // 2)
        x = x + 16 * LANES
        out = out + 16 * LANES
        columns -= 2 * LANES
    if columns >= LANES:
        add_scaled_rows(8, 2, count, weights, places, x, step, out, LANES // 2)
        x = x + 8 * LANES
        out = out + 8 * LANES
        columns -= LANES
    if columns > LANES // 2:
        add_scaled_rows(8, 2, count, weights, places, x, step, out, columns - LANES // 2)
    elif columns == LANES // 2:
        add_scaled_rows(8, 1, count, weights, places, x, step, out, LANES // 2)
    elif columns > 0:
        add_scaled_rows(8, 1, count, weights, places, x, step, out, columns)


# -- one column: four sums, of every fourth entry ---------------------------------------------------------------------
def _one_single(count: i64, weights: ptr, places: ptr, x: ptr) -> f32:
    a: f32 = 0.0
    b: f32 = 0.0
    c: f32 = 0.0
    d: f32 = 0.0
    i = 0
    while i + 4 <= count:
        a = a + load_f32(weights, 4 * i) * load_f32(x, 4 * load_i64(places, 8 * i))
        b = b + load_f32(weights, 4 * i + 4) * load_f32(x, 4 * load_i64(places, 8 * i + 8))
        c = c + load_f32(weights, 4 * i + 8) * load_f32(x, 4 * load_i64(places, 8 * i + 16))
        d = d + load_f32(weights, 4 * i + 12) * load_f32(x, 4 * load_i64(places, 8 * i + 24))
        i += 4
    while i < count:
        a = a + load_f32(weights, 4 * i) * load_f32(x, 4 * load_i64(places, 8 * i))
        i += 1
    return (a + b) + (c + d)


def _one_double(count: i64, weights: ptr, places: ptr, x: ptr) -> f64:
    a: f64 = 0.0
    b: f64 = 0.0
    c: f64 = 0.0
    d: f64 = 0.0
    i = 0
    while i + 4 <= count:
        a = a + load_f64(weights, 8 * i) * load_f64(x, 8 * load_i64(places, 8 * i))
        b = b + load_f64(weights, 8 * i + 8) * load_f64(x, 8 * load_i64(places, 8 * i + 8))
        c = c + load_f64(weights, 8 * i + 16) * load_f64(x, 8 * load_i64(places, 8 * i + 16))
        d = d + load_f64(weights, 8 * i + 24) * load_f64(x, 8 * load_i64(places, 8 * i + 24))
        i += 4
    while i < count:
        a = a + load_f64(weights, 8 * i) * load_f64(x, 8 * load_i64(places, 8 * i))
        i += 1
    return (a + b) + (c + d)
