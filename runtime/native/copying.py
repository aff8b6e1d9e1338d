"""Copies of short runs of numbers, for which a call of the C library would take longer."""

from __future__ import annotations

from eagerjit.runtime.native.language import (
    copy_bytes,
    i64,
    load_i32,
    load_i64,
    ptr,
    store_i32,
    store_i64,
    transpose_tile,
)


def copy_apart(to: ptr, source: ptr, n: i64, step: i64, item: i64) -> None:
    """Copies every step-th of the elements."""
    if item == 4:
        for i in range(n):
            store_i32(to, i * 4, load_i32(source, i * step * 4))
    else:
        for i in range(n):
            store_i64(to, i * 8, load_i64(source, i * step * 8))


def copy_within(to: ptr, line: ptr, first: i64, step: i64, count: i64, size: i64) -> None:
    """Every step-th number of a line of `size` from `first` on, `count` of 4 bytes, as far as there are any."""
    begin = (step - 1 - first) // step if first < 0 else 0
    end = (size - first + step - 1) // step if first < size else 0
    end = end if end < count else count
    if begin >= end:
        return
    at = (first + begin * step) * 4
    if step == 1:
        copy_run(to + begin * 4, line + at, (end - begin) * 4)
    else:
        copy_apart(to + begin * 4, line + at, end - begin, step, 4)


def interleave(to: ptr, step: i64, source: ptr, row: i64, rows: i64, count: i64) -> None:
    """The first `count` numbers of `rows` rows of floats: those of a column side by side, columns `step` apart."""
    whole = count & -8
    r = 0
    while r + 8 <= rows:
        tile: ptr = source + r * row * 4
        place: ptr = to + r * 4
        for i in range(0, whole, 8):
            transpose_tile(8, place, step, tile + i * 4, row)
            place = place + step * 32
        _interleave_rows(place, step, tile + whole * 4, row, 8, count - whole)
        r += 8
    _interleave_rows(to + r * 4, step, source + r * row * 4, row, rows - r, count)


def _interleave_rows(to: ptr, step: i64, source: ptr, row: i64, rows: i64, count: i64) -> None:
    r = 0
    while r + 4 <= rows:
        first: ptr = source + r * row * 4
        second: ptr = first + row * 4
        third: ptr = second + row * 4
        fourth: ptr = third + row * 4
        place: ptr = to + r * 4
        i = 0
        while i + 8 <= count:
            transpose_tile(4, place, step, first + i * 4, row)
            place = place + step * 32
            i += 8
        while i < count:
            store_i32(place, 0, load_i32(first, i * 4))
            store_i32(place, 4, load_i32(second, i * 4))
            store_i32(place, 8, load_i32(third, i * 4))
            store_i32(place, 12, load_i32(fourth, i * 4))
            place = place + step * 4
            i += 1
        r += 4
    while r < rows:
        for i in range(count):
            store_i32(to, (i * step + r) * 4, load_i32(source, (r * row + i) * 4))
        r += 1


def copy_run(to: ptr, source: ptr, n: i64) -> None:
    """Copies a multiple of 4 bytes to elsewhere: short runs are not worth a call, and end in a move that overlaps."""
    if n >= 64:
        end = n - 64
        for i in range(0, end, 64):
            copy_bytes(to + i, source + i, 64)
        copy_bytes(to + end, source + end, 64)
    elif n >= 32:
        copy_bytes(to, source, 32)
        copy_bytes(to + n - 32, source + n - 32, 32)
    elif n >= 16:
        copy_bytes(to, source, 16)
        copy_bytes(to + n - 16, source + n - 16, 16)
    elif n >= 8:
        copy_bytes(to, source, 8)
        copy_bytes(to + n - 8, source + n - 8, 8)
    elif n == 4:
        copy_bytes(to, source, 4)
