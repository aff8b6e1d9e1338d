"""Products of float32 matrices in tiles that stay in registers.

A's rows are packed some at a time, so that the numbers of a column lie side by side; B's columns in panels as wide as a
tile, or read where they lie if so few rows are multiplied with them that a copy is not worth it. Every element is the
sum over k in order, in pieces of DEPTH, however a product is cut. Only one row with columns that are runs is another
matter: its sums are those of the lanes of registers (`multiply_run`).
"""

from __future__ import annotations

from eagerjit.runtime.native.copying import copy_run, interleave
from eagerjit.runtime.native.language import (
    buffer,
    copy_bytes,
    fill_bytes,
    i64,
    load_f32,
    multiply_panel,
    multiply_runs,
    multiply_squares,
    ptr,
    store_f32,
)
from eagerjit.runtime.native.tiles import LANES, TILE_ROWS, TILE_VECTORS

DEPTH = 512 if LANES == 16 else 256
"""Of the products done at a time: what is packed of a tile fits the second-level cache, and C is passed seldom."""

PANEL = TILE_VECTORS * LANES
ROWS_IN_PLACE = 128  # rows up to which B is read where it lies
TURNED_ROWS = 8  # rows up to which a B whose columns are runs is turned in registers
RUNS = 8  # multiplied with a row at a time: so many sums are begun before the first one is there
SWEPT_ROWS = 4  # of B, copied into all its panels at a time
HALF_ROWS = TILE_ROWS // 2
_TILE_FLOATS = TILE_ROWS * PANEL


def suits_panels(rows: i64, columns: i64, k: i64) -> bool:
    """Whether a product is done this way: not those of vectors."""
    return rows > 1 and columns >= LANES and k > 0


