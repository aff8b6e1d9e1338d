"""Products of bfloat16 matrices by instructions that multiply numbers k and k + 1 at once and add in float32.

Operands are packed in blocks: 16 rows of A with 16 pairs each, and 16 pairs of 16 columns of B, zeros where there are
none. A's rows are packed two blocks at a time, right before they are multiplied; B is packed whole. An element is the
sum over pairs in the processor's order along k, however a product is cut. What is subnormal counts as zero, as these
instructions have it. Factors may lie in memory as float32, of which upper halves are taken; then so does the product.
"""

from __future__ import annotations

from eagerjit.runtime.native.copying import copy_run, interleave
from eagerjit.runtime.native.language import (
    alternate_halves,
    alternate_upper_halves,
    atomic_load,
    atomic_store,
    buffer,
    copy_bytes,
    external,
    fill_bytes,
    global_bytes,
    i64,
    load_i16,
    multiply_pairs,
    prefetch,
    ptr,
    round_sixteen,
    store_i8,
    store_i16,
    tiles_begin,
    tiles_end,
    upper_halves,
)
from eagerjit.runtime.native.tiles import HAS_PAIRS, HAS_TILES

SIDE = 16  # rows or columns of a block
RUN = 32  # numbers along k of a block
PAIR_ROWS = 2 * SIDE  # and columns of a product
BLOCK = SIDE * RUN * 2  # its bytes
SUMS = 4 * SIDE * SIDE * 4  # bytes of what two blocks of rows and two of columns give
DEPTH = 256  # of the products done at a time: what is multiplied fits the first-level cache, B's columns the second
ROWS_AHEAD = 4  # that are fetched during a multiplication
PANEL = DEPTH // RUN * BLOCK
LEAST = 4096  # multiplications that are worth packing

_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18  # Linux lends a process the tiles when it asks
_permission = global_bytes(8)  # 0: not asked yet, 1: none, 2: given
syscall = external("i64 syscall(i64, i64, i64)")


def suits_pairs(m: i64, n: i64, k: i64) -> i64:
    """Whether a product of bfloat16 numbers is done this way."""
    if HAS_PAIRS == 0 or m * n * k < LEAST:
        return 0
    if HAS_TILES == 0:
        return 1
    known = atomic_load(_permission, 0)
    if known == 0:
        known = 2 if syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA) == 0 else 1
        atomic_store(_permission, 0, known)
    return known == 2


def _up(number: i64, multiple: i64) -> i64:
    return (number + multiple - 1) // multiple * multiple


def _depth(k: i64) -> i64:
    return DEPTH if k > DEPTH else _up(k, RUN)


def pair_scratch(rows: i64, columns: i64, k: i64) -> i64:
    """Bytes that `product_of_pairs` needs, whichever operand is packed whole."""
    height = _up(rows, 2 * SIDE)
    width = _up(columns, 2 * SIDE)
    packed = height if height > width else width
    return (packed + 2 * SIDE) * _depth(k) * 2 + (height * width * 4 if k > DEPTH else SUMS)


def product_of_pairs(
    item: i64, a: ptr, a_row: i64, a_column: i64, b: ptr, b_row: i64, b_column: i64, add: i64, c: ptr, c_row: i64,
    rows: i64, columns: i64, k: i64, scratch: ptr,
) -> None:  # fmt: skip
    """C = A @ B, C's columns adjacent; elements of 2 bytes, or of 4 where C may grow by the product (`add`)."""
    begin_products()
    if item == 2 and rows <= SIDE and b_row == 1:  # a few rows: B, which is read once, need not be turned around
        _product(item, b, b_column, b_row, a, a_column, a_row, add, c, 1, c_row, columns, rows, k, scratch)
    else:
        _product(item, a, a_row, a_column, b, b_row, b_column, add, c, c_row, 1, rows, columns, k, scratch)
    tiles_end()


