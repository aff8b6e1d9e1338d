"""Products of a matrix of few rows with a row-major one: the second is read where it lies, as nothing is worth packing.

BLAS packs the larger operand, which costs as much as multiplying it with some tens of rows.
"""

from __future__ import annotations

from eagerjit.runtime.native.copying import copy_run, interleave
from eagerjit.runtime.native.language import (
    buffer,
    fill_bytes,
    i64,
    load_f32,
    multiply_tile,
    ptr,
    store_f32,
    store_i32,
)
from eagerjit.runtime.native.tiles import LANES, TILE_ROWS, TILE_VECTORS

MOST_ROWS = 32
DEPTH = 256  # of the products done at a time
_TILE_FLOATS = TILE_ROWS * TILE_VECTORS * LANES


def suits_few_rows(rows: i64, columns: i64, k: i64, b_row: i64) -> bool:
    """Whether a product is done this way."""
    return TILE_ROWS // 2 < rows <= MOST_ROWS and columns >= LANES and k >= 32 and b_row < 1 << 20


def few_rows(
    a: ptr, a_row: i64, a_column: i64, b: ptr, b_row: i64, c: ptr, c_row: i64, rows: i64, columns: i64, k: i64
) -> None:
    """C = A @ B in float32, B's and C's columns adjacent; each sum runs over k in order."""
    packed: ptr = buffer(MOST_ROWS * DEPTH * 4)
    places: ptr = buffer(DEPTH * 4)
    near: ptr = buffer(DEPTH * 4)
    rest: ptr = buffer(DEPTH * LANES * 4)  # the last columns, fewer than a vector, and zeros
    for i in range(_least(DEPTH, k)):
        store_i32(places, i * 4, i * b_row * 4)
    for row in range(rows):
        fill_bytes(c + row * c_row * 4, 0, columns * 4)
    start = 0
    while start < k:
        some = _least(DEPTH, k - start)
        line: ptr = b + start * b_row * 4
        _pack_rows(packed, a + start * a_column * 4, a_row, a_column, rows, some)
        column = 0
        while column + LANES <= columns:
            vectors = _least(TILE_VECTORS, (columns - column) // LANES)
            width = vectors * LANES
            _column_of_tiles(vectors, some, packed, line + column * 4, places, c + column * 4, c_row, rows, width)
            column += width
        if column < columns:
            for i in range(some):
                fill_bytes(rest + i * LANES * 4, 0, LANES * 4)
                copy_run(rest + i * LANES * 4, line + (i * b_row + column) * 4, (columns - column) * 4)
                store_i32(near, i * 4, i * LANES * 4)
            _column_of_tiles(1, some, packed, rest, near, c + column * 4, c_row, rows, columns - column)
        start += some


def _least(a: i64, b: i64) -> i64:
    return a if a < b else b


def _pack_rows(to: ptr, a: ptr, a_row: i64, a_column: i64, rows: i64, k: i64) -> None:
    """Blocks of TILE_ROWS rows: per k their numbers side by side, zeros for rows that there are not."""
    row = 0
    while row < rows:
        count = _least(TILE_ROWS, rows - row)
        if count < TILE_ROWS:
            fill_bytes(to, 0, k * TILE_ROWS * 4)
        if a_column == 1:
            interleave(to, TILE_ROWS, a + row * a_row * 4, a_row, count, k)
        else:
            for r in range(count):
                line: ptr = a + (row + r) * a_row * 4
                for i in range(k):
                    store_f32(to, (i * TILE_ROWS + r) * 4, load_f32(line, i * a_column * 4))
        to = to + DEPTH * TILE_ROWS * 4
        row += TILE_ROWS


def _column_of_tiles(
    vectors: i64, k: i64, a: ptr, b: ptr, places: ptr, c: ptr, c_row: i64, rows: i64, width: i64
) -> None:
    """Adds to `width` columns of C, which so many vectors hold."""
    tile: ptr = buffer(_TILE_FLOATS * 4)
    row = 0
    while row < rows:
        whole = row + TILE_ROWS <= rows and width == vectors * LANES
        to: ptr = c + row * c_row * 4
        step = c_row
        if not whole:
            to = tile
            step = vectors * LANES
            fill_bytes(tile, 0, _TILE_FLOATS * 4)
            for r in range(_least(TILE_ROWS, rows - row)):
                copy_run(tile + r * step * 4, c + (row + r) * c_row * 4, width * 4)
        if vectors == 3:
            multiply_tile(3, k, a, b, places, to, step)
        elif vectors == 2:
            multiply_tile(2, k, a, b, places, to, step)
        else:
            multiply_tile(1, k, a, b, places, to, step)
        if not whole:
            for r in range(_least(TILE_ROWS, rows - row)):
                copy_run(c + (row + r) * c_row * 4, tile + r * step * 4, width * 4)
        a = a + DEPTH * TILE_ROWS * 4
        row += TILE_ROWS