def panel_scratch(rows: i64, columns: i64, k: i64) -> i64:
    """Bytes that `multiply_panels` needs."""
    depth = _least(k, DEPTH)
    copied = columns + PANEL if rows > ROWS_IN_PLACE else PANEL
    return ((rows + TILE_ROWS - 1) // TILE_ROWS * TILE_ROWS + copied) * depth * 4


def multiply_panels(
    a: ptr, a_row: i64, a_column: i64, b: ptr, b_row: i64, b_column: i64, c: ptr, c_row: i64, rows: i64, columns: i64,
    k: i64, add: i64, scratch: ptr,
) -> None:  # fmt: skip
    """C = A @ B, C's columns adjacent; where it is to `add`, to what C holds."""
    depth = _least(k, DEPTH)
    panels: ptr = scratch + (rows + TILE_ROWS - 1) // TILE_ROWS * TILE_ROWS * depth * 4
    swept = i64(rows > ROWS_IN_PLACE and b_column == 1)
    turned = i64(rows <= TURNED_ROWS and b_row == 1)
    start = 0
    while start < k:
        some = _least(DEPTH, k - start)
        if turned and rows % TILE_ROWS:  # rows that there are not are multiplied too, in vain
            fill_bytes(scratch + rows // TILE_ROWS * TILE_ROWS * some * 4, 0, TILE_ROWS * some * 4)
        _pack_rows(scratch, a + start * a_column * 4, a_row, a_column, rows, some)
        if swept:
            _pack_panels(panels, b + start * b_row * 4, b_row, some, columns)
        column = 0
        while turned and column + LANES <= columns:
            run: ptr = b + (start + column * b_column) * 4
            _column_of_squares(some, scratch, run, b_column, c + column * 4, c_row, rows, add or start > 0)
            column += LANES
        while column < columns:
            vectors = _vectors(columns - column)
            width = _least(vectors * LANES, columns - column)
            run = b + (start * b_row + column * b_column) * 4
            step = b_row
            if swept:
                step = vectors * LANES
                run = panels + column * some * 4
            elif b_column != 1 or width < vectors * LANES or rows > ROWS_IN_PLACE:
                step = vectors * LANES
                _pack_columns(panels, step, run, b_row, b_column, some, width)
                run = panels
            _column_of_tiles(vectors, some, scratch, run, step, c + column * 4, c_row, rows, width, add or start > 0)
            column += width
        start += some


def _vectors(columns: i64) -> i64:
    """The vectors of the next panel, where so many columns are left."""
    vectors = (columns + LANES - 1) // LANES
    if vectors == TILE_VECTORS + 1:
        vectors = (TILE_VECTORS + 1) // 2  # a single vector would not be worth what reading A takes
    return _least(vectors, TILE_VECTORS)


def _least(a: i64, b: i64) -> i64:
    return a if a < b else b


def _pack_rows(to: ptr, a: ptr, a_row: i64, a_column: i64, rows: i64, k: i64) -> None:
    """Blocks of TILE_ROWS rows: per k their numbers side by side; those of rows that there are not don't matter."""
    row = 0
    if a_row == 1:
        while row + 4 * TILE_ROWS <= rows:  # several at a time: they share lines of the cache
            for i in range(k):
                for block in range(4):
                    place: ptr = to + (block * k + i) * TILE_ROWS * 4
                    copy_bytes(place, a + (i * a_column + row + block * TILE_ROWS) * 4, TILE_ROWS * 4)
            to = to + 4 * k * TILE_ROWS * 4
            row += 4 * TILE_ROWS
    while row < rows:
        count = _least(TILE_ROWS, rows - row)
        first: ptr = a + row * a_row * 4
        if a_column == 1:
            interleave(to, TILE_ROWS, first, a_row, count, k)
        else:
            for r in range(count):
                for i in range(k):
                    store_f32(to, (i * TILE_ROWS + r) * 4, load_f32(first, (r * a_row + i * a_column) * 4))
        to = to + k * TILE_ROWS * 4
        row += TILE_ROWS


def _pack_panels(to: ptr, b: ptr, b_row: i64, k: i64, columns: i64) -> None:
    """All panels of B, a few rows at a time: rows a power of two apart would drive each other out of the cache."""
    for row in range(0, k, SWEPT_ROWS):
        some = _least(SWEPT_ROWS, k - row)
        line: ptr = b + row * b_row * 4
        column = 0
        while column < columns:
            step = _vectors(columns - column) * LANES
            width = _least(step, columns - column)
            place: ptr = to + (column * k + row * step) * 4
            if width == PANEL:
                for i in range(some):
                    copy_bytes(place + i * PANEL * 4, line + (i * b_row + column) * 4, PANEL * 4)
            else:
                _pack_columns(place, step, line + column * 4, b_row, 1, some, width)
            column += width


def _pack_columns(to: ptr, step: i64, b: ptr, b_row: i64, b_column: i64, k: i64, width: i64) -> None:
    """Columns of B, zeros for those that there are not up to `step`."""
    if width < step:
        fill_bytes(to, 0, k * step * 4)
    if b_row == 1:
        interleave(to, step, b, b_column, width, k)
    elif b_column == 1:
        for i in range(k):
            copy_run(to + i * step * 4, b + i * b_row * 4, width * 4)
    else:
        for i in range(k):
            line: ptr = b + i * b_row * 4
            for j in range(width):
                store_f32(to, (i * step + j) * 4, load_f32(line, j * b_column * 4))


def _column_of_tiles(
    vectors: i64, k: i64, a: ptr, b: ptr, b_row: i64, c: ptr, c_row: i64, rows: i64, width: i64, add: i64
) -> None:
    """`width` columns of C, which so many vectors hold."""
    tile: ptr = buffer(_TILE_FLOATS * 4)
    whole = width == vectors * LANES
    row = 0
    while row < rows:
        count = TILE_ROWS
        while count > rows - row:
            count = count // 2
        to: ptr = c + row * c_row * 4
        place: ptr = to if whole else tile
        if add and not whole:
            for r in range(count):
                copy_run(tile + r * PANEL * 4, to + r * c_row * 4, width * 4)
        numbers: ptr = a + (row // TILE_ROWS * TILE_ROWS * k + row % TILE_ROWS) * 4
        multiply_panel(count, vectors, k, numbers, b, b_row, place, c_row if whole else PANEL, add)
        if not whole:
            for r in range(count):
                copy_run(to + r * c_row * 4, tile + r * PANEL * 4, width * 4)
        row += count


def _column_of_squares(k: i64, a: ptr, b: ptr, b_column: i64, c: ptr, c_row: i64, rows: i64, add: i64) -> None:
    """LANES columns of C, of a B whose columns are runs."""
    tile: ptr = buffer(TILE_ROWS * LANES * 4)
    row = 0
    while row < rows:
        count = _least(TILE_ROWS, rows - row)
        numbers: ptr = a + row * k * 4
        to: ptr = c + row * c_row * 4
        if count == TILE_ROWS:
            multiply_squares(TILE_ROWS, k, numbers, b, b_column, to, c_row, add)
        else:
            if add:
                for r in range(count):
                    copy_bytes(tile + r * LANES * 4, to + r * c_row * 4, LANES * 4)
            if count > HALF_ROWS:
                multiply_squares(TILE_ROWS, k, numbers, b, b_column, tile, LANES, add)
            elif count > 2:
                multiply_squares(HALF_ROWS, k, numbers, b, b_column, tile, LANES, add)
            else:
                multiply_squares(2, k, numbers, b, b_column, tile, LANES, add)
            for r in range(count):
                copy_bytes(to + r * c_row * 4, tile + r * LANES * 4, LANES * 4)
        row += count


def multiply_run(a: ptr, b: ptr, b_column: i64, c: ptr, columns: i64, k: i64) -> None:
    """A row of C, of a row of A and a B whose columns are runs."""
    column = 0
    while column < columns:
        run: ptr = b + column * b_column * 4
        if column + RUNS <= columns:
            multiply_runs(RUNS, k, a, run, b_column, c + column * 4)
            column += RUNS
        else:
            multiply_runs(1, k, a, run, b_column, c + column * 4)
            column += 1