def begin_products() -> None:
    """Tells the processor what its tiles are, until `tiles_end`."""
    tiles: ptr = buffer(64)
    fill_bytes(tiles, 0, 64)
    store_i8(tiles, 0, 1)
    for tile in range(8):
        store_i16(tiles, 16 + 2 * tile, 64)  # bytes of a row
        store_i8(tiles, 48 + tile, SIDE)  # rows
    tiles_begin(tiles)


def _least(a: i64, b: i64) -> i64:
    return a if a < b else b


def _product(
    item: i64, a: ptr, a_row: i64, a_column: i64, b: ptr, b_row: i64, b_column: i64, add: i64, c: ptr, c_row: i64,
    c_column: i64, rows: i64, columns: i64, k: i64, scratch: ptr,
) -> None:  # fmt: skip
    """C, whose rows or columns are adjacent. Sums wait in scratch memory for what is to be added to them."""
    width = _up(columns, 2 * SIDE)
    right: ptr = scratch + (_up(rows, 2 * SIDE) * width * 4 if k > DEPTH else SUMS)
    left: ptr = right + width * _depth(k) * 2
    start = 0
    while start < k:
        some = _least(DEPTH, k - start)
        blocks = (some + RUN - 1) // RUN
        step = blocks * BLOCK
        _pack(item, right, 1, b + start * b_row * item, columns, width, some, b_column, b_row)
        sums: ptr = scratch
        for row in range(0, rows, 2 * SIDE):
            few = _least(2 * SIDE, rows - row)
            at: ptr = a + (row * a_row + start * a_column) * item
            _pack(item, left, 0, at, few, 2 * SIDE, some, a_row, a_column)
            ahead = row + 2 * SIDE
            for column in range(0, width, 2 * SIDE):
                if a_column == 1:
                    at = a + (ahead * a_row + start) * item
                    _expect(at, a_row * item, _least(rows, row + 4 * SIDE) - ahead, some * item)
                    ahead += ROWS_AHEAD
                place: ptr = c + (row * c_row + column * c_column) * item
                thin = _least(2 * SIDE, columns - column)
                if add and start == 0:
                    _copy_floats(sums, 2 * SIDE, place, c_row, few, thin)
                panel: ptr = right + column // SIDE * step
                multiply_pairs(blocks, left, left + step, panel, panel + step, sums, i64(add or start > 0))
                if start + some == k:
                    if item == 4:
                        _copy_floats(place, c_row, sums, 2 * SIDE, few, thin)
                    else:
                        _store(place, c_row, c_column, sums, few, thin)
                if k > DEPTH:
                    sums = sums + SUMS
        start += some


def _expect(row: ptr, step: i64, rows: i64, size: i64) -> None:
    """Rows that are packed next, so many bytes each, come to the cache while others are multiplied."""
    for r in range(_least(rows, ROWS_AHEAD)):
        for at in range(0, size, 64):
            prefetch(row + r * step + at)


def _copy_floats(to: ptr, to_row: i64, source: ptr, source_row: i64, rows: i64, columns: i64) -> None:
    for r in range(rows):
        copy_run(to + r * to_row * 4, source + r * source_row * 4, columns * 4)


def _pack(item: i64, to: ptr, turned: i64, source: ptr, count: i64, width: i64, k: i64, step: i64, k_step: i64) -> None:
    """Blocks of `count` rows, or columns where `turned`, made up to `width`; those of the same rows lie together."""
    blocks = (k + RUN - 1) // RUN
    if k_step == 1:
        for first in range(0, width, SIDE):
            place: ptr = to + first * blocks * (BLOCK // SIDE)
            at: ptr = source + first * step * item
            _pack_rows(item, place, turned, at, _least(count - first, SIDE), k, step * item, blocks)
        return
    for block in range(blocks):  # neighbours share lines of the cache
        for first in range(0, width, SIDE):
            place = to + (first // SIDE * blocks + block) * BLOCK
            at = source + (first * step + block * RUN * k_step) * item
            some = _least(count - first, SIDE)
            _pack_block(item, place, turned, at, some, _least(k - block * RUN, RUN), step, k_step)


def _pack_rows(item: i64, to: ptr, turned: i64, source: ptr, count: i64, k: i64, step: i64, blocks: i64) -> None:
    """Blocks of so many rows of adjacent numbers, `step` bytes apart, or of columns, each read from end to end."""
    place: ptr = buffer(PANEL) if turned else to
    if count < SIDE or k % RUN != 0:
        fill_bytes(place, 0, blocks * BLOCK)
    for r in range(count):
        row: ptr = source + r * step
        at: ptr = place + r * (RUN * 2)
        for _ in range(k // RUN):
            if item == 2:
                copy_bytes(at, row, RUN * 2)
            else:
                upper_halves(at, row)
            row = row + RUN * item
            at = at + BLOCK
        for i in range(k % RUN):
            store_i16(at, i * 2, load_i16(row, i * item + item - 2))
    if turned:
        for block in range(blocks):
            interleave(to + block * BLOCK, SIDE, place + block * BLOCK, SIDE, SIDE, SIDE)


def _pack_block(item: i64, to: ptr, turned: i64, source: ptr, count: i64, k: i64, step: i64, k_step: i64) -> None:
    """A block of so many rows, or columns where `turned`, and numbers along k that are apart."""
    if count <= 0:
        fill_bytes(to, 0, BLOCK)
        return
    adjacent = i64(step == 1)
    place: ptr = to if adjacent == turned else buffer(BLOCK)
    if count < SIDE or k < RUN:
        fill_bytes(place, 0, BLOCK)
    if adjacent:
        _columns_together(item, place, source, count, k, k_step)
    else:
        for r in range(count):
            for i in range(k):
                number = load_i16(source, (r * step + i * k_step) * item + item - 2)
                store_i16(place, r * (RUN * 2) + i * 2, number)
    if place != to:
        interleave(to, SIDE, place, SIDE, SIDE, SIDE)


def _columns_together(item: i64, to: ptr, source: ptr, count: i64, k: i64, k_step: i64) -> None:
    """Pairs of numbers along k, those of adjacent columns side by side."""
    done = 0
    if count == SIDE:
        done = k & -2
        for i in range(0, done, 2):
            first: ptr = source + i * k_step * item
            if item == 2:
                alternate_halves(to + i * 32, first, first + k_step * 2)
            else:
                alternate_upper_halves(to + i * 32, first, first + k_step * 4)
    for i in range(done, k):
        for j in range(count):
            store_i16(to, i // 2 * 64 + j * 4 + i % 2 * 2, load_i16(source, (i * k_step + j) * item + item - 2))


def _store(c: ptr, c_row: i64, c_column: i64, sums: ptr, rows: i64, columns: i64) -> None:
    """Sums, rounded, where C's rows or its columns are adjacent."""
    if c_column == 1:
        for r in range(rows):
            for first in range(0, columns, SIDE):
                _store_run(c + (r * c_row + first) * 2, sums + (r * 2 * SIDE + first) * 4, columns - first)
        return
    turned: ptr = buffer(SIDE * SIDE * 4)
    for first in range(0, rows, SIDE):
        interleave(turned, SIDE, sums + first * 2 * SIDE * 4, 2 * SIDE, SIDE, columns)
        for i in range(columns):
            _store_run(c + (i * c_column + first) * 2, turned + i * SIDE * 4, rows - first)


def _store_run(to: ptr, sums: ptr, count: i64) -> None:
    if count >= SIDE:
        round_sixteen(to, sums)
        return
    rounded: ptr = buffer(SIDE * 2)
    round_sixteen(rounded, sums)
    for i in range(count):
        store_i16(to, i * 2, load_i16(rounded, i * 2))
